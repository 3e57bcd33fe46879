"""The contention models stand in one table: the kernel's codes follow it, and no other list of them exists."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from eunomia.contract.contention import CONTENTION, Contention
from eunomia.inference.kernel.contention import MODES

ROOT = Path(__file__).parents[1]
HOLDERS = {"contract/contention.py", "inference/kernel/contention.py"}


def test_the_kernel_has_the_models_of_the_table_in_its_order() -> None:
    assert get_args(Contention) == tuple(CONTENTION) == MODES


def test_no_other_module_lists_the_models() -> None:
    found = {
        path.relative_to(ROOT / "eunomia").as_posix()
        for path in (ROOT / "eunomia").rglob("*.py")
        if all(f'"{name}"' in path.read_text() for name in ("moca_literal", "max_min"))
    }
    assert found == HOLDERS
