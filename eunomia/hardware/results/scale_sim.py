"""SCALE-Sim: ``COMPUTE_REPORT.csv``, with DRAM accesses from ``DETAILED_ACCESS_REPORT.csv`` beside it, if there.

Cycles include stalls, and the prefetch where the version reports it. Layers have numbers and no names; energy is not
reported. DRAM accesses are words. The first version's ``NAME_cycles.csv``, with ``NAME_detail.csv``, has names.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.hardware.results.figures import LayerFigures, csv_rows, number, positive

CYCLES = ("Total Cycles (incl. prefetch)", "Total Cycles", "Cycles")  # the first that is there
REPORTS = {  # where DRAM accesses stand, and in which columns
    "DETAILED_ACCESS_REPORT": ("DRAM IFMAP Reads", "DRAM Filter Reads", "DRAM OFMAP Writes"),
    "_detail": ("DRAM_IFMAP_bytes", "DRAM_Filter_bytes", "DRAM_OFMAP_bytes"),
}


def read(path: Path) -> list[LayerFigures]:
    """One entry per layer, in order. Raises TraceError."""
    column, rows = csv_rows(path, CYCLES, "SCALE-Sim (give its COMPUTE_REPORT.csv)")
    cycles = [positive(row.get(column), path, line, column) for line, row in rows]
    words = _dram_words(path, len(rows))
    names = [row.get("Layer", "") for _, row in rows]
    return [LayerFigures(*found) for found in zip(names, cycles, [None] * len(rows), words, strict=True)]


def _dram_words(path: Path, layers: int) -> list[float | None]:
    first = path.name.endswith("_cycles.csv")
    name = path.name.replace("_cycles", "_detail").replace("COMPUTE_REPORT", "DETAILED_ACCESS_REPORT")
    columns = REPORTS["_detail" if first else "DETAILED_ACCESS_REPORT"]
    beside = path.with_name(name)
    if name == path.name or not beside.is_file():
        return [None] * layers
    _, rows = csv_rows(beside, columns, "SCALE-Sim")
    found: list[float | None] = [
        sum(number(row.get(name), beside, line, name) for name in columns) for line, row in rows
    ]
    return found if len(found) == layers else [None] * layers
