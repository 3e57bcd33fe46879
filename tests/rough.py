"""Capacities that are good enough where only a number is needed: a tenth of the requests calibrates a load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eunomia.study.inference import bench, capacity

REQUESTS = 800  # of each sample


@contextmanager
def rough_capacity() -> Iterator[None]:
    """Inside the block; none that was measured there is left for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "SAMPLE_REQUESTS", REQUESTS)
        yield
    bench._CAPACITY.clear()
    bench._prepare.cache_clear()
