"""Real inputs that are too large, or too much somebody else's, to live in the repository.

They lie in a folder named ``shared`` beside the checkout, or wherever ``EUNOMIA_SHARED`` points.
A test that needs one is skipped, and says so, where the folder is absent.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parent.parent


def shared_root() -> Path:
    """The folder that holds ``data/``: $EUNOMIA_SHARED, or ``../shared`` beside the checkout."""
    named = os.environ.get("EUNOMIA_SHARED")
    return Path(named) if named else _CHECKOUT.parent / "shared"


def shared(name: str) -> Path:
    """Path of ``data/<name>``; skips the calling test, with the reason, when it is not there."""
    path = shared_root() / "data" / name
    if not path.exists():
        pytest.skip(f"needs {name} under $EUNOMIA_SHARED/data or ../shared/data")
    return path
