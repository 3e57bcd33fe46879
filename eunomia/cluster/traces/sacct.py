"""Slurm's accounting: ``sacct -P`` with a header line (``--parsable2``), one row per job; steps are skipped.

Needed are the columns JobID, Submit, Start, State, one of ElapsedRaw and Elapsed, and one of AllocTRES and ReqTRES.
Eligible, User, Account, Partition, QOS and Timelimit or TimelimitRaw are used where they are there. Tenants are
``account/user``. A job waits from when it was eligible. ReqTRES has the types asked for, AllocTRES where it ran.

Rows of one JobID (``--duplicates``, after a requeue) are one job: run times add up, the first start counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations
from eunomia.cluster.traces.lines import first_line, text_lines
from eunomia.cluster.traces.slurm_text import NO_TIME, gpus_of, moment_s, span_s
from eunomia.core.errors import TraceError
from eunomia.workload.traces.table import MAX_ROWS

COMMAND = (
    "sacct -a -P -D -o JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,ElapsedRaw,TimelimitRaw,"
    "ReqTRES,AllocTRES"
)
STATES = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "FAILED", "NODE_FAIL"}
    | {
        "OUT_OF_MEMORY",
        "PENDING",
        "PREEMPTED",
        "REQUEUED",
        "RESIZING",
        "REVOKED",
        "RUNNING",
        "SUSPENDED",
        "TIMEOUT",
    }
)
EITHER = (("ElapsedRaw", "Elapsed"), ("AllocTRES", "ReqTRES"))


@dataclass
class _Job:
    """One job, over all of its attempts."""

    submit_s: float
    start_s: float
    run_s: float
    gpus: int
    device: str
    ran_on: str
    tenant: str
    partition: str
    qos: str
    limit_s: float
    attempts: int = 1


@dataclass
class _Counts:
    """What was left out, and what was assumed."""

    steps: int = 0
    never_ran: int = 0
    no_gpu: int = 0
    mixed: int = 0
    running: int = 0
    early: int = 0
    jobs: dict[str, _Job] = field(default_factory=dict)


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per job that ran on a GPU, from time 0. Raises TraceError."""
    lines = text_lines(path)
    number, head = next(lines, (1, ""))
    mark, names = _header(path, number, head)
    found = _Counts()
    for row, (line, text) in enumerate(lines, start=1):
        cells = text.split(mark)
        if len(cells) == len(names) + 1 and cells[-1] == "":
            cells.pop()  # sacct -p ends lines with the mark
        if len(cells) != len(names):
            raise TraceError(
                f"this line has {len(cells)} fields, the header has {len(names)}; where names hold '{mark}', "
                "choose another mark with sacct --delimiter",
                path,
                line,
            )
        if row > max_rows:
            raise TraceError(f"more than {max_rows} rows; take a shorter time with sacct -S and -E", path)
        _row(path, line, dict(zip(names, cells, strict=True)), found)
    if not found.jobs:
        raise TraceError(
            f"no job of this log ran on a GPU ({found.no_gpu} without GPU, {found.never_ran} never ran); "
            "check that AllocTRES lists gres/gpu",
            path,
        )
    return _trace(path, found)


def _header(path: Path, line: int, text: str) -> tuple[str, list[str]]:
    """The mark between fields, and their names. Raises TraceError."""
    if text.split()[:1] == ["JobID"] and len(text.split()) > 1:
        raise TraceError("the columns are cut to a width; write the log with sacct -P", path, line)
    mark = next((m for m in "|,;\t" if {"JobID", "JobIDRaw"} & set(text.rstrip(m).split(m))), None)
    if mark is None:
        raise TraceError(
            f"the first line names no column JobID; write the log with a header (without -n): {COMMAND}",
            path,
            line,
        )
    names = text.rstrip(mark).split(mark)
    if "JobID" not in names:  # the same number; only members of arrays are written otherwise
        names[names.index("JobIDRaw")] = "JobID"
    for name in names:
        if names.count(name) > 1:
            raise TraceError("this column appears twice; name it once in sacct -o", path, line, name)
    needed = (*((name,) for name in ("Submit", "Start", "State")), *EITHER)
    missing = [" or ".join(wanted) for wanted in needed if not set(wanted) & set(names)]
    if missing:
        what = (
            "this column is missing; add it" if len(missing) == 1 else "these columns are missing; add them"
        )
        raise TraceError(f"{what} to sacct -o: {COMMAND}", path, line, ", ".join(missing))
    return mark, names


