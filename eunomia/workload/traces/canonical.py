"""Eunomia's own trace schema, CSV or Parquet: what every other trace can be turned into.

===================  ======  ========================================================================
column               type    meaning
===================  ======  ========================================================================
arrival_s            float   seconds, at least 0, ascending (or read with ``sort``)
tenant               text    may be missing: all rows belong to the tenant "trace"; never empty
model                text    may be missing or empty: the scenario chooses
deadline_s           float   absolute, after the arrival; empty = none
relative_deadline_s  float   after the arrival, positive; empty = none; not together with deadline_s
priority             float   higher is more urgent
duration_s           float   measured run time; empty = unknown
context_tokens       int
generated_tokens     int
gpus                 int
===================  ======  ========================================================================

Only ``arrival_s`` is required. A CSV file keeps the rows alone; a Parquet file keeps
source, licence and notes as well, in the key ``eunomia.trace`` of its metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from eunomia.core.atomic import write_bytes
from eunomia.core.errors import ConfigError, TraceError
from eunomia.workload.traces.exact import Column, line_of
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.table import MAX_ROWS, Names, Values, first, read_columns
from eunomia.workload.traces.trace import OPTIONAL, Trace

COLUMNS = (
    Column("arrival_s", "float", least=0),
    Column("tenant", "text", optional=True),
    Column("model", "text", optional=True, blank=True),
    Column("deadline_s", "float", optional=True, blank=True),
    Column("relative_deadline_s", "float", optional=True, blank=True),
    Column("priority", "float", optional=True),
    Column("duration_s", "float", optional=True, blank=True, least=0),
    Column("context_tokens", "int", optional=True, least=0),
    Column("generated_tokens", "int", optional=True, least=0),
    Column("gpus", "int", optional=True, least=0),
)
METADATA = b"eunomia.trace"
ONE_TENANT = "trace"  # of a file without tenants


def read(path: Path, *, max_rows: int = MAX_ROWS, sort: bool = False) -> Trace:
    """Read a canonical trace; times stay as they are. Unsorted rows are an error unless ``sort``."""
    known: dict[str, Any] = {}
    if is_parquet(path):
        values, known = _read_parquet(path, max_rows)
    else:
        values = read_columns(path, COLUMNS, max_rows)
    if "deadline_s" in values and "relative_deadline_s" in values:
        raise TraceError("give either deadline_s or relative_deadline_s, not both", path, 1, "deadline_s")
    arrival_s = values["arrival_s"]
    late = first(np.diff(arrival_s) < 0.0)
    if late is not None and not sort:
        raise _wrong(
            path,
            late + 1,
            "arrival_s",
            f"{arrival_s[late + 1]:g} is earlier than {arrival_s[late]:g} in the row before; "
            "sort the rows by arrival_s, or open the file in Python with sort=True",
        )
    values.setdefault("tenant", Names((ONE_TENANT,), np.zeros(len(arrival_s), np.int32)))
    models, model = _models(values)
    optional = {name: values[name] for name in OPTIONAL if name in values}
    trace = Trace(
        "canonical",
        str(path),
        arrival_s,
        values["tenant"].names,
        values["tenant"].codes,
        models,
        model,
        **optional | {"relative_deadline_s": _relative(path, values)} | known,
    )
    return trace if late is None else trace.select(np.argsort(arrival_s, kind="stable"))


def write(trace: Trace, path: str | Path) -> Path:
    """Write a trace as CSV or Parquet, by the file's ending, whole or not at all; raises OutputError."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"'{path.name}' ends in '{path.suffix}'; a trace is written as .csv or .parquet")
    table = _table(trace)
    sink = pa.BufferOutputStream()
    if path.suffix == ".csv":
        pacsv.write_csv(table, sink)
    else:
        pq.write_table(table, sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())
    return path


