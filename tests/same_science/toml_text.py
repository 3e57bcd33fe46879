"""Plain values as TOML, written here so that the scenarios do not depend on the checkout under test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = "str | bool | int | float | Sequence[Value] | Mapping[str, Value]"
Table: TypeAlias = "dict[str, Value]"


def toml(table: Mapping[str, Value]) -> str:
    """A document: one line per key of the top level, everything below it inline."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return "[" + ", ".join(_value(each) for each in value) + "]"


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)
