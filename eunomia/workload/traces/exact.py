"""CSV files read slowly and exactly: to name the line and the column that is wrong."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eunomia.core.errors import TraceError

Kind = Literal["text", "float", "int", "stamp"]
_WANTED = {
    "text": "text",
    "float": "a finite number",
    "int": "a whole number",
    "stamp": "a date and time such as 2023-11-16 18:15:46.68",
}
_NUMBER = {
    "float": re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"),
    "int": re.compile(r"\s*[+-]?\d+\s*"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column to read. ``optional``: may be missing. ``blank``: cells may be empty (nan, or "")."""

    name: str
    kind: Kind
    optional: bool = False
    blank: bool = False
    least: float = -np.inf  # smallest legal value of a number


def header(path: Path) -> list[str]:
    """The first line's fields; raises TraceError for a file that is missing, empty or not UTF-8 text."""
    for _, fields in records(path):
        return fields
    raise TraceError("the file is empty; a trace needs a header line and rows", path)


def line_of(path: Path, row: int) -> int:
    """Line on which data row ``row`` (0 = first after the header) ends."""
    for number, (line, _) in enumerate(records(path)):
        if number == row + 1:
            return line
    raise IndexError(f"{path} has no row {row}")


def nanoseconds(cells: Any) -> npt.NDArray[np.int64]:
    """Since 1970; stamps without an offset are taken as UTC, so a change of summer time shows as a jump."""
    zone = "UTC" if _has_offset(cells[0].as_py() or "") else None
    moments = pc.cast(cells, pa.timestamp("ns", zone))
    return np.asarray(pc.cast(moments, pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _has_offset(stamp: str) -> bool:
    return stamp.endswith("Z") or bool(re.search(r"[+-]\d\d:?\d\d$", stamp[10:]))


def is_gzip(path: Path) -> bool:
    """Whether the file starts as gzip does."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if is_gzip(path) else path.open("rb")  # noqa: SIM115


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of each line that is not blank; the slow, exact reader."""
    try:
        with _open(path) as binary, io.TextIOWrapper(binary, "utf-8-sig", newline="") as text:
            reader = csv.reader(text, strict=True)
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
    except UnicodeDecodeError as error:
        line = _line_of_bad_text(path)
        raise TraceError(f"the file is not UTF-8 text: {error.reason}", path, line) from None
    except csv.Error as error:
        raise TraceError(f"not a CSV file: {error}", path, reader.line_num) from None
    except EOFError:
        raise TraceError("the compressed file ends too early; fetch it again", path) from None
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    except zlib.error as error:
        raise TraceError(f"the compressed file is damaged ({error}); fetch it again", path) from None


def _line_of_bad_text(path: Path) -> int:
    with _open(path) as binary:
        for line, content in enumerate(binary, start=1):
            try:
                content.decode()
            except UnicodeDecodeError:
                return line
    return 1


def explain(path: Path, columns: Sequence[Column], error: Exception) -> NoReturn:
    """Find the cell that stopped the fast path and name it."""
    lines = records(path)
    _, names = next(lines)
    places = [(column, names.index(column.name)) for column in columns]
    for line, fields in lines:
        if len(fields) != len(names):
            raise TraceError(f"this line has {len(fields)} fields, the header has {len(names)}", path, line)
        for column, place in places:
            if not _legal(column, fields[place]):
                raise TraceError(_complaint(column, fields[place]), path, line, column.name)
    raise TraceError(f"the file cannot be read: {error}", path)


def _legal(column: Column, cell: str) -> bool:
    if cell == "":
        return column.blank
    if column.kind == "text":
        return True
    if column.kind == "stamp":
        return _is_stamp(cell)
    if not _NUMBER[column.kind].fullmatch(cell):
        return False
    value = float(cell)
    return np.isfinite(value) and value >= column.least and (column.kind == "float" or abs(value) < 2.0**63)


def _is_stamp(cell: str) -> bool:
    try:
        nanoseconds(pa.array([cell]))
    except pa.ArrowInvalid:
        return False
    return True


def _complaint(column: Column, cell: str) -> str:
    if cell == "":
        return f"this cell is empty; it must be {_WANTED[column.kind]}"
    if column.kind in _NUMBER and _NUMBER[column.kind].fullmatch(cell) and float(cell) < column.least:
        return f"{cell} is too small; it must be at least {column.least:g}"
    return f"'{cell[:40]}' is not {_WANTED[column.kind]}"
