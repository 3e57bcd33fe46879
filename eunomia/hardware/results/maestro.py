"""MAESTRO: the CSV of ``--print_res_csv_file=true``. Energy is that of its activity counts, in its units of nJ.

Its off-chip figures are bandwidth requirements and not traffic: DRAM bytes are not read.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.hardware.results.figures import LayerFigures, csv_rows, positive

NAME, CYCLES, ENERGY = "Layer Number", "Runtime (Cycles)", "Activity count-based Energy (nJ)"


def read(path: Path) -> list[LayerFigures]:
    """One entry per layer, in order. Raises TraceError."""
    rows = csv_rows(path, CYCLES, "MAESTRO")
    return [
        LayerFigures(
            row.get(NAME, ""),
            positive(row[CYCLES], path, line, CYCLES),
            positive(row[ENERGY], path, line, ENERGY) * 1e-9 if row.get(ENERGY) else None,
        )
        for line, row in enumerate(rows, start=2)
    ]
