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
=============  ======  ====================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat, no_value, numbered, require_unique
from eunomia.core.atomic import write_bytes
from eunomia.core.errors import ConfigError, TraceError
from eunomia.workload.traces.canonical import is_parquet
from eunomia.workload.traces.exact import Column, line_of
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
)
_ARROW = {"text": pa.string(), "float": pa.float64(), "int": pa.int64()}


def read(path: Path, *, max_rows: int = MAX_ROWS) -> JobTrace:
    """Read a canonical job trace; times stay as they are. Raises TraceError."""
    values = _parquet(path) if is_parquet(path) else read_columns(path, COLUMNS, max_rows)
    count = len(values["arrival_s"])
    _check(path, values)
    ids = _texts(values["job"]) if "job" in values else numbered(count)
    require_unique(path, ids, lambda row: _line(path, row))
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
    )


def write(trace: JobTrace, path: str | Path) -> Path:
    """Write as CSV or Parquet, by the file's ending, whole or not at all. Raises OutputError, ConfigError."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ConfigError(
            f"'{path.name}' ends in '{path.suffix}'; a job trace is written as .csv or .parquet"
        )
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
                )
            },
        }
    )
    sink = pa.BufferOutputStream()
    if path.suffix == ".csv":
        pacsv.write_csv(table, sink)
    else:
        pq.write_table(table, sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())
    return path


def _check(path: Path, values: Values) -> None:
    """What the columns mean together; the readers have checked each alone."""
    arrival_s = values["arrival_s"]
    late = first(np.diff(arrival_s) < 0.0)
    if late is not None:
        raise _wrong(
            path,
            late + 1,
            "arrival_s",
            f"{arrival_s[late + 1]:g} is earlier than {arrival_s[late]:g} in the row before; "
            "sort the rows by arrival_s",
        )
    for name in ("weight", "duration_s", "slo"):
        wrong = first(values[name] == 0.0) if name in values else None
        if wrong is not None:
            raise _wrong(path, wrong, name, "0 must be greater than 0")
    steps = values.get("steps", no_value(len(arrival_s)))
    broken = first(~np.isnan(steps) & (steps != np.floor(steps)))
    if broken is not None:
        raise _wrong(path, broken, "steps", f"{steps[broken]:g} is not a whole number")
    neither = first(np.isnan(steps) & np.isnan(values.get("duration_s", no_value(len(arrival_s)))))
    if neither is not None:
        raise _wrong(path, neither, "steps", "the job has neither steps nor duration_s")


def _texts(names: Names) -> tuple[str, ...]:
    return tuple(names.names[code] for code in names.codes)


def _line(path: Path, row: int) -> int | None:
    return None if is_parquet(path) else line_of(path, row)


def _wrong(path: Path, row: int, column: str, message: str) -> TraceError:
    if is_parquet(path):
        return TraceError(f"row {row}: {message}", path, None, column)
    return TraceError(message, path, line_of(path, row), column)


def _parquet(path: Path) -> Values:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(f"not a readable Parquet file: {error}", path) from None
    missing = [c.name for c in COLUMNS if not c.optional and c.name not in table.column_names]
    if missing:
        raise TraceError(
            f"this column is missing; the file has: {', '.join(table.column_names)}", path, None, missing[0]
        )
    if not table.num_rows:
        raise TraceError("the file has no rows", path)
    return {c.name: _cells(path, c, table[c.name]) for c in COLUMNS if c.name in table.column_names}


def _cells(path: Path, column: Column, cells: Any) -> Any:
    try:
        cells = cells.cast(_ARROW[column.kind]).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TraceError(
            f"its type is {cells.type}; it must be {_ARROW[column.kind]}", path, None, column.name
        ) from None
    empty = cells.is_null().to_numpy(zero_copy_only=False)
    if empty.any() and not column.blank:
        raise _wrong(path, int(first(empty) or 0), column.name, "this cell is empty")
    if column.kind == "text":
        encoded = cells.fill_null("").dictionary_encode()
        return Names(tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int32))
    values = cells.to_numpy(zero_copy_only=False)
    bad = first(~empty & ~(np.isfinite(values) & (values >= column.least)))
    if bad is not None:
        raise _wrong(
            path, bad, column.name, f"{values[bad]} must be a finite number of at least {column.least:g}"
        )
    return values


FORMAT = JobTraceFormat(
    "canonical",
    "Eunomia's own schema of jobs, CSV or Parquet: arrival_s, gpus and up to seven more columns",
    (frozenset({"arrival_s", "gpus"}),),
    read,
)
