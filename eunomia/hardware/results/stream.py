"""Stream (KU Leuven): its schedule as a Perfetto trace, of the steady state or of all nodes. Pickles are not read.

``steady_state_trace.json`` gives the cycles of every slot of an iteration. A slot counts for the layers that it
computes. A slot of transfers counts for the layers that it feeds, else for those that it empties. Together the layers
take the schedule's total latency. In the older ``scme.json`` a layer is the sum of its parts on the core where that is
most; transfers are not counted. Cores that share a layer work at the same time, so the figures are those of all cores
as one accelerator. Energy and DRAM traffic are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.hardware.results.figures import LayerFigures, json_of, positive

PART = re.compile(r"(?P<name>.*) \(Id: (?P<id>\d+), Sub_id: -?\d+\)")
SHOWN = " [i]"  # of three iterations, the one in the middle


def read(path: Path) -> list[LayerFigures]:
    """One entry per layer, in order of first mention. Raises TraceError."""
    found = json_of(path, "Stream (its steady_state_trace.json)")
    if isinstance(found, dict) and isinstance(found.get("traceEvents"), list):
        return _steady(found["traceEvents"], found.get("otherData"), path)
    if isinstance(found, list):
        return _longest(found, path)
    raise TraceError("has no traceEvents, so it is no trace of Stream", path)


def _steady(events: list[object], other: object, path: Path) -> list[LayerFigures]:
    """The total latency, shared out by the slots of the iteration that is shown."""
    total = positive(_of(other, "total_latency_cycles"), path, None, "total_latency_cycles")
    whose: dict[str, tuple[int, list[str]]] = {}  # slot -> how near its layers are to it, the nearest 0
    cycles: dict[str, float] = {}
    order: list[str] = []
    for event in events:
        name, told = str(_of(event, "name")), _of(event, "args")
        if _of(event, "ph") != "X" or not name.endswith(SHOWN):
            continue
        slot = str(_of(told, "slot"))
        if _of(event, "cat") == "computation":
            rank, layers = 0, [name.removesuffix(SHOWN)]
            order += [layer for layer in layers if layer not in order]
        else:
            fed, emptied = _names(_of(told, "input_of")), _names(_of(told, "output_of"))
            rank, layers = (1, fed) if fed else (2, emptied)
        if not layers or not _of(told, "slot_latency_cycles"):
            continue
        cycles[slot] = positive(_of(told, "slot_latency_cycles"), path, None, "slot_latency_cycles")
        known = whose.setdefault(slot, (rank, []))
        if rank < known[0]:
            known = whose[slot] = (rank, [])
        if rank == known[0]:
            known[1].extend(layer for layer in layers if layer not in known[1])
    if not order or not cycles:
        raise TraceError("holds no computation of Stream", path)
    spent = dict.fromkeys(order, 0.0)
    for at, (_, layers) in whose.items():
        for layer in layers:
            spent[layer] = spent.get(layer, 0.0) + cycles[at] / len(layers)
    whole = sum(spent.values())
    return [LayerFigures(layer, total * part / whole) for layer, part in spent.items()]


def _of(table: object, key: str) -> object:
    return table.get(key) if isinstance(table, Mapping) else None


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _longest(events: list[object], path: Path) -> list[LayerFigures]:
    """The time of each layer on the core where it takes longest."""
    busy: dict[str, dict[object, float]] = {}
    names: dict[str, str] = {}
    for event in events:
        if not isinstance(event, Mapping) or event.get("ph") != "X":
            continue
        part = PART.fullmatch(str(event.get("name", "")))
        if event.get("cat") != "compute" or part is None:
            continue
        names.setdefault(part["id"], part["name"])
        cores = busy.setdefault(part["id"], {})
        core = event.get("tid")
        cores[core] = cores.get(core, 0.0) + positive(event.get("dur"), path, None, f"dur of {part['name']}")
    if not busy:
        raise TraceError("holds no computation of Stream", path)
    return [LayerFigures(names[key], max(cores.values())) for key, cores in busy.items()]
