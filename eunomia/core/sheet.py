"""CSV as people's spreadsheets write it: byte order marks, semicolons or tabs, decimal commas, marks of thousands."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.errors import TraceError

MARKS = (",", ";", "\t")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
COMMA_LAST = re.compile(r"[-+]?[\d.]*,\d+(?:[eE][-+]?\d+)?")  # 0,5 and 1.234,5
GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")  # 1,234 and 1,234,567.8
SPACES = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")  # 1 234 567, and the Swiss 1'234


@dataclass(frozen=True)
class Sheet:
    """A table with a heading. Cells are without blanks around them; ``rows``: with their lines in the file."""

    header: list[str]
    rows: list[tuple[int, dict[str, str]]]


def text_of(path: Path) -> str:
    """A file's text. Raises TraceError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    try:
        return data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError("is not UTF-8 text; save it as UTF-8", path) from error


def read_sheet(path: Path, words: Sequence[str] = ()) -> Sheet:
    """A table; numbers outside the columns ``words`` come in the notation of Python. Raises TraceError."""
    text = text_of(path)
    skipped, mark = 0, ""
    if text[:4].lower() == "sep=":
        first, _, text = text.partition("\n")
        skipped, mark = 1, first.rstrip("\r")[4:5]
    lines = text.split("\n", 1)[0]
    mark = mark or max(MARKS, key=lambda each: (lines.count(each), each == ","))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    try:
        found = [(reader.line_num + skipped, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise TraceError(f"cannot be read as CSV: {error}", path, reader.line_num + skipped) from error
    header = found[0][1] if found else []
    while header and not header[-1]:
        header = header[:-1]  # a comma after the last column
    numeric = [n for n, name in enumerate(header) if name not in words]
    body = [(line, row) for line, row in found[1:] if any(row)]
    comma = mark != "," and any(
        COMMA_LAST.fullmatch(row[n]) for _, row in body for n in numeric if n < len(row)
    )
    for line, row in body:
        for n in numeric:
            if n < len(row):
                row[n] = _plain(row[n], comma, (path, line, header[n]))
    return Sheet(header, [(line, dict(zip(header, row, strict=False))) for line, row in body])


def _plain(cell: str, comma: bool, place: tuple[Path, int, str]) -> str:
    """The number with a decimal point and nothing between thousands; other text as it is."""
    cell = SPACES.sub("", cell)
    if comma:
        return cell.replace(".", "").replace(",", ".") if re.fullmatch(r"[-+\d.,eE]+", cell) else cell
    if GROUPED.fullmatch(cell):
        if cell.count(",") == 1 and "." not in cell:
            whole, part = cell.split(",")
            raise TraceError(
                f"'{cell}' can be read as {whole}{part} and as {whole}.{part}; write the one meant", *place
            )
        return cell.replace(",", "")
    return cell.replace(",", ".") if COMMA_LAST.fullmatch(cell) else cell
