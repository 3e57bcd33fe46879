"""How kernel functions are compiled and kept on disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import ParamSpec, TypeVar

from numba import config, njit

from eunomia.core.compiled import Compiled
from eunomia.core.errors import ConfigError
from eunomia.core.parts import WholeCompiler, no_collections, part, write_records_once
from eunomia.inference.kernel.bounds import refuse_negative_indices
from eunomia.inference.kernel.machine_code import MachineCode, identity

refuse_negative_indices()
write_records_once()
STARTED_S = time.time()  # sources that are younger are not what this process runs
Function = TypeVar("Function", bound=Callable[..., object])
P = ParamSpec("P")
R = TypeVar("R")


def jitted(function: Function) -> Function:
    """Compile on first use by another compiled function; callable from Python, too, at the price of compiling twice."""
    return part(function)


@cache
def source_stamp(*folders: str) -> str:
    """Hash of the sources in these folders of ``eunomia`` and of those that are always compiled with them.

    Raises ValueError where one was edited since this process began: it may have imported the old text, and its machine
    code, kept under the new text's hash, would be wrong for all who come later.
    """
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    always = [
        root / "contract" / "view.py",
        root / "core" / "addresses.py",
        root / "core" / "parts.py",
        *root.glob("contract/contention/*.py"),
    ]
    for path in sorted([*always, *(path for name in folders for path in root.glob(f"{name}/*.py"))]):
        if path.stat().st_mtime > STARTED_S:
            raise ValueError(f"{path} was edited while this process ran; its machine code is not kept")
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _under_own_name(function: Callable[P, R], content: str) -> Callable[P, R]:
    """A copy whose name says what it holds. numba adds a count of this process, and another's code may have it, too."""
    if not isinstance(function, FunctionType):
        return function
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__, copy.__module__ = function.__kwdefaults__, function.__module__
    copy.__qualname__ = f"{function.__qualname__}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return copy


def compile_cached(function: Callable[P, R], signature: object, name: str, *folders: str) -> Compiled[P, R]:
    """Compile for one signature, or load the machine code from the cache.

    ``name`` tells it from others of the same name and line; ``folders``: where the functions that it calls may stand.
    """
    if config.DISABLE_JIT:
        raise ConfigError("NUMBA_DISABLE_JIT is set, but the engine is compiled code; unset it and run again")
    with suppress(ValueError):  # nothing to know it by
        function = _under_own_name(function, repr((name, identity(function, set()), str(signature))))
    dispatcher = njit(error_model="numpy", pipeline_class=WholeCompiler)(function)
    with suppress(RuntimeError, ValueError):  # typed at a prompt, no folder, or nothing to know it by
        dispatcher._cache = MachineCode(function, name, source_stamp(*folders))
    with no_collections():
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    made: Compiled[P, R] = dispatcher
    return made
