"""Every benchmark by name. ``python -m benchmarks --list`` prints them, each with the first line of its module."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.table import Options, Table

Benchmark = Callable[[Options], Iterator[Table]]

_READ = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
BENCHMARKS: dict[str, str] = _READ["modules"]  # name -> module
SETTINGS: dict[str, list[str]] = _READ["settings"]  # what --set takes, for those that take any


def about(name: str) -> str:
    """What a benchmark measures, in one line; its module is read, not loaded."""
    path = Path(__file__).parent / f"{BENCHMARKS[name].replace('.', '/')}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(":")


def find(name: str) -> Benchmark:
    """The function ``measure`` of a benchmark's module, loaded now."""
    found: Benchmark = importlib.import_module(f"benchmarks.{BENCHMARKS[name]}").measure
    return found
