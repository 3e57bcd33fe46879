"""Data files with facts about hardware: TOML tables read into frozen dataclasses, strictly."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from eunomia.core.errors import PlatformError

Facts = TypeVar("Facts")
DATA = Path(__file__).parent / "data"


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table; raises PlatformError naming the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlatformError(f"cannot read hardware file '{path}': {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlatformError(f"{path} is not a TOML file: {error}") from error


def presets(folder: str) -> dict[str, Path]:
    """Name -> file of the presets shipped in ``data/<folder>``, by name."""
    return {path.stem: path for path in sorted((DATA / folder).glob("*.toml"))}


def from_table(cls: type[Facts], table: Mapping[str, object], source: str) -> Facts:
    """Build dataclass ``cls`` from a table: unknown, missing and mistyped keys are refused by name."""
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise PlatformError(f"{source}: unknown key '{key}'; {hint}known keys: {', '.join(known)}")
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise PlatformError(f"{source}: the key '{name}' is missing")
    hints = get_type_hints(cls)
    return cls(**{key: _typed(value, hints[key], f"{source}: {key}") for key, value in table.items()})


def _typed(value: Any, kind: Any, place: str) -> Any:
    """``value`` as a plain ``kind``; whole numbers are accepted where a real one is wanted."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    names = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}
    if kind in names and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise PlatformError(f"{place} is {value!r}; it must be {names[kind]}")
    return value
