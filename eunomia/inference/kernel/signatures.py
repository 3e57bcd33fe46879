"""Types of the functions that plug into the kernel by pointer, so that a new rule never recompiles it.

``key(ready, system) -> float``: an ordering rule, least first. ``decide(ready, latency_s, demand_bytes_s,
energy_j, accelerators, system, answer, priority) -> count``: a whole policy over the View's arrays, which
writes rows (index of the sub-job, accelerator) into ``answer``. Both must not modify their inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

from numba import from_dtype, types

from eunomia.contract.rows import CompiledDecide, CompiledKey
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM
from eunomia.core.compiled import Compiled
from eunomia.inference.kernel.jit import compile_cached

P = ParamSpec("P")
R = TypeVar("R")
READY_TYPE, ACCELERATOR_TYPE, SYSTEM_TYPE = from_dtype(READY), from_dtype(ACCELERATOR), from_dtype(SYSTEM)
_floats = types.Array(types.float64, 2, "C", readonly=True)

KEY_SIGNATURE = types.float64(READY_TYPE, SYSTEM_TYPE)
DECIDE_SIGNATURE = types.int64(
    types.Array(READY_TYPE, 1, "C", readonly=True),
    _floats,
    _floats,
    _floats,
    types.Array(ACCELERATOR_TYPE, 1, "C", readonly=True),
    SYSTEM_TYPE,
    types.Array(types.int64, 2, "C"),
    types.Array(types.float64, 1, "C"),
)
KEY_TYPE = types.FunctionType(KEY_SIGNATURE)
DECIDE_TYPE = types.FunctionType(DECIDE_SIGNATURE)


@cache
def compile_key(function: Callable[..., float]) -> CompiledKey:
    """An ordering rule as machine code."""
    return _found_at_once(
        compile_cached(
            function, KEY_SIGNATURE, function.__qualname__, "inference/kernel", "inference/policies"
        ),
        KEY_SIGNATURE,
    )


@cache
def compile_decide(function: Callable[..., int]) -> CompiledDecide:
    """A policy over the View's arrays as machine code."""
    return _found_at_once(
        compile_cached(
            function, DECIDE_SIGNATURE, function.__qualname__, "inference/kernel", "inference/policies"
        ),
        DECIDE_SIGNATURE,
    )


def _found_at_once(dispatcher: Compiled[P, R], signature: object) -> Compiled[P, R]:
    """The same function with its addresses at hand.

    numba looks the address of a function argument up anew in every call, signature compared and symbol resolved: four
    times as long as the rest of a stepped decision. The code of a compiled rule never moves.
    """
    held: Any = dispatcher
    result = held.get_compile_result(signature)
    names = result.fndesc.llvm_cfunc_wrapper_name, result.fndesc.llvm_func_name
    addresses = {name: result.library.get_pointer_to_function(name) for name in names}
    library = SimpleNamespace(get_pointer_to_function=addresses.__getitem__, holds=result.library)
    known = SimpleNamespace(fndesc=result.fndesc, library=library)
    held.get_compile_result = lambda signature: known
    return dispatcher
