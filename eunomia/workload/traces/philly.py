"""Microsoft's Philly training cluster, 2017: the original job log (JSON) and the reduced CSV extract.

Tenants are virtual clusters. Jobs name no network; ``duration_s`` is run time on the cluster's own
GPUs. The extract is not in time order; the reader sorts it. Stamps carry no time zone, so the change
of summer time in the log shows as a jump of an hour.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.table import MAX_ROWS, Names, read_columns
from eunomia.workload.traces.trace import Trace, sorted_from_zero

T = TypeVar("T")

COLUMNS = (
    Column("timestamp", "stamp"),
    Column("duration", "float", least=0),
    Column("num_gpus", "int", least=0),
    Column("cluster", "text"),
)
SOURCE = "msr-fiddle/philly-traces (Jeon et al., ATC 2019)"
LICENCE = "CC BY 4.0"
UNKNOWN = (None, "None", "")  # how the log writes a time that it lacks


def read(path: Path, *, max_rows: int = MAX_ROWS) -> Trace:
    """One row per job, sorted by submission, from 0. A file that begins with '[' is read as the job log."""
    return _read_log(path, max_rows) if starts_as_json(path) else _read_extract(path, max_rows)


def starts_as_json(path: Path) -> bool:
    """Whether the file's first visible character opens a JSON list."""
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None


def _read_extract(path: Path, max_rows: int) -> Trace:
    values = read_columns(path, COLUMNS, max_rows)
    return _trace(path, values["timestamp"], values["cluster"], values["duration"], values["num_gpus"], ())


def _read_log(path: Path, max_rows: int) -> Trace:
    jobs = _load(path)
    if len(jobs) > max_rows:
        raise TraceError(
            f"{len(jobs)} jobs, but at most {max_rows} are allowed; keep a part of the file", path
        )
    submitted, clusters, durations, gpus = [], [], [], []
    for number, job in enumerate(jobs):
        attempts = [a for a in _field(path, number, job, "attempts", list) if _ran(a)]
        if not attempts or not isinstance(job, dict) or job.get("submitted_time") in UNKNOWN:
            continue
        submitted.append(_moment(path, number, job, "submitted_time"))
        clusters.append(_field(path, number, job, "vc", str))
        durations.append(
            sum(
                max(0.0, _moment(path, number, a, "end_time") - _moment(path, number, a, "start_time"))
                for a in attempts
            )
        )
        gpus.append(sum(len(machine.get("gpus") or ()) for machine in attempts[-1].get("detail") or ()))
    if not submitted:
        raise TraceError("no job of this log has a finished attempt", path)
    names = tuple(dict.fromkeys(clusters))
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place[name] for name in clusters], np.int32)
    left_out = len(jobs) - len(submitted)
    notes = (f"{left_out} jobs without submission time or finished attempt left out",) if left_out else ()
    return _trace(
        path,
        np.array(submitted),
        Names(names, codes),
        np.array(durations, np.float64),
        np.array(gpus, np.int64),
        notes,
    )


def _load(path: Path) -> list[object]:
    try:
        jobs = json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise TraceError(f"not valid JSON: {error.msg}", path, error.lineno) from None
    except UnicodeDecodeError as error:
        raise TraceError(f"the file is not UTF-8 text: {error.reason}", path) from None
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    if not isinstance(jobs, list) or not jobs:
        raise TraceError("a job log is a list of jobs; this one has none", path)
    return jobs


def _ran(attempt: object) -> bool:
    """Whether an attempt has both its times; the log lacks some."""
    return isinstance(attempt, dict) and all(
        attempt.get(key) not in UNKNOWN for key in ("start_time", "end_time")
    )


def _field(path: Path, number: int, job: object, key: str, kind: type[T]) -> T:
    value = job.get(key) if isinstance(job, dict) else None
    if not isinstance(value, kind):
        raise TraceError(f"job {number} has no valid '{key}'", path, None, key)
    return value


def _moment(path: Path, number: int, entry: object, key: str) -> float:
    """Seconds since the start of 1970 of a stamp such as 2017-10-07 01:12:09."""
    text = _field(path, number, entry, key, str)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(f"job {number}: '{text}' is not a date and time", path, None, key) from None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


def _trace(
    path: Path, arrival_s: Floats, clusters: Names, duration_s: Floats, gpus: Ints, notes: tuple[str, ...]
) -> Trace:
    return sorted_from_zero(
        Trace(
            format="philly",
            path=str(path),
            arrival_s=arrival_s,
            tenants=clusters.names,
            tenant=clusters.codes,
            models=(),
            model=np.full(len(arrival_s), -1, np.int32),
            duration_s=duration_s,
            gpus=gpus,
            source=SOURCE,
            licence=LICENCE,
            notes=("jobs name no network", *notes),
        )
    )


FORMAT = TraceFormat(
    "philly",
    "Philly: one row per training job, with virtual cluster, run time and GPUs",
    (frozenset(column.name for column in COLUMNS),),
    read,
    begins=starts_as_json,
    example=(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-07 01:00:00,600,2,1200,vc1\n"
        "2017-10-07 01:05:00,60,1,60,vc2\n"
    ),
)
