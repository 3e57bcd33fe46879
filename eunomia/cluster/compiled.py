"""How functions of the cluster wing are compiled: kept on disk where a folder can be written, in memory elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(
    function: Callable[..., Any], error_model: str = "python", fastmath: set[str] | bool = False
) -> Any:
    """Compile on first use. ``error_model``: ``numpy`` divides by zero as NumPy does, ``python`` raises.

    ``fastmath``: what the compiler may take for granted of floats (LLVM's names), for instance that sums may be
    added in any order; then the last bits can differ between machines.

    The cache knows a change by the file of the function that was called: after editing one that it calls in another
    file, touch the caller's. numba refuses to keep machine code where it finds no folder that it may write, as in a
    read-only container without a home; then every process compiles anew, some seconds once.
    """
    try:
        return njit(cache=True, error_model=error_model, fastmath=fastmath)(function)
    except RuntimeError:
        return njit(error_model=error_model, fastmath=fastmath)(function)
