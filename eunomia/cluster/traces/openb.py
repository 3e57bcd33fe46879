"""Alibaba's GPU cluster with heterogeneous pods, 2023: ``openb_pod_list_*.csv`` (Weng et al., ATC 2023).

A job is a pod. ``gpu_spec`` names the models that it may run on; parts of a GPU (``gpu_milli`` below 1000) become a
whole one and are counted. Tenants are the classes of quality of service.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, of_durations, require_unique
from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column, line_of
from eunomia.workload.traces.table import MAX_ROWS, read_columns

COLUMNS = (
    Column("name", "text"),
    Column("num_gpu", "int", least=0),
    Column("gpu_milli", "int", least=0),
    Column("gpu_spec", "text", blank=True),
    Column("qos", "text", blank=True),
    Column("creation_time", "float", least=0),
    Column("deletion_time", "float", blank=True, least=0),
    Column("scheduled_time", "float", blank=True, least=0),
)


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """One row per pod with a GPU that was scheduled and deleted, by creation, from time 0. Raises TraceError."""
    values = read_columns(path, COLUMNS, max_rows)
    ids = [values["name"].names[code] for code in values["name"].codes]
    require_unique(path, ids, lambda row: line_of(path, row))
    begins, ends, at_s = values["scheduled_time"], values["deletion_time"], values["creation_time"]
    ran = ends > begins  # false where either is missing
    kept = (values["num_gpu"] >= 1) & ran
    if not kept.any():
        raise TraceError("no pod of this trace ran on a GPU to its end; take one with deletion_time", path)
    parts = int((kept & (values["num_gpu"] == 1) & (values["gpu_milli"] < 1000)).sum())
    no_gpu, not_run = int((values["num_gpu"] == 0).sum()), int(((values["num_gpu"] > 0) & ~ran).sum())
    specs = np.array([name.replace("|", ",") for name in values["gpu_spec"].names], object)
    return of_durations(
        "openb",
        path,
        at_s[kept],
        values["num_gpu"][kept].astype(np.int64),
        (ends - begins)[kept],
        tuple(name or "none" for name in values["qos"].names),
        values["qos"].codes[kept],
        ids=tuple(ids[row] for row in np.flatnonzero(kept)),
        source="alibaba/clusterdata, cluster-trace-gpu-v2023 (Weng et al., ATC 2023)",
        licence="CC BY 4.0",
        notes=(
            "jobs name no network",
            *([f"{parts} pods with a part of a GPU hold a whole one here"] if parts else []),
            *([f"{no_gpu} pods without GPU left out"] if no_gpu else []),
            *([f"{not_run} pods that were never scheduled or not deleted left out"] if not_run else []),
        ),
        more={
            "wait_s": np.maximum(begins - at_s, 0.0)[kept],
            "device": specs[values["gpu_spec"].codes][kept],
        },
    )


FORMAT = JobTraceFormat(
    "openb",
    "Alibaba openb 2023: openb_pod_list, pods with GPUs, models allowed, creation and scheduling",
    (frozenset(column.name for column in COLUMNS),),
    read,
    example=(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
        "openb-pod-0001,6000,12288,2,1000,V100M16|V100M32,BE,Succeeded,427061,12902960,427067\n"
    ),
)
