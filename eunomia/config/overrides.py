"""``--set a.b=c``: change one value of a scenario before it is validated."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable
from typing import Any

from eunomia.core.errors import ConfigError

Table = dict[str, Any]


def parse_override(text: str, option: str = "--set") -> tuple[str, object]:
    """``tenant.0.weight=2`` -> ("tenant.0.weight", 2). The value is TOML; bare words are text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        example = "load=0.9" if option == "--set" else "'load=[0.7, 0.9]'"
        raise ConfigError(f"{option} {text}: write KEY=VALUE, for example {option} {example}")
    return path.strip(), parse_value(value.strip())


def parse_overrides(texts: Iterable[str]) -> list[tuple[str, object]]:
    """Every KEY=VALUE. Raises ConfigError for one that is none, and for a text where several are meant."""
    if isinstance(texts, str):
        raise ConfigError(f"overrides is the text '{texts}'; give a list: ['{texts}']")
    return [parse_override(text) for text in texts]


def parse_value(text: str) -> object:
    """A TOML value, or the text itself where it is not one."""
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
        return value
    except tomllib.TOMLDecodeError:
        return text


def apply_overrides(data: Table, overrides: Iterable[tuple[str, object]]) -> Table:
    """A copy of ``data`` with every (key path, value) put in place."""
    changed = copy.deepcopy(data)
    for path, value in overrides:
        _put(changed, path, value)
    return changed


def _put(data: Table, path: str, value: object) -> None:
    keys = path.split(".")
    here: object = data
    for depth, key in enumerate(keys[:-1]):
        here = _step(here, key, path, ".".join(keys[:depth]))
    if isinstance(here, list):
        here[_index(here, keys[-1], path)] = copy.deepcopy(value)
    elif isinstance(here, dict):
        here[keys[-1]] = copy.deepcopy(value)
    else:
        raise ConfigError(f"cannot set {path}: {'.'.join(keys[:-1])} is {here!r}, not a table")


def _step(here: object, key: str, path: str, so_far: str) -> object:
    if isinstance(here, list):
        return here[_index(here, key, path)]
    if isinstance(here, dict):
        return here.setdefault(key, {})
    raise ConfigError(f"cannot set {path}: {so_far} is {here!r}, not a table")


def _index(entries: list[object], key: str, path: str) -> int:
    """An entry of a list by number, or by its ``name``."""
    if key.isdigit() and int(key) < len(entries):
        return int(key)
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if key in names:
        return names.index(key)
    known = ", ".join(str(name) for name in names if name)
    also = f" or a name ({known})" if known else ""
    raise ConfigError(f"cannot set {path}: no entry '{key}'; use a number from 0 to {len(entries) - 1}{also}")


def flatten(table: Table, prefix: str = "") -> Table:
    """Nested tables as dotted keys: ``{platform: {count: [1, 2]}}`` -> ``{"platform.count": [1, 2]}``."""
    flat: Table = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
