"""Shanghai AI Laboratory's Seren and Kalos, 2023: ``trace_seren.csv``, ``trace_kalos.csv`` (Hu et al., NSDI 2024).

Run times are from start to end: the column ``duration`` of Kalos holds the wait, too. Tenants are users. CPU jobs and
jobs that never ran are left out and counted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eunomia.cluster.traces import columns
from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat
from eunomia.workload.traces.table import MAX_ROWS

MAPPING = {
    "job": "job_id",
    "tenant": "user",
    "gpus": "gpu_num",
    "submit": "submit_time",
    "start": "start_time",
    "end": "end_time",
    "duration": "",
}


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per GPU job that ran, by submission, from time 0. Raises TraceError."""
    found = columns.read(path, max_rows=max_rows, mapping=MAPPING)
    return replace(
        found, format="acme", source="InternLM/AcmeTrace (Hu et al., NSDI 2024)", licence="CC BY 4.0"
    )


FORMAT = JobTraceFormat(
    "acme",
    "Acme's Seren and Kalos: trace_seren.csv, one row per job, with GPUs and times",
    (frozenset({*MAPPING.values(), "node_num", "type", "gpu_time"} - {""}),),
    read,
    example=(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "1,u,1,8,96,x,FAILED,2023-03-01 00:10:00+08:00,2023-03-01 00:11:00+08:00,2023-03-01 01:11:00+08:00,1,1,1\n"
        "2,v,1,1,12,x,COMPLETED,2023-03-01 00:20:00+08:00,2023-03-01 00:20:00+08:00,2023-03-01 00:21:00+08:00,1,1,1\n"
    ),
)
