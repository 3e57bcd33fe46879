"""Each list of names stands once: no other tuple, set, dictionary or Literal of the package holds all its names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from eunomia.contract.contention import CONTENTION
from eunomia.learning.encodings import ENCODINGS
from eunomia.serving.devices.backends import BACKENDS
from eunomia.serving.fronts import FRONTS
from eunomia.workload.tenant import SLI_KINDS

PACKAGE = Path(__file__).parents[1] / "eunomia"
LISTS: dict[str, set[str]] = {
    "contract/contention/__init__.py": set(CONTENTION),
    "workload/tenant.py": set(SLI_KINDS),
    "learning/encodings.py": set(ENCODINGS),
    "serving/devices/backends.py": set(BACKENDS),
    "serving/fronts/__init__.py": set(FRONTS),
}


@cache
def displays(root: Path) -> dict[str, list[set[str]]]:
    """Per file: the strings of every tuple, list and set, and the keys of dictionaries; a Literal holds a tuple."""
    return {
        path.relative_to(root).as_posix(): [*_displays(ast.parse(path.read_text(encoding="utf-8")))]
        for path in root.rglob("*.py")
    }


def _displays(tree: ast.AST) -> Iterator[set[str]]:
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        if parts:
            yield {p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}


def holders(names: set[str], root: Path) -> set[str]:
    """Files below ``root`` with a display of all these names."""
    return {path for path, found in displays(root).items() if any(names <= strings for strings in found)}


@pytest.mark.parametrize("home", LISTS)
def test_a_list_stands_in_its_home_alone(home: str) -> None:
    assert holders(LISTS[home], PACKAGE) <= {home}


def test_a_second_list_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "second.py").write_text(f"KINDS = {tuple(reversed(SLI_KINDS))!r}\n")
    (tmp_path / "third.py").write_text(f"Kind = Literal[{', '.join(map(repr, SLI_KINDS))}]\n")
    (tmp_path / "part.py").write_text('SHARES = ("hit_rate", "drop_rate")\n')
    assert holders(set(SLI_KINDS), tmp_path) == {"second.py", "third.py"}
