"""Alibaba's PAI cluster, 2020: ``pai_task_table.csv``, one row per task of a job (Weng et al., NSDI 2022).

The published file has no header line; its columns are those of ``pai_task_table.header``. A job is the
sum of its GPU tasks: devices = sum of instances times ``plan_gpu`` / 100, rounded up, because a training job here
holds whole devices; the rounding is counted in the notes. Tenants are not in this table: there is one.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations
from eunomia.cluster.traces.lines import first_line
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import records
from eunomia.workload.traces.table import MAX_ROWS

COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
STATES = frozenset({"Terminated", "Failed", "Waiting", "Running", "Interrupted"})


class _Job:
    """The GPU tasks of one job seen so far."""

    def __init__(self) -> None:
        self.gpus, self.start_s, self.end_s = 0.0, math.inf, -math.inf


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per job with a GPU task that ran, by start of its first task, from time 0. Raises TraceError."""
    jobs: dict[str, _Job] = {}
    skipped = 0
    for number, (line, fields) in enumerate(records(path)):
        if number == 0 and fields[0] == "job_name":
            continue
        if number > max_rows:
            raise TraceError(f"more than {max_rows} rows; keep a part of the file", path)
        if len(fields) != len(COLUMNS):
            raise TraceError(
                f"this line has {len(fields)} fields; pai_task_table has {len(COLUMNS)}: {', '.join(COLUMNS)}",
                path,
                line,
            )
        cell = dict(zip(COLUMNS, fields, strict=True))
        gpus = _number(path, line, "plan_gpu", cell["plan_gpu"]) or 0.0
        start_s = _number(path, line, "start_time", cell["start_time"])
        end_s = _number(path, line, "end_time", cell["end_time"])
        if gpus <= 0.0 or start_s is None or end_s is None or end_s <= start_s:
            skipped += 1
            continue
        job = jobs.setdefault(cell["job_name"], _Job())
        job.gpus += (_number(path, line, "inst_num", cell["inst_num"]) or 1.0) * gpus / 100.0
        job.start_s, job.end_s = min(job.start_s, start_s), max(job.end_s, end_s)
    if not jobs:
        raise TraceError("no task of this trace ran on a GPU", path)
    asked = np.array([job.gpus for job in jobs.values()])
    gpus_needed = np.maximum(np.ceil(asked - 1e-9), 1.0).astype(np.int64)
    rounded = int((np.abs(gpus_needed - asked) > 1e-9).sum())
    return of_durations(
        "alibaba-pai",
        path,
        np.array([job.start_s for job in jobs.values()]),
        gpus_needed,
        np.array([job.end_s - job.start_s for job in jobs.values()]),
        ("pai",),
        np.zeros(len(jobs), np.int32),
        ids=tuple(jobs),
        source="alibaba/clusterdata, cluster-trace-gpu-v2020 (Weng et al., NSDI 2022)",
        licence="CC BY 4.0",
        notes=(
            "jobs name no network; arrival = start of the first task, as the table has no submission times",
            *([f"{rounded} jobs asked for a fraction of a GPU and hold whole ones here"] if rounded else []),
            *([f"{skipped} tasks without GPU or without both times left out"] if skipped else []),
        ),
    )


def _number(path: Path, line: int, column: str, cell: str) -> float | None:
    """A number that is not negative; None where the cell is empty."""
    if cell == "":
        return None
    try:
        value = float(cell)
    except ValueError:
        raise TraceError(f"'{cell[:40]}' is not a number", path, line, column) from None
    if not math.isfinite(value) or value < 0.0:
        raise TraceError(f"{cell} must be a finite number of at least 0", path, line, column)
    return value


def _begins(path: Path) -> bool:
    """Whether the first line is a row without a header line, as the table is published."""
    try:
        fields = first_line(path).split(",")
    except TraceError:
        return False
    return len(fields) == len(COLUMNS) and fields[3] in STATES


FORMAT = JobTraceFormat(
    "alibaba-pai",
    "Alibaba PAI 2020: pai_task_table.csv, tasks of training jobs, with or without a header line",
    (frozenset({"job_name", "task_name", "inst_num", "plan_gpu"}),),
    read,
    begins=_begins,
    example=(
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
        "j1,worker,3,Terminated,110,400,600,29,50,T4\n"
        "j2,w,1,Failed,190,195,1,1,200,V100\n"
    ),
)
