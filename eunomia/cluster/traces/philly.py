"""Philly's jobs, from the reduced CSV extract or the original job log; read by ``workload.traces``.

Jobs that asked for no GPU are left out and counted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations
from eunomia.core.errors import TraceError
from eunomia.workload.traces import philly
from eunomia.workload.traces.table import MAX_ROWS


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per GPU job, by submission, from time 0; tenants are virtual clusters."""
    rows = philly.read(path, max_rows=max_rows)
    assert rows.gpus is not None and rows.duration_s is not None
    kept = (rows.gpus >= 1) & (rows.duration_s > 0.0)
    if not kept.any():
        raise TraceError("no job of this trace ran on a GPU", path)
    left_out = len(rows) - int(kept.sum())
    used = rows.select(kept)
    assert used.gpus is not None and used.duration_s is not None
    return of_durations(
        "philly",
        path,
        used.arrival_s,
        np.asarray(used.gpus, np.int64),
        used.duration_s,
        used.tenants,
        used.tenant,
        source=rows.source,
        licence=rows.licence,
        notes=(*rows.notes, *((f"{left_out} jobs without GPU or run time left out",) if left_out else ())),
    )


FORMAT = JobTraceFormat(
    "philly",
    "Philly: one row per training job, with virtual cluster, run time and GPUs (CSV extract or job log)",
    philly.FORMAT.headers,
    read,
    begins=philly.FORMAT.begins,
    example=philly.FORMAT.example,
)
