"""MAESTRO: the CSV of ``--print_res_csv_file=true``. Energy is that of its activity counts, in its units of nJ.

Its off-chip figures are bandwidth requirements and not traffic: DRAM bytes are not read.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.hardware.results.figures import LayerFigures, csv_rows, positive

NETWORK, NAME = "Neural Network Name", "Layer Number"
CYCLES, ENERGY = "Runtime (Cycles)", "Activity count-based Energy (nJ)"


def read(path: Path) -> list[LayerFigures]:
    """One entry per layer, in order. Raises TraceError."""
    _, rows = csv_rows(path, (CYCLES,), "MAESTRO")
    names = [(row.get(NETWORK), row.get(NAME)) for _, row in rows]
    if names[0][1] and names[0] in names[1:]:
        count = names.index(names[0], 1)
        raise TraceError(
            f"holds {count} layer{'s' * (count > 1)} more than once, as MAESTRO appends to an old file; keep one run, "
            "in which each layer has a name of its own",
            path,
        )
    return [
        LayerFigures(
            row.get(NAME, ""),
            positive(row[CYCLES], path, line, CYCLES),
            positive(row[ENERGY], path, line, ENERGY) * 1e-9 if row.get(ENERGY) else None,
        )
        for line, row in rows
    ]
