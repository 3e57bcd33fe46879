"""How much Python does, counted: the same on any machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable


def steps(work: Callable[[], object]) -> int:
    """Calls in Python and from it, and turns of its loops over generators, the second time."""
    count = 0

    def seen(*_: object) -> None:
        nonlocal count
        count += 1

    work()  # what is done once
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
