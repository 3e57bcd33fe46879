"""Work counted instead of timed: lines of Python that a call executes.

Two runs give the same number on any machine under any load. Compiled code (NumPy, numba, Arrow) counts nothing, so a
count that does not grow with the input shows that no loop of Python goes over it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(work: Callable[[], Any]) -> tuple[int, Any]:
    """Executed lines, and the result."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        result = work()
    finally:
        sys.settrace(before)
    return count, result
