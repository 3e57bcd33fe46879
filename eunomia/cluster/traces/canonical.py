"""Eunomia's own schema of jobs, CSV or Parquet: what every other format can be turned into.

=============  ======  ====================================================================
column         type    meaning
=============  ======  ====================================================================
arrival_s      float   required, ascending
gpus           int     required, devices held at once, at least 1
job            text    unique; absent = the row, from 0
tenant         text    absent = one tenant
job_type       text    key of the throughput table; empty = not named
steps          float   whole number of at least 1; empty = follows from duration_s
duration_s     float   run time alone on the reference type; empty = follows from steps
weight         float   above 0; absent = 1
slo            float   allowed completion time over time alone; empty = none
wait_s         float   how long it waited under the scheduler of the log; empty = not known
time_limit_s   float   the user's limit of its run time; empty = none
priority       float   of its class; empty = none
device, ran_on text    types that it may run on (separated by commas), type of its run time; empty = any
partition_factor, qos_factor   float   Slurm's factors, from 0 to 1; empty = 0
partition, qos text    queue and quality of service of a batch system
=============  ======  ====================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from eunomia.cluster.traces.job_trace import (
    NUMBERS,
    TEXTS,
    JobTrace,
    JobTraceFormat,
    no_value,
    numbered,
    require_unique,
)
from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.parquet import (
    is_parquet,
    line_in,
    read_parquet,
    require_order,
    write_table,
    wrong_row,
)
from eunomia.workload.traces.table import MAX_ROWS, Names, Values, first, read_columns

COLUMNS = (
    Column("arrival_s", "float", least=0),
    Column("gpus", "int", least=1),
    Column("job", "text", optional=True),
    Column("tenant", "text", optional=True),
    Column("job_type", "text", optional=True, blank=True),
    Column("steps", "float", optional=True, blank=True, least=1),
    Column("duration_s", "float", optional=True, blank=True, least=0),
    Column("weight", "float", optional=True, least=0),
    Column("slo", "float", optional=True, blank=True, least=0),
    Column("priority", "float", optional=True, blank=True),
    *(Column(name, "float", optional=True, blank=True, least=0) for name in NUMBERS if name != "priority"),
    *(Column(name, "text", optional=True, blank=True) for name in TEXTS),
)


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """Read a canonical job trace; times stay as they are. Raises TraceError."""
    if is_parquet(path):
        values, _ = read_parquet(path, COLUMNS, max_rows)
    else:
        values = read_columns(path, COLUMNS, max_rows)
    count = len(values["arrival_s"])
    _check(path, values)
    ids = _texts(values["job"]) if "job" in values else numbered(count)
    require_unique(path, ids, lambda row: line_in(path, row))
    tenant = values.get("tenant") or Names(("trace",), np.zeros(count, np.int32))
    types = values.get("job_type") or Names((), np.full(count, -1, np.int32))
    named = tuple(name for name in types.names if name)
    codes = np.array([named.index(name) if name else -1 for name in types.names] or [-1], np.int32)
    return JobTrace(
        format="canonical",
        path=str(path),
        ids=ids,
        arrival_s=values["arrival_s"],
        gpus=np.asarray(values["gpus"], np.int64),
        tenants=tenant.names,
        tenant=tenant.codes,
        job_types=named,
        job_type=codes[types.codes],
        steps=values.get("steps", no_value(count)),
        duration_s=values.get("duration_s", no_value(count)),
        weight=values.get("weight", np.ones(count)),
        slo=values.get("slo", no_value(count)),
        more={
            **{name: values[name] for name in NUMBERS if name in values},
            **{name: np.array(_texts(values[name]), object) for name in TEXTS if name in values},
        },
    )


def write(trace: JobTrace, path: str | Path) -> Path:
    """Write as CSV or Parquet, by the file's ending, whole or not at all. Raises OutputError, ConfigError."""
    types = np.array([*trace.job_types, None], object)  # code -1 is the last: not named
    table = pa.table(
        {
            "job": pa.array(trace.ids, pa.string()),
            "arrival_s": pa.array(trace.arrival_s),
            "gpus": pa.array(trace.gpus),
            "tenant": pa.array(np.array(trace.tenants, object)[trace.tenant], pa.string()),
            "job_type": pa.array(types[trace.job_type], pa.string()),
            "weight": pa.array(trace.weight),
            **{
                name: pa.array(values, mask=np.isnan(values))
                for name, values in (
                    ("steps", trace.steps),
                    ("duration_s", trace.duration_s),
                    ("slo", trace.slo),
                    *((name, trace.more[name]) for name in NUMBERS if name in trace.more),
                )
            },
            **{name: pa.array(trace.more[name], pa.string()) for name in TEXTS if name in trace.more},
        }
    )
    return write_table(table, path, "a job trace")


def _check(path: Path, values: Values) -> None:
    """What the columns mean together; the readers have checked each alone."""
    arrival_s = values["arrival_s"]
    require_order(path, arrival_s)
    for name in ("weight", "duration_s", "slo"):
        wrong = first(values[name] == 0.0) if name in values else None
        if wrong is not None:
            raise wrong_row(path, wrong, name, "0 must be greater than 0")
    steps = values.get("steps", no_value(len(arrival_s)))
    broken = first(~np.isnan(steps) & (steps != np.floor(steps)))
    if broken is not None:
        raise wrong_row(path, broken, "steps", f"{steps[broken]:g} is not a whole number")
    neither = first(np.isnan(steps) & np.isnan(values.get("duration_s", no_value(len(arrival_s)))))
    if neither is not None:
        raise wrong_row(path, neither, "steps", "the job has neither steps nor duration_s")


def _texts(names: Names) -> tuple[str, ...]:
    return tuple(names.names[code] for code in names.codes)


FORMAT = JobTraceFormat(
    "canonical",
    "Eunomia's own schema of jobs, CSV or Parquet: arrival_s, gpus and up to seven more columns",
    (frozenset({"arrival_s", "gpus"}),),
    read,
    begins=is_parquet,
    example="arrival_s,gpus,duration_s\n0,1,60\n5,2,90\n",
)
