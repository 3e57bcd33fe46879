"""What a result file says of one layer, and how wrong files are refused."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.errors import TraceError


@dataclass(frozen=True)
class LayerFigures:
    """``name``: of the layer, as the file calls it; empty where it has none. None = the file does not say."""

    name: str
    cycles: float
    energy_j: float | None = None
    dram_words: float | None = None


def text_of(path: Path) -> str:
    """A file's text. Raises TraceError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise TraceError("is not UTF-8 text", path) from error


def csv_rows(path: Path, needed: str, tool: str) -> list[dict[str, str]]:
    """Rows of a CSV by heading without blanks around it. Raises TraceError unless it has the column ``needed``."""
    reader = csv.DictReader(io.StringIO(text_of(path)))
    header = [name.strip() for name in reader.fieldnames or ()]
    if needed not in header:
        raise TraceError(f"has no column '{needed}', so it is no result of {tool}", path, 1, needed)
    reader.fieldnames = header
    rows = [{key: (value or "").strip() for key, value in row.items() if key} for row in reader]
    if not rows:
        raise TraceError("holds no layers", path)
    return rows


def positive(text: object, path: Path, line: int | None, column: str) -> float:
    """A positive number. Raises TraceError with its place."""
    try:
        value = float(str(text))
    except ValueError:
        raise TraceError(f"'{text}' is not a number", path, line, column) from None
    if not (math.isfinite(value) and value > 0.0):
        raise TraceError(f"{text} is not a positive number", path, line, column)
    return value
