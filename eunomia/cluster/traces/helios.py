"""SenseTime's Helios clusters, 2020: ``cluster_log.csv`` of one cluster (Hu et al., SC 2021).

Tenants are virtual clusters. CPU jobs (``gpu_num`` = 0) and jobs that never ran are left out and counted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations, require_unique
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column, line_of
from eunomia.workload.traces.table import MAX_ROWS, read_columns

COLUMNS = (
    Column("job_id", "text"),
    Column("vc", "text"),
    Column("gpu_num", "int", least=0),
    Column("submit_time", "stamp"),
    Column("duration", "float", least=0),
)
QUEUE = Column("queue", "float", optional=True, blank=True)  # seconds that the job waited


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per GPU job that ran, by submission, from time 0. Raises TraceError."""
    values = read_columns(path, (*COLUMNS, QUEUE), max_rows)
    names = values["job_id"].names
    ids = [names[code] for code in values["job_id"].codes]
    require_unique(path, ids, lambda row: line_of(path, row))
    kept = (values["gpu_num"] >= 1) & (values["duration"] > 0.0)
    if not kept.any():
        raise TraceError("no job of this trace ran on a GPU", path)
    left_out = len(ids) - int(kept.sum())
    notes = (
        "jobs name no network",
        *([f"{left_out} CPU jobs or jobs that never ran left out"] if left_out else []),
    )
    return of_durations(
        "helios",
        path,
        values["submit_time"][kept],
        values["gpu_num"][kept].astype(np.int64),
        values["duration"][kept],
        values["vc"].names,
        values["vc"].codes[kept],
        ids=tuple(ids[row] for row in np.flatnonzero(kept)),
        source="S-Lab-System-Group/HeliosData (Hu et al., SC 2021)",
        licence="CC BY 4.0",
        notes=notes,
        more={"wait_s": np.where(values["queue"] >= 0.0, values["queue"], np.nan)[kept]}
        if "queue" in values
        else {},
    )


FORMAT = JobTraceFormat(
    "helios",
    "Helios: cluster_log.csv, one row per Slurm job, with virtual cluster, run time and GPUs",
    (frozenset(column.name for column in COLUMNS),),
    read,
    example=(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,v,1,1,1,C,2020-06-09 18:40:00,x,y,60,0\n"
        "2,u,v,4,1,1,C,2020-06-09 18:41:00,x,y,50,0\n"
    ),
)
