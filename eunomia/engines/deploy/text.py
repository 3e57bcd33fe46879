"""Objects as YAML, without a library: strings are quoted as in JSON, long texts are blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from eunomia.engines.deploy.plan import Raw

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
NO_TEXT = frozenset(["y", "yes", "n", "no", "true", "false", "on", "off", "null"])  # as a key of YAML 1.1
LINES = re.compile(r"(?:\S(?:[\x20-\x7e]*[\x21-\x7e])?\n)(?:(?:[\x20-\x7e]*[\x21-\x7e])?\n)*(?<=[^\n]\n)")


def documents(objects: Iterable[object]) -> str:
    """Several objects in one file."""
    return "---\n".join(yaml(each) for each in objects)


def yaml(value: object) -> str:
    """One object; the same text for the same object."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: object) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, inner in value.items() for line in _entry(f"{_key(key)}:", inner)]
    if isinstance(value, list | tuple) and value:
        return [line for inner in value for line in _item(inner)]
    return [_scalar(value)]


def _entry(head: str, value: object) -> list[str]:
    if isinstance(value, Raw) and "\n" in value or isinstance(value, str) and LINES.fullmatch(value):
        return [f"{head} |", *(f"  {line}".rstrip() for line in value.rstrip("\n").split("\n"))]
    if isinstance(value, dict | list | tuple) and value:
        return [head, *(f"  {line}" for line in _lines(value))]
    return [f"{head} {_scalar(value)}"]


def _item(value: object) -> list[str]:
    if isinstance(value, dict | list | tuple) and value:
        first, *rest = _lines(value)
        return [f"- {first}", *(f"  {line}" for line in rest)]
    return [f"- {_scalar(value)}"]


def _key(key: str) -> str:
    return key if KEY.fullmatch(key) and key.lower() not in NO_TEXT else _quoted(key)


def _scalar(value: object) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, str):
        return _quoted(value)
    text = json.dumps(value)
    if isinstance(value, float) and "." not in text:  # 1e16 would be a text
        return text.replace("e", ".0e")
    return text


def _quoted(text: str) -> str:
    return "".join(
        letter if " " <= letter <= "~" else f"\\U{ord(letter):08X}"
        for letter in json.dumps(text, ensure_ascii=False)
    )
