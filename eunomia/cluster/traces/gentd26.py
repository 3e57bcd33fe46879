"""Alibaba's GenTD26 (cluster-trace-v2026-GenAI): requests for images, each a job of one GPU for its run time.

The file is ``lora_request_trace.csv`` with times (``gmt_create``), unpacked. Tenants are ``groupId``. Requests that had
not ended, and those without a run time, are left out and counted; failed ones held a GPU and count.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.table import MAX_ROWS, read_columns

COLUMNS = (
    Column("gmt_create", "stamp"),
    Column("predict_status", "text"),
    Column("exec_time_seconds", "float", blank=True, least=0),
    Column("groupId", "text", blank=True),
)
ENDED = ("SUCCEED", "FAILED")


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per request that ended, by creation, from time 0. Raises TraceError."""
    values = read_columns(path, COLUMNS, max_rows)
    status = np.array(values["predict_status"].names, object)[values["predict_status"].codes]
    kept = np.isin(status, ENDED) & (values["exec_time_seconds"] > 0.0)
    if not kept.any():
        raise TraceError(f"no request ended ({' or '.join(ENDED)}) after a run time above 0", path)
    left_out = len(kept) - int(kept.sum())
    return of_durations(
        "gentd26",
        path,
        values["gmt_create"][kept],
        np.ones(int(kept.sum()), np.int64),
        values["exec_time_seconds"][kept],
        values["groupId"].names,
        values["groupId"].codes[kept],
        source="alibaba/clusterdata, cluster-trace-v2026-GenAI (GenTD26)",
        licence="none given",
        notes=(
            "jobs name no network",
            "requests of image generation, taken to hold one GPU each",
            *([f"{left_out} requests that had not ended or have no run time left out"] if left_out else []),
        ),
    )


FORMAT = JobTraceFormat(
    "gentd26",
    "GenTD26: lora_request_trace.csv, one row per request, with creation, run time and group",
    (frozenset(column.name for column in COLUMNS),),
    read,
    example=(
        "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,checkpoint_model_version_id,num_lora\n"
        "2024-01-05 10:00:00,TXT_2_IMG,SUCCEED,30.0,G1,M1,0\n"
        "2024-01-05 10:00:20,IMG_2_IMG,FAILED,3.0,G2,M1,1\n"
    ),
)
