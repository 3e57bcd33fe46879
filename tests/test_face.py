"""What ``import eunomia`` offers: the intended names and nothing else, each of which can be had."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import eunomia

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = (CHECKOUT / "docs" / "api.md").read_text(encoding="utf-8")


def test_dir_shows_the_intended_names_alone() -> None:
    assert sorted(dir(eunomia)) == sorted([*eunomia.__all__, "__version__"])
    assert eunomia.__all__ == sorted(eunomia.__all__, key=lambda name: name)


def test_the_lazy_names_are_those_that_are_promised() -> None:
    assert set(eunomia._WHERE) == {*eunomia.__all__, "__version__"}


def test_all_wings_are_there() -> None:
    wanted = {
        "run",
        "compare",
        "run_cluster",
        "compare_cluster",
        "evaluate",
        "distill",
        "train",
        "serve",
        "Model",
    }
    assert wanted <= set(eunomia.__all__)


@pytest.mark.parametrize("name", eunomia.__all__)
def test_a_name_can_be_had_and_says_what_it_is(name: str) -> None:
    assert (getattr(eunomia, name).__doc__ or "").strip(), f"eunomia.{name} has no docstring"


@pytest.mark.parametrize("name", eunomia.__all__)
def test_a_name_stands_in_the_reference(name: str) -> None:
    assert re.search(rf"`{name}\b", PAGE), f"docs/api.md does not name {name}"


def test_another_name_is_refused_as_any_module_refuses_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        eunomia.rum  # noqa: B018
