"""Cost tables as CSV: measured costs in, computed costs out.

Columns: ``model, layer, type`` and ``compute_s`` (or ``latency_s``); optional ``buffer_s``, ``dram_bytes``,
``energy_j``, ``link_bytes_s``, ``origin``. ``layer`` is a layer's name, or its index. The time ``inf`` means
that the type cannot run the layer; an empty time is a gap (``read_entries``) or an error (``read_cost_csv``).
``what`` and ``modelled_s`` are for the reader of a template and are ignored.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_text
from eunomia.core.errors import PlatformError, TraceError
from eunomia.core.sheet import read_sheet
from eunomia.hardware.entries import Entries
from eunomia.hardware.table import CostTable
from eunomia.workload.model import DnnModel

REQUIRED = ("model", "layer", "type")
OPTIONAL = ("compute_s", "latency_s", "buffer_s", "dram_bytes", "energy_j", "link_bytes_s", "origin")
IGNORED = ("what", "modelled_s")
NUMBERS = ("buffer_s", "dram_bytes", "energy_j")
ORIGINS = ("measured", "model", "imported", "estimated")


def read_cost_csv(path: str | Path, models: Sequence[DnnModel]) -> CostTable:
    """Costs of ``models`` from a CSV file without gaps; types are those of the file, in order of first mention.

    With ``latency_s`` alone the whole time counts as compute. Raises TraceError (file, line, column)
    for a cell that cannot be read, PlatformError for a missing or zero time.
    """
    found = read_entries(path, models, gaps=False)
    _complete(found.compute_s, models, found.types, Path(path))
    parts = {name: getattr(found, name) for name in ("compute_s", *NUMBERS, "link_bytes_s", "origin")}
    return CostTable(found.models, found.types, **parts)


def read_entries(path: str | Path, models: Sequence[DnnModel], gaps: bool = True) -> Entries:
    """What the file gives. Raises TraceError and PlatformError; an empty time is an error without ``gaps``."""
    file = Path(path)
    rows = _rows(file)
    empty = {n for n, row in rows if gaps and not row.get("compute_s") and not row.get("latency_s")}
    types = tuple(dict.fromkeys(row["type"] for _, row in rows))
    offsets = np.cumsum([0, *(len(m.layers) for m in models)])
    shape = (int(offsets[-1]), len(types))
    columns: dict[str, Floats] = {name: np.zeros(shape) for name in NUMBERS}
    columns["compute_s"] = np.full(shape, np.nan)
    link = np.full(len(types), np.inf)
    origin = ["measured"] * len(types)
    where = _places(models)
    used = []
    for line, row in rows:
        places = where.get((row["model"], row["layer"]))
        if places is None:
            if row["model"] not in {m.name for m in models}:
                continue  # a network that this table does not need
            raise TraceError(f"model '{row['model']}' has no layer '{row['layer']}'", file, line, "layer")
        if line in empty:
            continue
        used.append((line, row))
        column = types.index(row["type"])
        cells = _numbers(row, file, line)
        for at in places:
            if not np.isnan(columns["compute_s"][at, column]):
                raise TraceError(
                    f"layer '{row['layer']}' on '{row['type']}' is given twice", file, line, "layer"
                )
            for name in ("compute_s", *NUMBERS):
                columns[name][at, column] = cells[name]
        if row.get("link_bytes_s"):
            link[column] = _number(row["link_bytes_s"], file, line, "link_bytes_s", zero=False)
        if row.get("origin"):
            kind = row["origin"].split(" ")[0]
            if kind not in ORIGINS:
                raise TraceError(
                    f"'{kind}' is no origin; choose one of: {', '.join(ORIGINS)}", file, line, "origin"
                )
            origin[column] = row["origin"]
    linked = {kind for kind, bandwidth in zip(types, link, strict=True) if np.isfinite(bandwidth)}
    _no_free_layers(used, linked, file)
    return Entries(tuple(models), types, **columns, link_bytes_s=link, origin=tuple(origin))


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    sheet = read_sheet(file, (*REQUIRED, "origin", *IGNORED))
    header = sheet.header
    for name in (*REQUIRED, "compute_s"):
        if name not in header and not (name == "compute_s" and "latency_s" in header):
            missing = "compute_s or latency_s" if name == "compute_s" else name
            raise TraceError(f"the column '{missing}' is missing", file, 1, missing)
    for name in header:
        if name not in (*REQUIRED, *OPTIONAL, *IGNORED):
            raise TraceError(f"unknown column; known are {', '.join((*REQUIRED, *OPTIONAL))}", file, 1, name)
    if not sheet.rows:
        raise TraceError("holds no rows", file)
    return [(line, {name: row.get(name, "") for name in header}) for line, row in sheet.rows]


def _places(models: Sequence[DnnModel]) -> dict[tuple[str, str], list[int]]:
    """(model, layer name or index) -> rows of the table."""
    found: dict[tuple[str, str], list[int]] = {}
    start = 0
    for model in models:
        named: dict[str, list[int]] = {}
        for i, layer in enumerate(model.layers):
            named.setdefault(layer.name, []).append(start + i)
            found[model.name, str(i)] = [start + i]
        found.update({(model.name, name): at for name, at in named.items()})
        start += len(model.layers)
    return found


def _numbers(row: dict[str, str], file: Path, line: int) -> dict[str, float]:
    time = "compute_s" if row.get("compute_s") or "latency_s" not in row else "latency_s"
    cells = {name: _number(row.get(name) or "0", file, line, name) for name in NUMBERS}
    text = row.get(time, "")
    if not text:
        raise TraceError(
            f"no time for layer '{row['layer']}' on '{row['type']}'; give seconds, or inf where it cannot run",
            file,
            line,
            time,
        )
    cells["compute_s"] = math.inf if text.lower() == "inf" else _number(text, file, line, time)
    return cells


def _no_free_layers(rows: list[tuple[int, dict[str, str]]], linked: set[str], file: Path) -> None:
    """Refuse layers that take no time; DRAM bytes take time only over a link of known bandwidth."""
    for line, row in rows:
        time = row.get("compute_s") or row.get("latency_s") or ""
        busy = [time, row.get("buffer_s"), row.get("dram_bytes") if row["type"] in linked else None]
        if not any(float(cell) for cell in busy if cell):
            bytes_too = (
                "; its bytes take no time without link_bytes_s" if float(row.get("dram_bytes") or 0) else ""
            )
            raise PlatformError(
                f"{file}, line {line}, column '{'compute_s' if row.get('compute_s') else 'latency_s'}': layer "
                f"'{row['layer']}' takes 0 s on '{row['type']}'{bytes_too}; "
                "give a positive time, or inf where it cannot run"
            )


def _number(text: str, file: Path, line: int, column: str, zero: bool = True) -> float:
    try:
        value = float(text)
    except ValueError:
        raise TraceError(f"'{text}' is not a number", file, line, column) from None
    if math.isnan(value) or value < 0.0 or (value == 0.0 and not zero) or (math.isinf(value) and zero):
        raise TraceError(
            f"{text} is not a {'non-negative' if zero else 'positive'} number", file, line, column
        )
    return value


def _complete(time: Floats, models: Sequence[DnnModel], types: tuple[str, ...], file: Path) -> None:
    missing = np.argwhere(np.isnan(time))
    if not len(missing):
        return
    row, column = missing[0]
    for model in models:
        if row < len(model.layers):
            layer = model.layers[row].name
            raise PlatformError(
                f"{file}: no time for layer '{layer}' of model '{model.name}' on '{types[column]}' "
                f"({len(missing)} entries are missing); write inf where a type cannot run a layer"
            )
        row -= len(model.layers)


def write_cost_csv(table: CostTable, path: str | Path) -> None:
    """Write a cost table as CSV, all digits kept; layers go by index. Raises OutputError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*REQUIRED, "compute_s", *NUMBERS, "link_bytes_s", "origin"])
    for row in range(table.compute_s.shape[0]):
        model, layer = table.layer_at(row)
        for column, kind in enumerate(table.types):
            cells = [table.compute_s, table.buffer_s, table.dram_bytes, table.energy_j]
            origin = table.origin[column] if table.origin else "imported"
            values = [repr(float(cell[row, column])) for cell in cells]
            writer.writerow(
                [model.name, layer, kind, *values, repr(float(table.link_bytes_s[column])), origin]
            )
    write_text(path, text.getvalue())
