"""The compiled sort is a stable one."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from eunomia.inference.kernel.sorting import RUN, rows_of, sort_rows


@njit
def ordered(value: np.ndarray) -> np.ndarray:
    order = rows_of(len(value))
    sort_rows(order, value)
    return order


@pytest.mark.parametrize("count", [0, 1, 2, RUN - 1, RUN, RUN + 1, 2 * RUN, 5 * RUN + 3, 1000])
@pytest.mark.parametrize("different", [1, 3, 10_000])
def test_it_orders_as_numpy_does(count: int, different: int) -> None:
    value = np.random.default_rng(count).integers(0, different, count).astype(float)
    value[::7] = np.inf
    assert ordered(value).tolist() == np.argsort(value, kind="stable").tolist()
