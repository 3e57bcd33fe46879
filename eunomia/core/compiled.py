"""How numba's functions outside the event loop are compiled: kept on disk where a folder can be written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar, overload

from numba import config, njit
from numba.extending import overload as implementation_of
from numba.np import arrayobj

from eunomia.core.parts import Outermost, compare_options_once, plain_part

compare_options_once()
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def _sizes_differ(given: object, wanted: object) -> None:
    """What numba calls where an array is assigned to a slice of another shape."""


@implementation_of(_sizes_differ)
def _raise_plainly(given: object, wanted: object) -> Callable[[object, object], None]:
    """A message without the shapes. For one with them, numba compiles thirty functions of strings beside this one."""

    def refuse(given: object, wanted: object) -> None:
        raise ValueError("cannot assign slice from input of different size")

    return refuse


arrayobj.raise_with_shape_context = _sizes_differ


class Compiled(Protocol[P, R_co]):
    """A function that numba compiles: called as before, and what else its dispatcher offers."""

    @property
    def py_func(self) -> Callable[P, R_co]:
        """The function in Python."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the machine code; without a signature, compile first for the types of these arguments."""

    def compile(self, signature: object) -> object:
        """Compile for these types now, or read the machine code from disk."""

    def disable_compile(self) -> None:
        """Refuse arguments of other types from now on, with TypeError."""


@overload
def compiled(function: Callable[P, R], /) -> Compiled[P, R]: ...


@overload
def compiled(
    *, error_model: str = "python", fastmath: set[str] | bool = False, keep: bool = True
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...


def compiled(
    function: Callable[P, R] | None = None,
    /,
    *,
    error_model: str = "python",
    fastmath: set[str] | bool = False,
    keep: bool = True,
) -> Compiled[P, R] | Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile on first use. ``error_model``: ``numpy`` divides by zero as NumPy does, ``python`` raises.

    ``fastmath``: what the compiler may take for granted of floats (LLVM's names), for instance that sums may be
    added in any order; then the last bits can differ between machines. ``keep``: False where only compiled functions
    call it: it is then a part of theirs (:mod:`parts`), compiled in less time. Under ``fastmath``, a part that is
    kept is linked where the disk has it, and inlined where not. Last bits would then depend on which came first.

    The cache knows a change by the file of the function that was called: after editing one that it calls in another
    file, touch the caller's. numba refuses to keep machine code where it finds no folder that it may write, as in a
    read-only container without a home; then every process compiles anew, some seconds once.
    """

    def compile_later(function: Callable[P, R]) -> Compiled[P, R]:
        made: Compiled[P, R]
        if config.DISABLE_JIT:
            made = njit(function)
            return made
        if not keep:
            made = plain_part(function, error_model, fastmath)
            return made
        options = {"nopython": True, "error_model": error_model, "fastmath": fastmath}
        made = whole = Outermost(function, targetoptions=options)
        with suppress(RuntimeError):
            whole.enable_caching()
        return made

    return compile_later if function is None else compile_later(function)
