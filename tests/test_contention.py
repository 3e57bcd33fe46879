"""The contention models stand in one table: the kernel's codes follow it, and no other list of them exists."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from eunomia.contract.contention import CONTENTION, Contention
from eunomia.contract.contention.model import ContentionModel
from eunomia.inference.kernel.contention import CODES

ROOT = Path(__file__).parents[1]


def test_the_kernel_and_the_scenario_file_have_the_models_of_the_table() -> None:
    assert get_args(Contention) == tuple(CONTENTION) == tuple(CODES)


def test_no_other_module_lists_the_models() -> None:
    found = {
        path.relative_to(ROOT / "eunomia").as_posix()
        for path in (ROOT / "eunomia").rglob("*.py")
        if all(f'"{name}"' in path.read_text() for name in ("moca_literal", "max_min"))
    }
    assert found == {"contract/contention/__init__.py"}


def test_a_model_has_one_compiled_form() -> None:
    some = CONTENTION["proportional"]
    for alike, split in ((None, None), (some.alike, CONTENTION["max_min"].split)):
        with pytest.raises(ValueError, match="either alike or split"):
            ContentionModel(some.plain, alike=alike, split=split)
