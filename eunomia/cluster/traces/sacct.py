"""Slurm's accounting: ``sacct -P`` with a header line (``--parsable2``), one row per job; steps are skipped.

Needed are the columns JobID, Submit, Start, State, one of ElapsedRaw, Elapsed and End, and one of AllocTRES, ReqTRES
and AllocGRES. Eligible, User, Account, Partition, QOS and Timelimit or TimelimitRaw are used where they are there.
Tenants are ``account/user``. A job waits from when it was eligible. ReqTRES has the types asked for, AllocTRES where
it ran.

Rows of one JobID (``--duplicates``, after a requeue) are one job: run times add up, the first start counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations
from eunomia.cluster.traces.sacct_lines import begins, rows
from eunomia.cluster.traces.slurm_text import NO_TIME, gpus_of, gres_of, moment_s, span_s
from eunomia.core.errors import TraceError
from eunomia.workload.traces.table import MAX_ROWS

_STATES = """
BOOT_FAIL CANCELLED COMPLETED COMPLETING CONFIGURING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY
PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD REVOKED RUNNING
SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UPDATE_DB
"""
STATES = frozenset(_STATES.split())
NOTHING = frozenset({"", "(null)", "None"})


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
    parts: int = 0
    no_time: int = 0
    jobs: dict[str, _Job] = field(default_factory=dict)


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per job that ran on a GPU, from time 0. Raises TraceError."""
    found = _Counts()
    for line, cell in rows(path, max_rows):
        _row(path, line, cell, found)
    if not found.jobs:
        raise TraceError(
            f"no job of this log ran on a GPU ({found.no_gpu} without GPU, {found.never_ran} never ran, "
            f"{found.mixed} on several types); check that AllocTRES lists gres/gpu",
            path,
        )
    return _trace(path, found)


def _row(path: Path, line: int, cell: dict[str, str], found: _Counts) -> None:
    """Book one line. Raises TraceError."""
    if "." in cell["JobID"]:
        found.steps += 1
        return
    state = (cell["State"].split() or [""])[0]
    if state not in STATES and not (state.endswith("+") and any(s.startswith(state[:-1]) for s in STATES)):
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
    run_s = _elapsed(path, line, cell, start_s)
    if not run_s > 0.0:
        found.never_ran += run_s <= 0.0
        found.no_time += math.isnan(run_s)
        return
    asked, had = _tres(path, line, cell, "ReqTRES"), _had(path, line, cell)
    gpus = had[0] or asked[0]
    if gpus == 0:
        found.no_gpu += 1
        return
    if len(had[1]) > 1:
        found.mixed += 1
        return
    found.early += start_s < submit_s
    found.parts += "+" in cell["JobID"]
    found.running += state in ("RUNNING", "SUSPENDED", "COMPLETING")
    job = _Job(
        submit_s,
        start_s,
        run_s,
        gpus,
        ",".join(asked[1]),
        ",".join(had[1]),
        "/".join(name for column in ("Account", "User") if (name := cell.get(column, "")) not in NOTHING)
        or "all",
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
                (found.no_time, f"{found.no_time} jobs without a run time (INVALID, or no end) left out"),
                (found.mixed, f"{found.mixed} jobs on several types of GPU left out"),
                (
                    found.early,
                    f"{found.early} jobs began before they were submitted: they count as not waiting",
                ),
                (found.parts, f"{found.parts} parts of heterogeneous jobs count as jobs of their own"),
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


def _elapsed(path: Path, line: int, cell: dict[str, str], start_s: float) -> float:
    """Seconds; nan where the log has none."""
    text = cell.get("ElapsedRaw", cell.get("Elapsed", ""))
    if text == "INVALID":
        return math.nan
    if "ElapsedRaw" in cell:
        return _number(path, line, "ElapsedRaw", text)
    if "Elapsed" not in cell:
        end = cell["End"]
        return math.nan if end in NO_TIME else _moment(path, line, "End", end) - start_s
    found = span_s(text) if ":" in text else None
    if found is None or not math.isfinite(found):
        raise TraceError(f"'{text[:40]}' is no span; write 2-03:04:05", path, line, "Elapsed")
    return found


def _limit(path: Path, line: int, cell: dict[str, str]) -> float:
    """Seconds; nan where the log says nothing, or no limit."""
    column = "TimelimitRaw" if "TimelimitRaw" in cell else "Timelimit"
    text = cell.get(column, "")
    if text == "" or text.upper() in ("PARTITION_LIMIT", "UNLIMITED", "INVALID"):
        return math.nan
    found = span_s(text)
    if found is None:
        raise TraceError(
            f"'{text[:40]}' is no time limit; write minutes, 2-03:04:05 or UNLIMITED", path, line, column
        )
    return found if 0.0 < found < math.inf else math.nan


def _had(path: Path, line: int, cell: dict[str, str]) -> tuple[int, tuple[str, ...]]:
    """GPUs that it had, and their types; AllocGRES is of Slurm before 20.11."""
    if "AllocTRES" in cell or "AllocGRES" not in cell:
        return _tres(path, line, cell, "AllocTRES")
    types = gres_of(cell["AllocGRES"])
    return sum(types.values()), tuple(sorted(kind for kind, count in types.items() if kind and count))


def _tres(path: Path, line: int, cell: dict[str, str], column: str) -> tuple[int, tuple[str, ...]]:
    text = cell.get(column, "")
    found = gpus_of("" if text in NOTHING else text)
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
    begins=begins,
    example=(
        "JobID|User|Account|State|Submit|Start|Elapsed|AllocTRES\n"
        "7|ann|bio|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:30|01:00:00|cpu=8,gres/gpu:a100=2,node=1\n"
        "8|bob|bio|TIMEOUT|2024-03-01T10:01:00|2024-03-01T11:00:30|2-03:04:05|cpu=8,gres/gpu=4,node=1\n"
    ),
)
