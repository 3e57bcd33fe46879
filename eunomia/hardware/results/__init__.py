"""Result files of other cost models, read as cycles, energy and DRAM words per layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from eunomia.hardware.results import maestro, scale_sim, stream, timeloop, zigzag
from eunomia.hardware.results.figures import LayerFigures

FORMATS: Mapping[str, Callable[[Path], list[LayerFigures]]] = {
    "maestro": maestro.read,
    "scale-sim": scale_sim.read,
    "stream": stream.read,
    "timeloop": timeloop.read,
    "zigzag": zigzag.read,
}
