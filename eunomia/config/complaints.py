"""Pydantic's findings as sentences: file, key path, value, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from eunomia.core.errors import ConfigError

SHOWN = 5
ABSENT = object()  # what no table holds

LIMITS = {
    "greater_than": ("gt", "it must be greater than {}"),
    "greater_than_equal": ("ge", "it must be at least {}"),
    "less_than": ("lt", "it must be less than {}"),
    "less_than_equal": ("le", "it must be at most {}"),
    "too_short": ("min_length", "it must hold at least {} entries"),
    "too_long": ("max_length", "it must hold at most {} entries"),
    "string_too_short": ("min_length", "it must have at least {} characters"),
    "string_too_long": ("max_length", "it must have at most {} characters"),
}
ONE = {
    "it must hold at least 1 entries": "it must hold at least 1 entry",
    "it must hold at most 1 entries": "it must hold at most 1 entry",
    "it must have at least 1 characters": "it must not be empty",
}
KINDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "list_type": "a list [ ... ]",
    "dict_type": "a table { ... }",
    "model_type": "a table { ... }",
    "model_attributes_type": "a table { ... }",
    "finite_number": "a finite number",
}


def config_error(error: ValidationError, data: object, source: str, own: Collection[str] = ()) -> ConfigError:
    """One ConfigError for everything pydantic found, one sentence per finding. ``own``: keys of the file itself."""
    sentences = list(dict.fromkeys(f"{source}: {_sentence(detail, data, own)}" for detail in error.errors()))
    more = len(sentences) - SHOWN
    tail = [f"{source}: and {more} more"] if more > 0 else []
    return ConfigError("\n".join(sentences[:SHOWN] + tail))


def _sentence(detail: ErrorDetails, data: object, own: Collection[str]) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    path = key_path(detail["loc"], data, absent_last=kind == "missing")
    where = path or "the file"
    if kind == "missing":
        parent, _, key = path.rpartition(".")
        return f"{parent or 'the file'} lacks the key '{key}'"
    if kind == "unknown_key" and path and context["key"] in own:
        return f"{path}: '{context['key']}' is no key of this table but of the file: write it above the first [[table]]"
    if kind == "list_type" and isinstance(value, dict) and "." not in path:
        return f"{where} is one table; write [[{path}]], for each"
    if kind in ("unknown_key", "wrong"):
        return f"{path}: {detail['msg']}" if path else str(detail["msg"])
    if kind in LIMITS:
        name, words = LIMITS[kind]
        limit = format(context[name], "g")
        return f"{where} is {show(value)}; {ONE.get(words.format(limit), words.format(limit))}"
    if kind == "string_pattern_mismatch":
        return f"{where} is {show(value)}; it must match the regular expression {context['pattern']}"
    if kind in KINDS:
        return f"{where} is {show(value)}; it must be {KINDS[kind]}"
    if kind == "union_tag_invalid":
        where = f"{where}.{str(context['discriminator']).strip(chr(39))}"
        return f"{where} is {show(context['tag'])}; {choices(context['tag'], str(context['expected_tags']))}"
    if kind == "union_tag_not_found":
        return f"{where} lacks the key {context['discriminator']}"
    if kind == "literal_error":
        return f"{where} is {show(value)}; {choices(value, str(context['expected']))}"
    return f"{where} is {show(value)}; {detail['msg']}"


def choices(value: object, expected: str) -> str:
    """``choose one of`` with the nearest name first; ``expected`` is pydantic's quoted list."""
    names = [part.strip().strip("'") for part in expected.replace(" or ", ",").split(",")]
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}choose one of: {', '.join(names)}"


def show(value: object) -> str:
    """A value as it would be written in TOML, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def key_path(location: tuple[int | str, ...], data: object, absent_last: bool = False) -> str:
    """Pydantic's location as the user's key path: tags of unions, which are not keys, are left out.

    ``absent_last``: the last part names a key that is missing, so it is kept.
    """
    parts: list[str] = []
    here: object = data
    for index, part in enumerate(location):
        last = index == len(location) - 1
        inside = _held(here, part)
        if inside is not ABSENT:
            here = inside
        elif not (last and absent_last):
            continue
        parts.append(_called(part, here))
    return ".".join(parts)


def _called(part: int | str, entry: object) -> str:
    """An entry of a list by its name, where it has one, as ``--set`` takes it; anything else as it is."""
    name = entry.get("name") if isinstance(part, int) and isinstance(entry, dict) else None
    return name if isinstance(name, str) and name and name.isprintable() else str(part)


def _held(here: object, part: int | str) -> object:
    """What a table or a list holds under this part of a location, or ABSENT."""
    if isinstance(here, dict):
        return here.get(part, ABSENT)
    if isinstance(here, list) and isinstance(part, int) and part < len(here):
        return here[part]
    return ABSENT
