"""A small package with something that Eunomia finds by an entry point, and its contract test."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(help="Its name: letters, digits and underscores.")]
Into = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder to write, instead of ./NAME; new or empty.")
]
PROJECT = """[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "eunomia-DASHED"
version = "0.1.0"
description = "The KIND NAME for Eunomia"
requires-python = ">=3.11"
dependencies = ["eunomia"]

[project.optional-dependencies]
test = ["pytest>=8.3"]

[project.entry-points."ENTRY_GROUP"]
NAME = "NAME:NAME"

[tool.hatch.build.targets.wheel]
packages = ["NAME"]
"""
TEST = '''"""NAME keeps the contract of a KIND, and its entry point leads to it."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

from CHECK_MODULE import CHECK
from NAME import NAME

GROUP = "ENTRY_GROUP"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_WHAT_IT_KEEPS():
    CHECK(NAME)


def test_its_entry_point_leads_to_it():
    named = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
    assert EntryPoint("NAME", named["NAME"], GROUP).load() is NAME
'''


def write_package(name: str, target: Path, module: str, words: Mapping[str, str]) -> None:
    """Write it whole or not at all. ``words``: what stands for the capitals above. Raises OutputError."""
    from eunomia.core.atomic import flush_text, staging

    _check_empty(target)
    said = {**words, "DASHED": name.replace("_", "-"), "NAME": name}
    with staging(target) as folder:
        for file, text in {
            "pyproject.toml": PROJECT,
            f"{name}/__init__.py": module,
            "tests/test_contract.py": TEST,
        }.items():
            for word in sorted(said, key=len, reverse=True):
                text = text.replace(word, said[word])
            (folder / file).parent.mkdir(exist_ok=True)
            flush_text(folder / file, text)


def check_name(name: str, what: str, taken: Callable[[str], bool], example: str) -> None:
    """Raises ConfigError for a name that no package of a ``what`` can have."""
    from eunomia.core.errors import ConfigError

    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise ConfigError(
            f"a {what} cannot be called '{name}'; take letters, digits and underscores, a letter first, as in {example}"
        )
    if taken(name):
        raise ConfigError(f"there is a {what} '{name}' already, which would win; choose another name")
    found = find_spec(name)
    if found is not None and found.origin is not None:  # a mere folder has none
        raise ConfigError(f"there is a Python module '{name}' already ({found.origin}); choose another name")


def _check_empty(target: Path) -> None:
    from eunomia.core.errors import OutputError

    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise OutputError(f"'{target}' exists already; choose another name, or a new folder with --into DIR")
