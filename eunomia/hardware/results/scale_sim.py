"""SCALE-Sim: ``COMPUTE_REPORT.csv``, with DRAM accesses from ``DETAILED_ACCESS_REPORT.csv`` beside it, if there.

Cycles include stalls, and the prefetch where the version reports it. Layers have numbers and no names; energy is not
reported. DRAM accesses are words.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.hardware.results.figures import LayerFigures, csv_rows, positive

CYCLES, PREFETCHED = "Total Cycles", "Total Cycles (incl. prefetch)"
ACCESSES = ("DRAM IFMAP Reads", "DRAM Filter Reads", "DRAM OFMAP Writes")


def read(path: Path) -> list[LayerFigures]:
    """One entry per layer, in order. Raises TraceError."""
    rows = csv_rows(path, CYCLES, "SCALE-Sim (give its COMPUTE_REPORT.csv)")
    column = PREFETCHED if PREFETCHED in rows[0] else CYCLES
    cycles = [positive(row[column], path, line, column) for line, row in enumerate(rows, start=2)]
    words = _dram_words(path.with_name("DETAILED_ACCESS_REPORT.csv"), len(rows))
    return [LayerFigures("", count, None, moved) for count, moved in zip(cycles, words, strict=True)]


def _dram_words(path: Path, layers: int) -> list[float | None]:
    if not path.is_file():
        return [None] * layers
    rows = csv_rows(path, ACCESSES[0], "SCALE-Sim")
    found: list[float | None] = [
        sum(positive(row[name], path, line, name) for name in ACCESSES)
        for line, row in enumerate(rows, start=2)
    ]
    return found if len(found) == layers else [None] * layers