def is_parquet(path: Path) -> bool:
    """Whether the file starts as Parquet does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise TraceError(f"the file cannot be read: {error.strerror or error}", path) from None


def _read_parquet(path: Path, max_rows: int) -> tuple[Values, dict[str, Any]]:
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if file.metadata.num_rows > max_rows:
            raise TraceError(
                f"{file.metadata.num_rows} rows, more than {max_rows}; keep a part of the file", path
            )
        table = file.read([column.name for column in COLUMNS if column.name in names])
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(f"not a readable Parquet file: {error}", path) from None
    missing = [column.name for column in COLUMNS if not column.optional and column.name not in names]
    if missing:
        raise TraceError(f"this column is missing; the file has: {', '.join(names)}", path, None, missing[0])
    if not table.num_rows:
        raise TraceError("the file has no rows", path)
    values = {
        column.name: _parquet_column(path, column, table.column(column.name))
        for column in COLUMNS
        if column.name in names
    }
    return values, _about((table.schema.metadata or {}).get(METADATA))


def _about(stored: bytes | None) -> dict[str, Any]:
    """Source, licence and notes that ``write`` left; anything else is not ours and is passed over."""
    try:
        known = json.loads(stored or b"{}")
        return {
            "source": str(known["source"]),
            "licence": str(known["licence"]),
            "notes": tuple(str(note) for note in known["notes"]),
        }
    except (ValueError, KeyError, TypeError):
        return {}


def _parquet_column(path: Path, column: Column, cells: Any) -> Any:
    kinds = {"text": pa.string(), "float": pa.float64(), "int": pa.int64()}
    try:
        cells = cells.cast(kinds[column.kind]).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TraceError(
            f"its type is {cells.type}; it must be {kinds[column.kind]}", path, None, column.name
        ) from None
    if cells.null_count and not column.blank:
        row = first(cells.is_null().to_numpy(zero_copy_only=False))
        raise _wrong(path, row or 0, column.name, "this cell is empty")
    if column.kind == "text":
        encoded = cells.fill_null("").dictionary_encode()
        return Names(tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int32))
    values = cells.to_numpy(zero_copy_only=False)
    known = ~cells.is_null().to_numpy(zero_copy_only=False)
    row = first(known & ~(np.isfinite(values) & (values >= column.least)))
    if row is not None:
        raise _wrong(
            path, row, column.name, f"{values[row]} must be a finite number of at least {column.least:g}"
        )
    return values


def _wrong(path: Path, row: int, column: str, message: str) -> TraceError:
    """The error for data row ``row``: its line in a CSV file, its number in a Parquet file."""
    if is_parquet(path):
        return TraceError(f"row {row}: {message}", path, None, column)
    return TraceError(message, path, line_of(path, row), column)


def _models(values: Values) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Names and codes of the models, where an empty name is code -1."""
    if "model" not in values:
        return (), np.full(len(values["arrival_s"]), -1, np.int32)
    found: Names = values["model"]
    names = tuple(name for name in found.names if name)
    codes = np.array([names.index(name) if name else -1 for name in found.names], np.int32)
    return names, codes[found.codes]


def _relative(path: Path, values: Values) -> npt.NDArray[np.float64] | None:
    """Deadlines after the arrival, inf = none; they must lie after it."""
    for name, start_s in (("deadline_s", values["arrival_s"]), ("relative_deadline_s", 0.0)):
        if name not in values:
            continue
        given = values[name]
        past = first(given <= start_s)
        if past is not None:
            raise _wrong(path, past, name, f"the deadline {given[past]:g} is not after the arrival")
        return np.where(np.isnan(given), np.inf, given - start_s)
    return None


def _table(trace: Trace) -> Any:
    columns: dict[str, Any] = {
        "arrival_s": pa.array(trace.arrival_s),
        "tenant": pa.array(np.array(trace.tenants, object)[trace.tenant], pa.string()),
    }
    if trace.models:
        names = np.array([*trace.models, None], object)  # code -1 is the last: no model
        columns["model"] = pa.array(names[trace.model], pa.string())
    for name in OPTIONAL:
        values = getattr(trace, name)
        if values is not None:
            empty = ~np.isfinite(values)
            columns[name] = pa.array(values, mask=empty if empty.any() else None)
    about = {"source": trace.source, "licence": trace.licence, "notes": trace.notes}
    return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(about)})


FORMAT = TraceFormat(
    "canonical",
    "Eunomia's own schema, CSV or Parquet: arrival_s and up to nine more columns",
    (frozenset({"arrival_s"}),),
    read,
)
