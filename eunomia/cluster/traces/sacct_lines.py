"""The lines of ``sacct`` as cells by column: any mark between fields, or columns of a fixed width.

Lines before the header (the command, a remark) are skipped, as are headers in between (joined files). A name may hold
the mark if it is the only column of free text. Resources may hold a comma that is the mark, too. Cells may be in
quotes, and the header a remark (``# JobID|User``).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from eunomia.cluster.traces.lines import text_lines
from eunomia.core.errors import TraceError

COMMAND = (
    "sacct -a -P -D -o JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,ElapsedRaw,TimelimitRaw,"
    "ReqTRES,AllocTRES"
)
_FREE = "JobName Comment AdminComment SystemComment SubmitLine WorkDir Constraints Extra StdOut StdErr StdIn"
FREE = frozenset(_FREE.split())
EITHER = (("ElapsedRaw", "Elapsed", "End"), ("AllocTRES", "ReqTRES", "AllocGRES"))
HEADER = re.compile(r"(?P<before>[^\w\r\n]*)\bJobID(?:Raw)?\b(?P<after>\W*)")
REMARK = re.compile(r"^\s*#+\s*")
DASHES = re.compile(r"\s*-{2,}(?:\s+-{2,})*\s*")
RESOURCE = re.compile(r"([a-z_]+(?:/[^=]*)?)=[^=]*")
ROW = re.compile(r"^\d.*[|](COMPLETED|FAILED|TIMEOUT|CANCELLED|RUNNING|PENDING)\b")
FIRST = 5  # lines in which a header may stand

Cells = Callable[[int, str], list[str] | None]


def rows(path: Path, max_rows: int) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, text by column) of each row. Raises TraceError."""
    lines = text_lines(path)
    line, told = _head(path, lines)
    head = REMARK.sub("", told)
    found = HEADER.search(head)
    assert found is not None
    mark = found["after"].replace('"', "") or found["before"].replace('"', "")
    if mark.strip(" ") == "":
        _, dashes = next(lines, (line, ""))
        if DASHES.fullmatch(dashes) is None:
            raise TraceError("the columns are cut to a width; write the log with sacct -P", path, line)
        spans = [(each.start(), each.end()) for each in re.finditer("-+", dashes)]
        names = [head[low:high].strip() for low, high in spans]
        split = _by_width(path, names, spans)
    else:
        quotes = len(mark) == 1 and (mark in ",;" or '"' in head)
        names = _split(head, mark, quotes)
        names = names[:-1] if names[-1] == "" else names
        split = _by_mark(path, names, mark, quotes)
    names = _checked(path, line, names)
    count = 0
    for line, text in lines:
        cells = None if text.strip() == told.strip() else split(line, text)
        if cells is None:
            continue
        count += 1
        if count > max_rows:
            raise TraceError(f"more than {max_rows} rows; take a shorter time with sacct -S and -E", path)
        yield line, dict(zip(names, cells, strict=True))


def begins(path: Path) -> bool:
    """Whether one of the first lines is a header, or the first one a row without it. Raises TraceError for no file."""
    try:
        first = [text for _, text in islice(text_lines(path), FIRST)]
    except TraceError:
        if not path.is_file():
            raise
        return False
    return any(map(_is_header, first)) or any(map(ROW.search, first[:1])) or _is_json("".join(first))


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and ('"jobs"' in text or "slurm" in text.lower())


def _is_header(text: str) -> bool:
    return HEADER.search(text) is not None and "sacct" not in text and "{" not in text


def _head(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[int, str]:
    """The header and its line. Raises TraceError."""
    before = ""
    for line, text in islice(lines, FIRST):
        if _is_header(text):
            return line, text
        before += text
    if _is_json(before):
        raise TraceError(f"sacct's JSON is not read; write columns: {COMMAND}", path)
    raise TraceError(
        f"the first line names no column JobID; write the log with a header (without -n): {COMMAND}", path, 1
    )


def _checked(path: Path, line: int, names: list[str]) -> list[str]:
    """Names of columns, each once. Raises TraceError for a missing one."""
    if "JobID" not in names:  # the same number; only members of arrays are written otherwise
        names = ["JobID" if name == "JobIDRaw" else name for name in names]
    for name in names:
        if names.count(name) > 1:
            raise TraceError("this column appears twice; name it once in sacct -o", path, line, name)
    needed = (*((name,) for name in ("JobID", "Submit", "Start", "State")), *EITHER)
    missing = [" or ".join(wanted[:2]) for wanted in needed if not set(wanted) & set(names)]
    if missing:
        what = (
            "this column is missing; add it" if len(missing) == 1 else "these columns are missing; add them"
        )
        raise TraceError(f"{what} to sacct -o: {COMMAND}", path, line, ", ".join(missing))
    return names


def _by_width(path: Path, names: list[str], spans: list[tuple[int, int]]) -> Cells:
    """Cells of lines in columns of a fixed width; a cell that is cut ends with +."""

    def cells(line: int, text: str) -> list[str] | None:
        if DASHES.fullmatch(text):
            return None
        found = [text[low:high].strip() for low, high in spans]
        for name, cell in zip(names, found, strict=True):
            step = name in ("JobID", "JobIDRaw") and ("." in cell or "[" in cell)
            if cell.endswith("+") and name != "State" and name not in FREE and not step:
                raise TraceError(f"'{cell}' is cut to a width; write the log with sacct -P", path, line, name)
        return found

    return cells


def _by_mark(path: Path, names: list[str], mark: str, quotes: bool) -> Cells:
    """Cells of lines with a mark between fields; ``quotes``: around cells, not of names."""
    free = [place for place, name in enumerate(names) if name in FREE]

    def cells(line: int, text: str) -> list[str]:
        found = _split(text, mark, quotes)
        if len(found) > len(names) and found[-1] == "":
            found.pop()  # sacct -p ends lines with the mark
        if len(found) > len(names) and mark == ",":
            found = _resources(found)
        more = len(found) - len(names)
        if more > 0 and len(free) == 1:
            (at,) = free
            found[at : at + more + 1] = [mark.join(found[at : at + more + 1])]
        if len(found) != len(names):
            raise TraceError(
                f"this line has {len(found)} fields, the header has {len(names)}; where names hold '{mark}', "
                "choose another mark with sacct --delimiter, or leave out names and comments",
                path,
                line,
            )
        return found

    return cells


def _split(text: str, mark: str, quotes: bool) -> list[str]:
    return next(csv.reader([text], delimiter=mark)) if quotes and '"' in text else text.split(mark)


def _resources(cells: list[str]) -> list[str]:
    """Lists of resources, which the comma took apart, put together again; each names a resource once."""
    found: list[str] = []
    seen: set[str] = set()
    for cell in cells:
        part = RESOURCE.fullmatch(cell)
        if part is None or not seen or part[1] in seen:
            found.append(cell)
            seen = set() if part is None else {part[1]}
        else:
            found[-1] += f",{cell}"
            seen.add(part[1])
    return found
