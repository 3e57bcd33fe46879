"""CSV files as typed columns, quickly; and, when something is wrong, exactly where.

The fast path is Arrow's streaming reader, so memory holds one block of text and the numbers read so
far. Only when it fails is the file read again, slowly, to name line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column, explain, header, is_gzip, nanoseconds

MAX_ROWS = 20_000_000
BLOCK_BYTES = 1 << 24

_ARROW = {"text": pa.string(), "float": pa.float64(), "int": pa.int64(), "stamp": pa.string()}


@dataclass(frozen=True, slots=True)
class Names:
    """A text column: row k holds names[codes[k]]."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]


Values = dict[str, Any]  # column -> Names for text, float64 or int64 array for numbers, seconds for stamps


def read_columns(
    path: Path,
    columns: Sequence[Column],
    max_rows: int = MAX_ROWS,
    on_batch: Callable[[Any], None] | None = None,
    extra: Sequence[str] = (),
) -> Values:
    """Read the named columns of a CSV file (plain or gzip, any line ends, with or without a mark).

    ``extra`` columns are whole numbers handed to ``on_batch`` with each Arrow batch and not kept. Raises
    TraceError, with file, line and column, for missing or repeated columns, no rows, wrong types and blanks.
    So it does for values that are not finite or too small, bad text, and more than ``max_rows`` rows.
    """
    names = _check_header(path, columns)
    present = [column for column in columns if column.name in names]
    parts: dict[str, list[Any]] = {column.name: [] for column in present}
    dictionaries: dict[str, dict[str, int]] = {column.name: {} for column in present if column.kind == "text"}
    rows = 0
    try:
        for batch in _batches(path, present, extra):
            rows += batch.num_rows
            if rows > max_rows:
                raise TraceError(
                    f"more than {max_rows} rows; keep a part of the file, or open it in Python with a larger max_rows",
                    path,
                )
            for column in present:
                cells = batch.column(column.name)
                parts[column.name].append(_convert(column, cells, dictionaries))
            if on_batch is not None:
                on_batch(batch)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        explain(path, [*present, *(Column(name, "int") for name in extra)], error)
    if not rows:
        raise TraceError("the file has a header but no rows", path)
    return {column.name: _join(column, parts[column.name], dictionaries) for column in present}


def first(wrong: npt.NDArray[np.bool_]) -> int | None:
    """Index of the first True, or None."""
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_header(path: Path, columns: Sequence[Column]) -> list[str]:
    names = header(path)
    wanted = {column.name for column in columns}
    for name in names:
        if name in wanted and names.count(name) > 1:
            raise TraceError("this column appears twice in the header", path, 1, name)
    missing = [column.name for column in columns if not column.optional and column.name not in names]
    if missing:
        raise TraceError(
            f"this column is missing; the header has: {', '.join(names[:12])}", path, 1, missing[0]
        )
    return names


def _batches(path: Path, columns: Sequence[Column], extra: Sequence[str]) -> Iterator[Any]:
    types = {column.name: _ARROW[column.kind] for column in columns} | dict.fromkeys(extra, pa.int64())
    options = pacsv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=True
    )
    with pa.input_stream(str(path), compression="gzip" if is_gzip(path) else None) as stream:
        reader = pacsv.open_csv(
            stream, read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES), convert_options=options
        )
        yield from reader


def _convert(column: Column, cells: Any, dictionaries: dict[str, dict[str, int]]) -> Any:
    """One batch of one column as NumPy; raises ArrowInvalid where a cell is wrong."""
    if cells.null_count and not column.blank:
        raise pa.ArrowInvalid("blank cell")
    if column.kind == "text":
        return _codes(cells, dictionaries[column.name])
    if column.kind == "stamp":
        return nanoseconds(cells)
    values = cells.to_numpy(zero_copy_only=False)
    known = values[cells.is_valid().to_numpy(zero_copy_only=False)] if cells.null_count else values
    if not np.isfinite(known).all() or (known < column.least).any():
        raise pa.ArrowInvalid("not finite, or too small")
    return values


def _codes(cells: Any, dictionary: dict[str, int]) -> npt.NDArray[np.int32]:
    encoded = pc.fill_null(cells, "").dictionary_encode()
    moved = [dictionary.setdefault(name, len(dictionary)) for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return np.asarray(np.array(moved, np.int32)[codes], np.int32)


def _join(column: Column, parts: list[Any], dictionaries: dict[str, dict[str, int]]) -> Any:
    values = np.concatenate(parts)
    if column.kind == "text":
        return Names(tuple(dictionaries[column.name]), values)
    if column.kind == "stamp":
        return (values - values.min()) / 1e9  # differences in whole nanoseconds first: no rounding of epochs
    return values
