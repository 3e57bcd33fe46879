"""Standard Workload Format of the Parallel Workloads Archive: 18 numbers per job, ``;`` starts a remark.

Devices are the allocated processors (field 5), or the requested ones (field 8) where that is -1.
Tenants are the users (field 12). Lines with status 2, 3 or 4 are parts of a job that another line sums up.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from itertools import islice
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations, require_unique
from eunomia.cluster.traces.lines import text_lines
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import is_gzip

FIELDS = (
    "job",
    "submit_time",
    "wait_time",
    "run_time",
    "processors",
    "cpu_time",
    "memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)

VERSION = re.compile(r"\s*;\s*(Version|Computer|Installation|SWF)\b", re.IGNORECASE)
ROW = re.compile(r"-?\d+(\s+-?\d+(\.\d+)?){17}")


def read(path: Path, *, max_rows: int = 20_000_000) -> JobTrace:
    """One row per job that ran on at least one processor, from time 0. Raises TraceError."""
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    except (EOFError, zlib.error):
        raise TraceError("the compressed file is damaged or ends too early; fetch it again", path) from None
    rows: list[tuple[str, float, float, int, str]] = []
    more: list[tuple[float, float, str, str]] = []
    numbers: list[int] = []
    skipped = parts = 0
    submitted = -math.inf
    for line, content in enumerate(lines, start=1):
        text = content.decode("utf-8", "replace").strip()
        if not text or text.startswith(";"):
            continue
        if len(rows) >= max_rows:
            raise TraceError(f"more than {max_rows} jobs; keep a part of the file", path)
        values = _values(path, line, text.split())
        if values[1] < submitted:
            raise TraceError(
                f"{values[1]:g} is earlier than {submitted:g} of the job before; sort the lines by submit time",
                path,
                line,
                "submit_time",
            )
        submitted = values[1]
        if values[10] in (2, 3, 4):
            parts += 1
            continue
        processors = values[4] if values[4] > 0 else values[7]
        if values[3] <= 0 or processors <= 0:
            skipped += 1
            continue
        rows.append((str(int(values[0])), values[1], values[3], int(processors), str(int(values[11]))))
        more.append((values[2], values[8], str(int(values[15])), str(int(values[14]))))
        numbers.append(line)
    if not rows:
        raise TraceError("no job of this log ran on a processor", path)
    ids, arrival_s, duration_s, processors_of, users = zip(*rows, strict=True)
    require_unique(path, ids, lambda row: numbers[row])
    wait_s, limit_s = (
        np.where(column >= 0.0, column, np.nan) for column in np.array([m[:2] for m in more]).T
    )
    tenants = tuple(dict.fromkeys(users))
    place = {name: code for code, name in enumerate(tenants)}
    return of_durations(
        "swf",
        path,
        np.array(arrival_s),
        np.array(processors_of, np.int64),
        np.array(duration_s),
        tenants,
        np.array([place[user] for user in users], np.int32),
        ids=ids,
        source="Standard Workload Format; terms of use differ from log to log",
        notes=(
            "jobs name no network",
            *([f"{skipped} jobs that never ran left out"] if skipped else []),
            *([f"{parts} lines of parts of jobs (status 2, 3, 4) left out"] if parts else []),
        ),
        more={
            "wait_s": wait_s,
            "time_limit_s": np.where(limit_s > 0.0, limit_s, np.nan),
            "partition": np.array([m[2] for m in more], object),
            "qos": np.array([m[3] for m in more], object),
        },
    )


def _values(path: Path, line: int, cells: list[str]) -> list[float]:
    if len(cells) != len(FIELDS):
        raise TraceError(f"this line has {len(cells)} fields; SWF has {len(FIELDS)}", path, line)
    values = []
    for column, cell in zip(FIELDS, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            raise TraceError(f"'{cell[:40]}' is not a number", path, line, column) from None
        if not math.isfinite(value) or (column == "submit_time" and value < 0):
            raise TraceError(f"{cell} is not a legal value", path, line, column)
        values.append(value)
    return values


def _begins(path: Path) -> bool:
    """By its name, by the remark that gives the version, or by a first line of 18 numbers."""
    if path.name.removesuffix(".gz").endswith(".swf"):
        return True
    try:
        first = [text for _, text in islice(text_lines(path), 1)]
    except TraceError:
        return False
    return any(VERSION.match(text) or ROW.fullmatch(text.strip()) for text in first)


FORMAT = JobTraceFormat(
    "swf",
    "Standard Workload Format: 18 numbers per job, remarks after ;",
    (),
    read,
    begins=_begins,
    example="1 0 0 60 4 -1 -1 4 -1 -1 1 7 1 1 1 -1 -1 -1\n2 5 0 60 8 -1 -1 8 -1 -1 1 7 1 1 1 -1 -1 -1\n",
)