def _row(path: Path, line: int, cell: dict[str, str], found: _Counts) -> None:
    """Book one line. Raises TraceError."""
    if "." in cell["JobID"]:
        found.steps += 1
        return
    state = cell["State"].split(" ")[0].rstrip("+")
    if state not in STATES:
        raise TraceError(
            f"'{cell['State'][:40]}' is no state of Slurm; write it as sacct does", path, line, "State"
        )
    if cell["Start"] in NO_TIME:
        found.never_ran += 1
        return
    submit_s = _moment(path, line, "Submit", cell["Submit"])
    start_s = _moment(path, line, "Start", cell["Start"])
    if cell.get("Eligible", "") not in NO_TIME:
        submit_s = max(submit_s, min(_moment(path, line, "Eligible", cell["Eligible"]), start_s))
    run_s = _elapsed(path, line, cell)
    if run_s <= 0.0:
        found.never_ran += 1
        return
    asked, had = _tres(path, line, cell, "ReqTRES"), _tres(path, line, cell, "AllocTRES")
    gpus = had[0] or asked[0]
    if gpus == 0:
        found.no_gpu += 1
        return
    if len(had[1]) > 1:
        found.mixed += 1
        return
    found.early += start_s < submit_s
    found.running += state in ("RUNNING", "SUSPENDED", "COMPLETING")
    job = _Job(
        submit_s,
        start_s,
        run_s,
        gpus,
        ",".join(asked[1]),
        ",".join(had[1]),
        "/".join(filter(None, (cell.get("Account", ""), cell.get("User", "")))) or "all",
        cell.get("Partition", ""),
        cell.get("QOS", ""),
        _limit(path, line, cell),
    )
    before = found.jobs.get(cell["JobID"])
    if before is not None:
        job.attempts, job.run_s = before.attempts + 1, before.run_s + run_s
        job.submit_s, job.start_s = min(before.submit_s, submit_s), min(before.start_s, start_s)
    found.jobs[cell["JobID"]] = job


def _trace(path: Path, found: _Counts) -> JobTrace:
    jobs = list(found.jobs.values())
    tenants = tuple(dict.fromkeys(job.tenant for job in jobs))
    place = {name: code for code, name in enumerate(tenants)}
    requeued = sum(job.attempts > 1 for job in jobs)
    submit_s = np.array([job.submit_s for job in jobs])
    return of_durations(
        "sacct",
        path,
        submit_s,
        np.array([job.gpus for job in jobs], np.int64),
        np.array([job.run_s for job in jobs]),
        tenants,
        np.array([place[job.tenant] for job in jobs], np.int32),
        ids=tuple(found.jobs),
        source="sacct",
        notes=tuple(
            text
            for count, text in (
                (
                    1,
                    "jobs name no network; times are local, so an hour is missing or double when clocks change",
                ),
                (found.no_gpu, f"{found.no_gpu} jobs without GPU left out"),
                (found.never_ran, f"{found.never_ran} jobs that never ran left out"),
                (found.mixed, f"{found.mixed} jobs on several types of GPU left out"),
                (found.running, f"{found.running} jobs were still running: their run time so far counts"),
                (
                    requeued,
                    f"{requeued} jobs were requeued: their run times are added up, the first start counts",
                ),
            )
            if count
        ),
        more={
            "wait_s": np.maximum(np.array([job.start_s for job in jobs]) - submit_s, 0.0),
            "time_limit_s": np.array([job.limit_s for job in jobs]),
            **{
                name: _texts([getattr(job, name) for job in jobs])
                for name in ("device", "ran_on", "partition", "qos")
            },
        },
    )


def _texts(values: Sequence[str]) -> np.ndarray:
    return np.array(values, object)


def _moment(path: Path, line: int, column: str, text: str) -> float:
    found = moment_s(text)
    if found is None:
        raise TraceError(
            f"'{text[:40]}' is no time; write 2024-03-01T10:00:00 or seconds (unset SLURM_TIME_FORMAT)",
            path,
            line,
            column,
        )
    return found


def _elapsed(path: Path, line: int, cell: dict[str, str]) -> float:
    if "ElapsedRaw" in cell:
        return _number(path, line, "ElapsedRaw", cell["ElapsedRaw"])
    found = span_s(cell["Elapsed"]) if ":" in cell["Elapsed"] else None
    if found is None or not math.isfinite(found):
        raise TraceError(f"'{cell['Elapsed'][:40]}' is no span; write 2-03:04:05", path, line, "Elapsed")
    return found


def _limit(path: Path, line: int, cell: dict[str, str]) -> float:
    """Seconds; nan where the log says nothing, or no limit."""
    column = "TimelimitRaw" if "TimelimitRaw" in cell else "Timelimit"
    text = cell.get(column, "")
    if text == "" or text.upper() in ("PARTITION_LIMIT", "UNLIMITED"):
        return math.nan
    found = span_s(text)
    if found is None:
        raise TraceError(
            f"'{text[:40]}' is no time limit; write minutes, 2-03:04:05 or UNLIMITED", path, line, column
        )
    return found if 0.0 < found < math.inf else math.nan


def _tres(path: Path, line: int, cell: dict[str, str], column: str) -> tuple[int, tuple[str, ...]]:
    found = gpus_of(cell.get(column, ""))
    if found is None:
        raise TraceError(
            f"'{cell[column][:60]}' is no list of resources; write cpu=8,gres/gpu:a100=4", path, line, column
        )
    return found


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise TraceError(
            f"'{text[:40]}' is no number of at least 0; write it as sacct does", path, line, column
        )
    return value


FORMAT = JobTraceFormat(
    "sacct",
    "Slurm's accounting: sacct -P with a header line, one row per job",
    (),
    read,
    begins=lambda path: "JobID" in first_line(path),
    example=(
        "JobID|User|Account|State|Submit|Start|Elapsed|AllocTRES\n"
        "7|ann|bio|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:30|01:00:00|cpu=8,gres/gpu:a100=2,node=1\n"
        "8|bob|bio|TIMEOUT|2024-03-01T10:01:00|2024-03-01T11:00:30|2-03:04:05|cpu=8,gres/gpu=4,node=1\n"
    ),
)
