"""ZigZag: the JSON of a cost model evaluation, one file per layer, or a list of them. Energy is in pJ.

Cycles are those of loading, computing and storing. Its word counts depend on the width of each port: DRAM bytes are
not read.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.hardware.results.figures import LayerFigures, json_of, positive

PHASES = ("data_onloading", "computation", "data_offloading")


def read(path: Path) -> list[LayerFigures]:
    """One entry per evaluation. Raises TraceError."""
    found = json_of(path, "ZigZag (its complete.json)")
    entries = found if isinstance(found, list) else [found]
    if not entries:
        raise TraceError("holds no layers", path)
    return [_figures(entry, path) for entry in entries]


def _figures(entry: object, path: Path) -> LayerFigures:
    outputs = entry.get("outputs") if isinstance(entry, dict) else None
    latency = outputs.get("latency") if isinstance(outputs, dict) else None
    if not isinstance(entry, dict) or not isinstance(outputs, dict) or not isinstance(latency, dict):
        raise TraceError("has no outputs.latency, so it is no evaluation of ZigZag", path)
    if not all(isinstance(latency.get(phase), int | float) for phase in PHASES):
        raise TraceError(f"outputs.latency has no numbers {', '.join(PHASES)}", path)
    cycles = positive(sum(float(latency[phase]) for phase in PHASES), path, None, "outputs.latency")
    energy = (outputs.get("energy") or {}).get("energy_total")
    joules = None if energy is None else positive(energy, path, None, "outputs.energy.energy_total") * 1e-12
    layer = (entry.get("inputs") or {}).get("layer")
    name = str(layer.get("name", "")) if isinstance(layer, dict) else ""
    return LayerFigures(name or path.stem, cycles, joules)
