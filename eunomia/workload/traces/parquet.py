"""Canonical traces as Parquet files, beside CSV: columns with the same checks, and errors that name a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from eunomia.core.arrays import Floats, Ints
from eunomia.core.atomic import write_bytes
from eunomia.core.errors import ConfigError, TraceError
from eunomia.workload.traces.exact import Column, line_of
from eunomia.workload.traces.table import Names, Values, first

_ARROW = {"text": pa.string(), "float": pa.float64(), "int": pa.int64()}


def is_parquet(path: Path) -> bool:
    """Whether the file starts as Parquet does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None


def read_parquet(
    path: Path, columns: Sequence[Column], max_rows: int
) -> tuple[Values, Mapping[bytes, bytes]]:
    """These columns of the file, as ``read_columns`` gives them, and its metadata; raises TraceError."""
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if file.metadata.num_rows > max_rows:
            raise TraceError(
                f"{file.metadata.num_rows} rows, more than {max_rows}; keep a part of the file", path
            )
        table = file.read([column.name for column in columns if column.name in names])
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(f"not a readable Parquet file: {error}", path) from None
    missing = [column.name for column in columns if not column.optional and column.name not in names]
    if missing:
        raise TraceError(f"this column is missing; the file has: {', '.join(names)}", path, None, missing[0])
    if not table.num_rows:
        raise TraceError("the file has no rows", path)
    present = [column for column in columns if column.name in names]
    values = {column.name: _cells(path, column, table.column(column.name)) for column in present}
    return values, table.schema.metadata or {}


def write_table(table: pa.Table, path: str | Path, what: str) -> Path:
    """Write as CSV or Parquet, by the file's ending, whole or not at all; ``what`` names it in errors.

    Raises ConfigError, OutputError.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"'{path.name}' ends in '{path.suffix}'; {what} is written as .csv or .parquet")
    sink = pa.BufferOutputStream()
    if path.suffix == ".csv":
        pacsv.write_csv(table, sink)
    else:
        pq.write_table(table, sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())
    return path


def line_in(path: Path, row: int) -> int | None:
    """The line of data row ``row``; a Parquet file has none."""
    return None if is_parquet(path) else line_of(path, row)


def wrong_row(path: Path, row: int, column: str, message: str) -> TraceError:
    """The error for data row ``row``: its line in a CSV file, its number in a Parquet file."""
    line = line_in(path, row)
    return TraceError(message if line is not None else f"row {row}: {message}", path, line, column)


def require_order(path: Path, arrival_s: Floats, more: str = "") -> None:
    """Raise TraceError for the first arrival that is earlier than the one before it; ``more``: what else helps."""
    late = first(np.diff(arrival_s) < 0.0)
    if late is not None:
        earlier = f"{arrival_s[late + 1]:g} is earlier than {arrival_s[late]:g} in the row before"
        raise wrong_row(path, late + 1, "arrival_s", f"{earlier}; sort the rows by arrival_s{more}")


def _cells(path: Path, column: Column, cells: pa.ChunkedArray) -> Names | Floats | Ints:
    try:
        cells = cells.cast(_ARROW[column.kind]).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TraceError(
            f"its type is {cells.type}; it must be {_ARROW[column.kind]}", path, None, column.name
        ) from None
    empty = cells.is_null().to_numpy(zero_copy_only=False)
    if empty.any() and not column.blank:
        raise wrong_row(path, first(empty) or 0, column.name, "this cell is empty")
    if column.kind == "text":
        encoded = cells.fill_null("").dictionary_encode()
        return Names(tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int32))
    values: Floats | Ints = cells.to_numpy(zero_copy_only=False)
    bad = first(~empty & ~(np.isfinite(values) & (values >= column.least)))
    if bad is not None:
        message = f"{values[bad]} must be a finite number of at least {column.least:g}"
        raise wrong_row(path, bad, column.name, message)
    return values
