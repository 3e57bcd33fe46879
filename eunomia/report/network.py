"""Costs and graphs of the networks of a run, as the scheduler believed them to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.records import RunRecords
from eunomia.report.columns import Floats, floats, ints, words


@dataclass(frozen=True)
class Network:
    """Costs and graph of one model, as the scheduler believed them to be."""

    name: str
    layers: list[str]  # names
    estimate_s: Floats  # (layers, types) c'; inf = cannot run
    latency_s: Floats  # (layers, types) c
    dram_bytes: Floats  # (layers, types)
    best_s: Floats  # (layers,) least c' over types
    mean_s: Floats  # (layers,) mean c' over types able to run it
    before: list[list[int]]  # layers that must end first
    after: list[list[int]]

    @property
    def demand_bytes_s(self) -> Floats:
        """(layers, types) b' = V / c'."""
        return np.where(np.isfinite(self.estimate_s), self.dram_bytes / self.estimate_s, 0.0)

    @property
    def bytes_each(self) -> Floats:
        """(layers,) DRAM bytes on the type of least c'."""
        return np.asarray(self.dram_bytes[np.arange(len(self.layers)), self.estimate_s.argmin(axis=1)])

    def longest(self, time_s: Floats) -> Floats:
        """(layers,) longest path of ``time_s`` from each layer, included, to an exit."""
        path = np.zeros(len(time_s))
        for i in range(len(time_s) - 1, -1, -1):
            path[i] = time_s[i] + max((path[j] for j in self.after[i]), default=0.0)
        return path


def read_networks(run: RunRecords, types: list[str]) -> tuple[dict[str, Network], bool]:
    """Costs and graphs by model; False when a graph is missing in the manifest (a chain is assumed)."""
    costs = run["costs"]
    column = {name: words(costs, name) for name in ("model", "layer_name", "type")}
    layers = ints(costs, "layer").tolist()
    estimate, latency = floats(costs, "estimate_s", np.inf), floats(costs, "latency_s", np.inf)
    dram = floats(costs, "dram_bytes", 0.0)
    sizes: dict[str, int] = {}
    for model, layer in zip(column["model"], layers, strict=True):
        sizes[model] = max(sizes.get(model, 0), layer + 1)
    arrays = {m: [np.full((n, len(types)), fill) for fill in (np.inf, np.inf, 0.0)] for m, n in sizes.items()}
    names = {model: [f"layer {i}" for i in range(n)] for model, n in sizes.items()}
    for row, (model, layer, kind) in enumerate(zip(column["model"], layers, column["type"], strict=True)):
        if kind not in types:
            continue
        place = (layer, types.index(kind))
        for array, values in zip(arrays[model], (estimate, latency, dram), strict=True):
            array[place] = values[row]
        names[model][layer] = column["layer_name"][row] or names[model][layer]
    graphs = run.manifest.get("models") or {}
    best = _on_grid({m: c.min(axis=1) for m, (c, _, _) in arrays.items()})
    mean = _on_grid({m: _mean(c) for m, (c, _, _) in arrays.items()})
    networks, known = {}, True
    for model, n in sizes.items():
        edges = (graphs.get(model) or {}).get("edges")
        known &= edges is not None
        before: list[list[int]] = [[] for _ in range(n)]
        after: list[list[int]] = [[] for _ in range(n)]
        for a, b in edges if edges is not None else [(i, i + 1) for i in range(n - 1)]:
            before[b].append(a)
            after[a].append(b)
        c, true, bytes_moved = arrays[model]
        networks[model] = Network(
            model, names[model], c, true, bytes_moved, best[model], mean[model], before, after
        )
    return networks, known


def _mean(estimate_s: Floats) -> Floats:
    finite = np.isfinite(estimate_s)
    return np.asarray(np.where(finite, estimate_s, 0.0).sum(axis=1) / finite.sum(axis=1))


def _on_grid(time_s: dict[str, Floats]) -> dict[str, Floats]:
    """The engine's rounding, to 2^-50 of the largest network's total: sums do not depend on their order."""
    total = max((float(t.sum()) for t in time_s.values()), default=0.0)
    if total <= 0.0:
        return time_s
    step = 2.0 ** (np.ceil(np.log2(total)) - 50.0)
    return {model: np.asarray(np.round(t / step) * step) for model, t in time_s.items()}
