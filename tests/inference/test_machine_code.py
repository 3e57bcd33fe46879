"""Machine code on disk belongs to the function that asks for it, is whole, and is never needed."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite.binding import Linkage

from eunomia.contract.view import READY, SYSTEM
from eunomia.core.errors import ConfigError
from eunomia.inference.kernel import jit
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.machine_code import MachineCode, identity
from eunomia.inference.kernel.signatures import compile_key
from tests import children

SIGNATURE = numba.float64(numba.float64)
FACTOR = 2.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def times(factor: float) -> Callable[[float], float]:
    def scaled(x: float) -> float:
        return factor * x

    return scaled


def by_global(x: float) -> float:
    return FACTOR * x


def compiled(function: Any, stamp: str = "") -> Any:
    """``function`` compiled or loaded, and how often it was loaded."""
    dispatcher = compile_cached(function, SIGNATURE, "test", *([stamp] if stamp else []))
    return dispatcher, sum(dispatcher.stats.cache_hits.values())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_second_time_it_is_loaded(folder: Path) -> None:
    assert compiled(times(3.0))[1] == 0
    again, loaded = compiled(times(3.0))
    assert (loaded, again(2.0), len(files(folder))) == (1, 6.0, 1)


def test_functions_of_one_name_and_line_are_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [compiled(times(factor))[0](2.0) for factor in (3.0, -3.0)] == [6.0, -6.0]
    assert [compiled(f)[0](2.0) for f in (lambda x: 2.0 * x, lambda x: 5.0 * x)] == [4.0, 10.0]
    assert compiled(by_global)[0](2.0) == 4.0
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    assert compiled(by_global)[0](2.0) == 14.0


def test_rules_made_by_one_function_order_differently() -> None:
    def rule(sign: float) -> Callable[[Any, Any], float]:
        return lambda ready, system: sign * ready.deadline_s  # type: ignore[no-any-return]

    ready, system = np.zeros(1, READY), np.zeros(1, SYSTEM)
    ready["deadline_s"] = 4.0
    assert [compile_key(rule(sign))(ready[0], system[0]) for sign in (1.0, -1.0)] == [4.0, -4.0]


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:100], lambda b: b[:-1] + b"?", lambda b: b"?" + b]
)
def test_a_damaged_file_is_written_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    compiled(times(3.0))
    (path,) = files(folder)
    path.write_bytes(damage(path.read_bytes()))
    again, loaded = compiled(times(3.0))
    assert (loaded, again(2.0)) == (0, 6.0)
    assert compiled(times(3.0))[1] == 1


def test_other_sources_replace_the_file(folder: Path) -> None:
    compiled(times(3.0), "inference/kernel")
    assert compiled(times(3.0), "inference/policies")[1] == 0
    assert len(files(folder)) == 1


def test_sources_edited_while_the_process_runs_are_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "STARTED_S", 0.0)
    jit.source_stamp.cache_clear()
    assert compiled(times(3.0), "inference/kernel")[0](2.0) == 6.0
    assert files(folder) == []


def test_a_full_disk_costs_time_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert compiled(times(3.0))[0](2.0) == 6.0
    assert files(folder) == []


def test_no_folder_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachineCode, "_impl_class", staticmethod(_nowhere))
    assert compiled(times(3.0))[0](2.0) == 6.0


def _nowhere(function: Any) -> None:
    raise RuntimeError("cannot cache function: no locator available")


def test_a_function_typed_at_a_prompt_is_compiled() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def typed(x):\n    return 4.0 * x\n", names)
    assert compiled(names["typed"])[0](2.0) == 8.0


def test_what_cannot_be_identified_is_not_kept(folder: Path) -> None:
    unknown = object()

    def function(x: float) -> float:
        return x if unknown is None else 2.0 * x

    with pytest.raises(ValueError, match="in another process"):
        identity(function, set())


def test_without_a_compiler_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(ConfigError, match="NUMBA_DISABLE_JIT"):
        compiled(times(3.0))


def large(factor: float) -> Callable[[float], float]:
    """Too large to be inlined: a part that stands in machine code under a name."""

    def scaled(x: float) -> float:
        small = 0.0
        for n in range(9):
            small += math.sin(x + n) * math.cos(x - small) * math.exp(-abs(x)) + math.tan(x) * math.atan(
                x * n
            )
            small += (
                math.log1p(abs(x)) * math.tanh(x + small) + math.asinh(x) * math.erf(x) + math.hypot(x, n)
            )
            small -= math.sinh(x + n) * math.cosh(x - n) + math.lgamma(abs(x) + n + 1) * math.exp(-n * n)
            small /= 2.0 + math.sin(n) * math.cos(small) + math.exp(-abs(small)) * math.atan2(x, 1.0 + n)
            small -= math.erfc(x) * math.expm1(-abs(small)) + math.acosh(2.0 + abs(x)) * math.log(3.0 + n)
        return factor * x if small == small else small

    return scaled


def by_part(factor: float) -> Callable[[float], float]:
    scaled = jit.jitted(large(factor))

    def run(x: float) -> float:
        return scaled(x) + scaled(-2.0 * x)  # type: ignore[no-any-return]

    return run


def by_address(dispatcher: Any) -> Callable[[float], float]:
    """As the event loop calls a policy."""
    (made,) = dispatcher.overloads.values()
    address = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)


PROCESS = """
import sys
from tests.inference.test_machine_code import by_address, by_part, compiled

made = [compiled(by_part(float(factor))) for factor in sys.argv[1:]]
for run, loaded in made:
    print(loaded, run(-1.0), by_address(run)(-1.0))
"""


def test_code_of_two_processes_keeps_apart_in_a_third(folder: Path) -> None:
    """Two processes give their functions the same names: each makes its first one."""

    def process(*factors: str) -> list[str]:
        done = children.run(
            children.python("-c", PROCESS, *factors),
            env={"NUMBA_CACHE_DIR": str(folder)},
            cwd=ROOT,
            check=True,
        )
        return done.stdout.splitlines()

    assert process("3.0") == ["0 3.0 3.0"]
    assert process("5.0") == ["0 5.0 5.0"]
    assert process("3.0", "5.0") == ["1 3.0 3.0", "1 5.0 5.0"]


def test_a_part_is_called_from_python_beside_the_code_that_it_is_part_of(folder: Path) -> None:
    """There its unused argument is gone; here it is not."""
    inner = large(3.0)
    scale = jit.jitted(inner)

    def unused(x: float, nothing: float, weight: float) -> float:
        return weight * scale(x) + scale(-x)  # type: ignore[no-any-return]

    outer = jit.jitted(unused)
    assert compiled(lambda x: outer(x, 5.0 * x, 2.0) + outer(x, 7.0, 2.0) + scale(x))[0](2.0) == 18.0
    assert outer(2.0, 9.0, 4.0) == 18.0 and scale(2.0) == 6.0


def test_no_part_is_exported(folder: Path) -> None:
    """The linker would take another process's part of the same name for it."""
    (made,) = compiled(by_part(3.0))[0].overloads.values()
    linked = [f.linkage for f in made.library._final_module.functions if "scaled" in f.name]
    assert linked == [Linkage.internal]
