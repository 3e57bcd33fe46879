"""Machine code on disk: one file per function, types and processor, checked before it is used.

numba keeps an index per function name and line, and the code beside it. Two processes that compile two
functions of one name at once (the four event loops, the rules of a sweep) can leave an index that names the
other one's code, and a damaged file stops the program. Here the name of a file says what it holds, its
first bytes say of which sources and whether it is whole, and a folder that cannot be written costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import serialize
from numba.core.caching import FunctionCache

from eunomia.core.atomic import write_bytes
from eunomia.core.errors import OutputError

SUM_BYTES = 32  # of a SHA-256 sum


class MachineCode(FunctionCache):  # type: ignore[misc]
    """Keeps one function. Raises RuntimeError where numba finds no folder, ValueError where it cannot be identified.

    ``name`` tells apart functions of one name in one file, ``stamp`` changes with the sources that they call.
    """

    def __init__(self, function: Callable[..., Any], name: str, stamp: str) -> None:
        super().__init__(function)
        self._identity = name, identity(function, set())
        self._stamp = _sum(repr((stamp, numba.__version__, self._impl.locator.get_source_stamp())).encode())

    def _file(self, signature: Any, codegen: Any) -> Path:
        how = numba.config.BOUNDSCHECK or 0, int(numba.config.OPT)  # code with checks is kept apart
        key = _sum(repr((self._identity, str(signature), codegen.magic_tuple(), how)).encode()).hex()
        return Path(self._cache_path) / f"{self._impl.filename_base}.{key[:24]}.nbc"

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            content = self._file(signature, target_context.codegen()).read_bytes()
        except OSError:
            return None
        head, body = content[: 2 * SUM_BYTES], content[2 * SUM_BYTES :]
        if head != self._stamp + _sum(body):
            return None
        return self._impl.rebuild(target_context, pickle.loads(body))

    def _save_overload(self, signature: Any, data: Any) -> None:
        if not self._impl.check_cachable(data):
            return
        with contextlib.suppress(OSError, OutputError):  # compiled anew next time
            self._impl.locator.ensure_cache_path()
            body = serialize.dumps(self._impl.reduce(data))
            write_bytes(self._file(signature, data.codegen), self._stamp + _sum(body) + body)


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def identity(value: Any, seen: set[int]) -> Any:
    """What numba freezes into the code of a function: its byte code, and all that it takes from around it.

    Functions of this package stand by name, since ``stamp`` covers them; those of others go in whole.
    """
    function = getattr(value, "py_func", getattr(value, "__wrapped__", value))
    code = getattr(function, "__code__", None)
    if code is not None:
        name = (function.__module__, function.__qualname__)
        if id(function) in seen or (seen and (function.__module__ or "").startswith("eunomia.")):
            return name
        seen.add(id(function))
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        known = function.__globals__
        taken = [known[word] for word in _words(code) if word in known]
        return name, _constant(code), [identity(part, seen) for part in (*cells, *taken)]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return [identity(part, seen) for part in value]
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        return repr(value)
    if isinstance(value, (type, ModuleType, BuiltinFunctionType, np.ufunc)):
        return value.__name__
    raise ValueError(f"cannot tell what {value!r} will be in another process")


def _words(code: CodeType) -> list[str]:
    """Names that a function and those inside it look up."""
    inner = [
        word for constant in code.co_consts if isinstance(constant, CodeType) for word in _words(constant)
    ]
    return [*code.co_names, *inner]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, [_constant(part) for part in value.co_consts]
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    return repr(value)
