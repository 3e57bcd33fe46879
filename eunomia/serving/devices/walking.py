"""Machine code that finds the elements of string tensors, for the process in which everybody waits meanwhile.

Workers and the process of ``json_work`` do without: numba would cost each its memory.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from numba import types

from eunomia.core.compiled import Compiled, compiled
from eunomia.serving.devices.strings import LENGTH, Elements, Places


def walk_compiled() -> None:
    """From now on, in this process."""
    steps = _compiled()

    def walked(raw: bytes | memoryview, most: int) -> Places:
        content, starts = np.frombuffer(raw, np.uint8), np.empty(min(most, len(raw) // LENGTH.size), np.int64)
        content.flags.writeable = False  # the type that it is compiled for
        return starts[: steps(content, starts)]

    Elements.walk = staticmethod(walked)


@cache
def _compiled() -> Compiled[[npt.NDArray[np.uint8], Places], int]:
    """Compiled, or read from disk; it refuses what would have to be compiled later."""
    raw = types.Array(types.uint8, 1, "C", readonly=True)
    _steps.compile((raw, types.Array(types.int64, 1, "C")))
    _steps.disable_compile()
    return _steps


@compiled
def _steps(raw: npt.NDArray[np.uint8], starts: Places) -> int:
    """Fill in where elements begin; returns how many."""
    at, count = 0, 0
    while at + 4 <= len(raw) and count < len(starts):
        starts[count] = at
        count += 1
        at += 4 + (int(raw[at]) | int(raw[at + 1]) << 8 | int(raw[at + 2]) << 16 | int(raw[at + 3]) << 24)
    return count
