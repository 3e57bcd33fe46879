"""Bounds checks of all compiled code, for tests and for hunting faults: NUMBA_BOUNDSCHECK=1.

numba then checks its own arrays, and core/addresses.py checks the items that it reaches by address. Both raise
IndexError. numba alone would still take a negative index as counted from the end, so that a sentinel of -1 writes to
the last item; here it is refused, as in C. Code with checks is kept on disk apart from code without (machine_code.py).
"""

from __future__ import annotations

from typing import Any

from numba import config, types
from numba.np import arrayobj


def refuse_negative_indices() -> None:
    """With bounds checks: take every whole number as it is, so that a negative one is out of bounds."""
    if config.BOUNDSCHECK:
        arrayobj.fix_integer_index = _as_it_is


def _as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)
