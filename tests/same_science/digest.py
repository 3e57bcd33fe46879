"""Tables as digests, column by column: equal digests mean equal names, types, nulls and values, to the last bit."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Digests = dict[str, dict[str, str]]  # table -> column -> digest

MEASURED = {  # wall times of this machine, never the same twice
    "solve_median_s": "time of the policy's answers",
    "solve_p95_s": "time of the policy's answers",
}


def of_folder(folder: Path) -> Digests:
    """Every table below ``folder``: Parquet, CSV, and the metrics that manifests hold."""
    found: Digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if ".cells" in path.parts:
            continue
        if path.suffix == ".parquet":
            found[name] = of_table(pq.read_table(path))
        elif path.suffix == ".csv":
            found[name] = of_csv(path)
        elif path.name == "manifest.json":
            metrics = json.loads(path.read_text(encoding="utf-8")).get("metrics")
            if isinstance(metrics, dict):
                found[name.replace("manifest.json", "metrics")] = of_values(metrics)
    return found


def of_table(table: pa.Table) -> dict[str, str]:
    """A digest per column, in the table's order."""
    return {name: _column(table.column(name)) for name in table.column_names}


def of_csv(path: Path) -> dict[str, str]:
    """A digest per column of the text."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    return {name: _short("\0".join(row[index] for row in rows[1:])) for index, name in enumerate(rows[0])}


def of_values(values: Mapping[str, object]) -> dict[str, str]:
    """Named values of a JSON document, flattened; floats by their shortest exact text."""
    return {name: value for name, value in _flat(values, "") if name.rpartition(".")[2] not in MEASURED}


def _flat(value: object, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _flat(each, f"{prefix}.{index}")
    else:
        yield prefix, json.dumps(value)


def _column(column: pa.ChunkedArray) -> str:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return _short(f"{column.type}:{len(column)}:", *_parts(column.combine_chunks()))


def _parts(array: pa.Array) -> Iterator[bytes]:
    """Which values there are, and the values; what lies beneath a null does not count."""
    yield np.packbits(np.asarray(array.is_valid())).tobytes()
    if pa.types.is_list(array.type):
        yield np.asarray(array.value_lengths().fill_null(0)).tobytes()
        yield from _parts(array.flatten())
    elif (
        pa.types.is_floating(array.type) or pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)
    ):
        yield np.asarray(array.fill_null(False if pa.types.is_boolean(array.type) else 0)).tobytes()
    else:
        yield json.dumps(array.to_pylist(), default=str).encode()


def _short(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()[:20]
