"""Any table of jobs: CSV, with a mapping from what is wanted to the names of its columns.

::

    ==============  ==========================================================================
    wanted          meaning
    ==============  ==========================================================================
    submit          when it was submitted: a date, or seconds
    gpus            devices held at once
    duration        run time: seconds, or 2-03:04:05; or else start and end
    start, end      dates or seconds; start also gives the wait under the scheduler of the log
    tenant          who it belongs to; several columns joined by + become account/user
    job             unique; absent = the row
    device          types that it may run on, separated by , or |
    ran_on          the type of its run time
    time_limit      seconds, or 2-03:04:05
    priority        more goes first
    job_type        key of the throughput table
    partition, qos  queue and quality of service
    ==============  ==========================================================================
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations, require_unique
from eunomia.cluster.traces.lines import first_line, text_lines
from eunomia.cluster.traces.slurm_text import NO_TIME, moment_s, span_s
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError
from eunomia.workload.traces.table import MAX_ROWS

WANTED = (
    "submit",
    "gpus",
    "duration",
    "start",
    "end",
    "tenant",
    "job",
    "device",
    "ran_on",
    "time_limit",
    "priority",
    "job_type",
    "partition",
    "qos",
)
NEEDED = "submit, gpus, and duration or start and end"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read(path: Path, *, max_rows: int = MAX_ROWS, mapping: Mapping[str, str] | None = None) -> JobTrace:
    """One row per job that ran, from time 0; columns are found by ``mapping``, else by the wanted names themselves.

    Raises UnknownNameError for a wanted name that there is not, TraceError for the rest.
    """
    for name in mapping or {}:
        if name not in WANTED:
            raise UnknownNameError("column of jobs", name, WANTED)
    lines = text_lines(path)
    number, head = next(lines, (1, ""))
    mark = max(",;|\t", key=head.count)
    names = _cells(path, number, head, mark)
    places = _places(path, number, names, mapping or {})
    jobs: list[dict[str, str | float]] = []
    left_out = 0
    for line, text in lines:
        cells = _cells(path, line, text, mark)
        if len(cells) != len(names):
            raise TraceError(f"this line has {len(cells)} fields, the header has {len(names)}", path, line)
        if len(jobs) + left_out >= max_rows:
            raise TraceError(f"more than {max_rows} rows; keep a part of the file", path)
        job = _job(path, line, {wanted: "/".join(cells[k] for k in at) for wanted, at in places.items()})
        if job is None:
            left_out += 1
        else:
            jobs.append(job)
    if not jobs:
        raise TraceError("no row is a job that ran on a device; check the mapping of gpus and duration", path)
    return _trace(path, jobs, left_out)


def _cells(path: Path, line: int, text: str, mark: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=mark, strict=True))]
    except csv.Error as error:
        raise TraceError(f"not a CSV line: {error}; every job takes one line", path, line) from None


def _places(path: Path, line: int, names: list[str], mapping: Mapping[str, str]) -> dict[str, list[int]]:
    """Columns of each wanted name. Raises TraceError."""
    found: dict[str, list[int]] = {}
    for wanted in WANTED:
        if wanted not in mapping and wanted not in names:
            continue
        given = mapping.get(wanted, wanted)
        if given == "":  # the file's column of that name means something else
            continue
        parts = [given] if given in names else given.split("+")
        for part in parts:
            if part not in names:
                raise TraceError(
                    f"there is no column '{part}' for {wanted}; the header has: {', '.join(names[:12])}",
                    path,
                    line,
                )
            if names.count(part) > 1:
                raise TraceError("this column appears twice in the header", path, line, part)
        found[wanted] = [names.index(part) for part in parts]
    missing = {"submit", "gpus"} - set(found)
    if missing or not ("duration" in found or {"start", "end"} <= set(found)):
        raise TraceError(
            f"jobs need {NEEDED}; give the missing ones as NAME=COLUMN, the header has: {', '.join(names[:12])}",
            path,
            line,
        )
    return found


def _job(path: Path, line: int, cell: dict[str, str]) -> dict[str, str | float] | None:
    """What one row says; None for a job that never ran, or on no device."""
    gpus = _number(path, line, "gpus", cell["gpus"] or "0")
    if not gpus.is_integer():
        raise TraceError(f"{cell['gpus']} is no whole number of devices", path, line, "gpus")
    submit_s = _moment(path, line, "submit", cell["submit"])
    start_s = math.nan
    if cell.get("start", "") not in NO_TIME:
        start_s = _moment(path, line, "start", cell["start"])
        if start_s < submit_s:
            raise TraceError("the job starts before it was submitted; check the mapping", path, line, "start")
    if "duration" in cell:
        run_s = 0.0 if cell["duration"] in NO_TIME else _span(path, line, "duration", cell["duration"])
    elif math.isnan(start_s) or cell["end"] in NO_TIME:
        run_s = 0.0
    else:
        run_s = _moment(path, line, "end", cell["end"]) - start_s
        if run_s < 0.0:
            raise TraceError("the job ends before it starts; check the mapping", path, line, "end")
    if gpus < 1 or run_s <= 0.0:
        return None
    limit, priority = cell.get("time_limit", ""), cell.get("priority", "")
    limit_s = math.nan if limit in NO_TIME else _span(path, line, "time_limit", limit)
    return {
        **{name: cell.get(name, "") for name in ("job", "tenant", "ran_on", "job_type", "partition", "qos")},
        "device": cell.get("device", "").replace("|", ","),
        "submit_s": submit_s,
        "gpus": gpus,
        "run_s": run_s,
        "wait_s": start_s - submit_s,
        "time_limit_s": limit_s if 0.0 < limit_s < math.inf else math.nan,
        "priority": math.nan
        if priority == ""
        else _number(path, line, "priority", priority, least=-math.inf),
        "line": line,
    }


def _trace(path: Path, jobs: list[dict[str, str | float]], left_out: int) -> JobTrace:
    def texts(name: str) -> list[str]:
        return [str(job[name]) for job in jobs]

    def numbers(name: str) -> np.ndarray:
        return np.array([float(job[name]) for job in jobs])

    names = [tenant or "all" for tenant in texts("tenant")]
    tenants = tuple(dict.fromkeys(names))
    place = {name: code for code, name in enumerate(tenants)}
    ids = texts("job") if any(texts("job")) else [str(row) for row in range(len(jobs))]
    require_unique(path, ids, lambda row: int(jobs[row]["line"]))
    types = [kind for kind in dict.fromkeys(texts("job_type")) if kind]
    code = {kind: number for number, kind in enumerate(types)} | {"": -1}
    trace = of_durations(
        "columns",
        path,
        numbers("submit_s"),
        numbers("gpus").astype(np.int64),
        numbers("run_s"),
        tenants,
        np.array([place[name] for name in names], np.int32),
        ids=tuple(ids),
        notes=(
            *([] if types else ["jobs name no network"]),
            *([f"{left_out} rows without device or run time left out"] if left_out else []),
        ),
        more={
            **{name: numbers(name) for name in ("wait_s", "time_limit_s", "priority")},
            **{name: np.array(texts(name), object) for name in ("device", "ran_on", "partition", "qos")},
        },
    )
    order = np.argsort(numbers("submit_s"), kind="stable")
    kinds = np.array([code[kind] for kind in texts("job_type")], np.int32)[order]
    return replace(trace, job_types=tuple(types), job_type=kinds)


def _number(path: Path, line: int, column: str, text: str, least: float = 0.0) -> float:
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not (math.isfinite(value) and value >= least):
        raise TraceError(
            f"'{text[:40]}' is no number of at least {least:g}; correct it or leave the row out",
            path,
            line,
            column,
        )
    return value


def _moment(path: Path, line: int, column: str, text: str) -> float:
    found = moment_s(text)
    if found is None:
        raise TraceError(
            f"'{text[:40]}' is no time; write 2024-03-01 10:00:00 or seconds", path, line, column
        )
    return found


def _span(path: Path, line: int, column: str, text: str) -> float:
    """Seconds; a plain number counts seconds here."""
    if NUMBER.fullmatch(text):
        return _number(path, line, column, text)
    found = span_s(text)
    if found is None:
        raise TraceError(f"'{text[:40]}' is no span; write seconds or 2-03:04:05", path, line, column)
    return found


def mapping_of(texts: list[str]) -> dict[str, str]:
    """``gpus=num_gpus`` texts as a mapping. Raises ConfigError."""
    found: dict[str, str] = {}
    for text in texts:
        wanted, equals, column = text.partition("=")
        if not equals or not column:
            raise ConfigError(f"--column {text}: write NAME=COLUMN, for example --column gpus=num_gpus")
        if wanted in found:
            raise ConfigError(f"--column names '{wanted}' twice")
        found[wanted] = column
    return found


HEADERS = (frozenset({"submit", "gpus", "duration"}), frozenset({"submit", "gpus", "start", "end"}))


def _begins(path: Path) -> bool:
    """Whether the first line names what is needed, with another mark than a comma in between."""
    try:
        head = first_line(path)
    except TraceError:
        return False
    return any(need <= {name.strip() for name in head.split(mark)} for mark in ";|\t" for need in HEADERS)


FORMAT = JobTraceFormat(
    "columns",
    "Any CSV of jobs by a mapping of columns: submit, gpus, duration or start and end, and ten more",
    HEADERS,
    read,
    begins=_begins,
    example="submit,gpus,start,end,tenant\n2024-03-01 10:00:00,2,2024-03-01 10:05:00,2024-03-01 11:00:00,ann\n"
    "2024-03-01 10:01:00,1,2024-03-01 10:01:00,2024-03-01 10:02:00,bob\n",
)
