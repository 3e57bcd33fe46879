"""How kernel functions are compiled. Only the event loop is cached on disk: it contains all the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def jitted(function: Function) -> Function:
    """Compile on first use, with NumPy's rules for division by zero."""
    return njit(error_model="numpy")(function)
