"""Gavel's traces: tab-separated, without a header, in the current and in the older form.

Current, 10 fields: job type, command, directory, steps argument, needs data directory, total steps,
scale factor, priority weight, SLO (-1 = none), arrival in seconds. The older form of 7 fields, which
Gavel's own parser no longer reads: job type, command, steps argument, needs data directory, total
steps, arrival, scale factor; weights are 1 and there are no SLOs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, no_value, numbered
from eunomia.core.errors import TraceError

CURRENT = (
    "job type",
    "command",
    "directory",
    "steps argument",
    "needs data",
    "total steps",
    "scale factor",
    "priority weight",
    "SLO",
    "arrival",
)
OLDER = ("job type", "command", "steps argument", "needs data", "total steps", "arrival", "scale factor")
FORMS = {len(CURRENT): CURRENT, len(OLDER): OLDER}


def read(path: Path, *, max_rows: int = 20_000_000) -> JobTrace:
    """One row per line; arrivals stay as they are and must not decrease. Raises TraceError."""
    rows = [row for row in _rows(path, max_rows)]
    if not rows:
        raise TraceError("the file is empty; a Gavel trace has one job per line", path)
    form = FORMS[len(rows[0][1])]
    columns: dict[str, list[float]] = {name: [] for name in ("total steps", "scale factor", "arrival")}
    weights, slos, types = [], [], []
    for line, fields in rows:
        cell = dict(zip(form, fields, strict=True))
        types.append(_text(path, line, "job type", cell["job type"]))
        columns["total steps"].append(_whole(path, line, "total steps", cell["total steps"]))
        columns["scale factor"].append(_whole(path, line, "scale factor", cell["scale factor"]))
        columns["arrival"].append(_arrival(path, line, cell["arrival"], columns["arrival"]))
        weights.append(_above_zero(path, line, "priority weight", cell.get("priority weight", "1")))
        slos.append(_slo(path, line, cell.get("SLO", "-1")))
    names = tuple(dict.fromkeys(types))
    place = {name: code for code, name in enumerate(names)}
    count = len(rows)
    return JobTrace(
        format="gavel",
        path=str(path),
        ids=numbered(count),
        arrival_s=np.array(columns["arrival"], np.float64),
        gpus=np.array(columns["scale factor"], np.int64),
        tenants=("trace",),
        tenant=np.zeros(count, np.int32),
        job_types=names,
        job_type=np.array([place[name] for name in types], np.int32),
        steps=np.array(columns["total steps"], np.float64),
        duration_s=no_value(count),
        weight=np.array(weights, np.float64),
        slo=np.array(slos, np.float64),
        source="in the format of stanford-futuredata/gavel",
        notes=(_form_note(form),) if form is OLDER else (),
    )


def _form_note(form: tuple[str, ...]) -> str:
    return f"older Gavel format of {len(form)} fields: no weights and no SLOs"


def looks_like_gavel(path: Path) -> bool:
    """Whether the first line has the fields of a Gavel trace."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 16)
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    return first.count(b"\t") + 1 in FORMS and b"," not in first.split(b"\t")[0]


def _rows(path: Path, max_rows: int) -> Iterator[tuple[int, list[str]]]:
    """(line, fields); every line must have as many as the first."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    expected = 0
    for line, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        if line > max_rows:
            raise TraceError(f"more than {max_rows} lines; keep a part of the file", path)
        try:
            fields = content.decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise TraceError(f"the file is not UTF-8 text: {error.reason}", path, line) from None
        expected = expected or len(fields)
        if len(fields) not in FORMS:
            raise TraceError(
                f"this line has {len(fields)} tab-separated fields; a Gavel trace has {len(CURRENT)}, "
                f"in its older form {len(OLDER)}",
                path,
                line,
            )
        if len(fields) != expected:
            raise TraceError(
                f"this line has {len(fields)} fields, the lines before have {expected}", path, line
            )
        yield line, fields


def _text(path: Path, line: int, column: str, cell: str) -> str:
    if not cell.strip():
        raise TraceError("this cell is empty", path, line, column)
    return cell.strip()


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise TraceError(f"'{cell[:40]}' is not a number", path, line, column) from None
    if not math.isfinite(value):
        raise TraceError(f"'{cell}' is not a finite number", path, line, column)
    return value


def _whole(path: Path, line: int, column: str, cell: str) -> float:
    value = _number(path, line, column, cell)
    if value < 1 or value != int(value):
        raise TraceError(f"'{cell}' is not a whole number of at least 1", path, line, column)
    return value


def _above_zero(path: Path, line: int, column: str, cell: str) -> float:
    value = _number(path, line, column, cell)
    if value <= 0.0:
        raise TraceError(f"'{cell}' must be greater than 0", path, line, column)
    return value


def _slo(path: Path, line: int, cell: str) -> float:
    value = _number(path, line, "SLO", cell)
    if value == -1.0:
        return math.nan
    if value <= 0.0:
        raise TraceError(f"'{cell}' must be greater than 0, or -1 for none", path, line, "SLO")
    return value


def _arrival(path: Path, line: int, cell: str, before: list[float]) -> float:
    value = _number(path, line, "arrival", cell)
    if value < 0.0:
        raise TraceError(f"'{cell}' is before time 0", path, line, "arrival")
    if before and value < before[-1]:
        raise TraceError(
            f"{value:g} is earlier than {before[-1]:g} on the line before; sort the lines by arrival",
            path,
            line,
            "arrival",
        )
    return value


FORMAT = JobTraceFormat(
    "gavel",
    "Gavel: one training job per line, 10 tab-separated fields, or 7 in the older form",
    (),
    read,
    begins=looks_like_gavel,
    example=(
        "ResNet-18\tpython3 main.py\tcifar10\t--num_steps\t1\t100\t1\t1\t-1.0\t0\n"
        "ResNet-18\tpython3 main.py\tcifar10\t--num_steps\t1\t700\t4\t1\t-1.0\t30\n"
    ),
)
