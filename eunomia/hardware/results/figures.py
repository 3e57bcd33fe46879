"""What a result file says of one layer, and how wrong files are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.core.sheet import read_sheet, text_of


@dataclass(frozen=True)
class LayerFigures:
    """``name``: of the layer, as the file calls it; empty where it has none. None = the file does not say."""

    name: str
    cycles: float
    energy_j: float | None = None
    dram_words: float | None = None


def json_of(path: Path, tool: str) -> object:
    """What a JSON file holds. Raises TraceError, for a pickle too: reading one may run code."""
    data = path.read_bytes()[:1] if path.is_file() else b""
    if path.suffix in (".pickle", ".pkl") or data == b"\x80":
        raise TraceError(f"is a pickle, which could run code; give the JSON of {tool}", path)
    try:
        return json.loads(text_of(path))
    except json.JSONDecodeError as error:
        raise TraceError(f"is not JSON: {error.msg}", path, error.lineno) from error


def csv_rows(path: Path, needed: Sequence[str], tool: str) -> tuple[str, list[tuple[int, dict[str, str]]]]:
    """The first column of ``needed`` that is there; rows by heading, with their lines. Raises TraceError."""
    sheet = read_sheet(path, ("Layer", "Layer Number"))
    column = next((name for name in needed if name in sheet.header), None)
    if column is None:
        raise TraceError(f"has no column '{needed[0]}', so it is no result of {tool}", path, 1, needed[0])
    if not sheet.rows:
        raise TraceError("holds no layers", path)
    return column, sheet.rows


def positive(text: object, path: Path, line: int | None, column: str) -> float:
    """A positive number. Raises TraceError with its place."""
    value = number(text, path, line, column)
    if value == 0.0:
        raise TraceError(f"{text} is not a positive number", path, line, column)
    return value


def number(text: object, path: Path, line: int | None, column: str) -> float:
    """A number that is not negative. Raises TraceError with its place."""
    try:
        value = float(str(text))
    except ValueError:
        raise TraceError(f"'{text}' is not a number", path, line, column) from None
    if not (math.isfinite(value) and value >= 0.0):
        raise TraceError(f"{text} is not a positive number", path, line, column)
    return value
