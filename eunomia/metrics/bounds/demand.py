"""What one request of a model needs at least: groups of alike layers, segments, width, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.hardware.table import CostTable
from eunomia.workload.model import DnnModel

Bytes = Literal["typed", "least"]

EXACT = 1e-9  # rows whose ratios agree to this count as proportional


@dataclass(frozen=True)
class ModelDemand:
    """Least work of one request, per group of layers; columns are the platform's types.

    Row g of ``work_s`` and ``dram_bytes`` is what the whole group costs on each type (inf = cannot run
    it). A group lies in one segment. Segment k can run only within [arrival + ``head_s[k]``, deadline -
    ``tail_s[k]``]; nobody finishes a request in less than ``path_s``.
    """

    work_s: Floats  # (groups, types)
    dram_bytes: Floats  # (groups, types); with bytes = "least" all columns are equal
    segment: Ints  # (groups,)
    head_s: Floats  # (segments,)
    tail_s: Floats  # (segments,)
    least_bytes_s: (
        Floats  # (segments, types) a layer of the segment moves at least so much per second of its work
    )
    most_bytes_s: Floats  # (segments, types) and at most so much
    path_s: float  # critical path, every layer on its fastest type
    width: int  # layers of one request that can run at the same time, at most


def model_demand(
    model: DnnModel, work_s: Floats, dram_bytes: Floats, *, segments: int, merge: float, count_bytes: Bytes
) -> ModelDemand:
    """Demand of one model from the (layers, types) rows of its layers.

    ``merge`` puts layers into one group whose duration (and, when ``typed``, byte) ratios between types
    differ by at most about that share; the group then counts for the least that its layers allow, so a
    bound stays valid and gets looser. 0 merges proportional rows only, which loses nothing. ``segments`` = 0
    gives every layer a segment, so a group, of its own.
    """
    best_s = work_s.min(axis=1)
    head, tail = _heads(model, best_s), _tails(model, best_s)
    path_s = float((head + best_s + tail).max())
    middle = (head + best_s / 2.0) / path_s if path_s > 0.0 else np.zeros(len(best_s))
    segment = np.minimum((segments * middle).astype(np.int64), segments - 1)
    if segments == 0:
        segment = np.arange(len(best_s))
    used, segment = np.unique(segment, return_inverse=True)
    least = np.broadcast_to(
        dram_bytes.min(axis=1, where=np.isfinite(work_s), initial=np.inf)[:, None], work_s.shape
    )
    work, volume, place = [], [], []
    types = work_s.shape[1]
    low, high = np.full((len(used), types), np.inf), np.zeros((len(used), types))
    for k in range(len(used)):
        mine = np.flatnonzero(segment == k)
        for rows in _alike(work_s[mine], dram_bytes[mine] if count_bytes == "typed" else None, merge):
            layers = mine[rows]
            pattern, factor = _floor_pattern(
                work_s[layers], dram_bytes[layers] if count_bytes == "typed" else None
            )
            bytes_ = factor[:, None] * pattern[types:] if count_bytes == "typed" else least[layers]
            work.append(pattern[:types] * factor.sum())
            volume.append(bytes_.sum(axis=0))
            place.append(k)
            rate = _rates(factor[:, None] * pattern[:types], bytes_)
            low[k] = np.fmin(low[k], rate.min(axis=0))
            high[k] = np.fmax(high[k], np.where(np.isfinite(work[-1]), rate.max(axis=0), 0.0))
    return ModelDemand(
        np.array(work),
        np.array(volume),
        np.array(place, np.int64),
        np.array([head[segment == k].min() for k in range(len(used))]),
        np.array([tail[segment == k].min() for k in range(len(used))]),
        np.where(np.isfinite(low), low, 0.0),
        high,
        path_s,
        _chains(model),
    )


def _rates(work_s: Floats, dram_bytes: Floats) -> Floats:
    """(layers, types) bytes per second of isolated work; 0 where nothing is done, inf where nothing can be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(work_s > 0.0, dram_bytes / work_s, 0.0)
    return np.where(np.isfinite(work_s), rate, np.inf)


def least_costs(table: CostTable, columns: Ints, tolerance_s: float) -> tuple[Floats, Floats]:
    """(rows, types) work and bytes, less what an engine's clock may round away at each layer's end."""
    latency_s = table.latency_s[:, columns]
    work_s = np.maximum(latency_s - tolerance_s, 0.0)
    with np.errstate(invalid="ignore"):
        left = np.where(np.isfinite(latency_s), work_s / latency_s, 0.0)
    return work_s, table.dram_bytes[:, columns] * left


def _alike(work_s: Floats, dram_bytes: Floats | None, merge: float) -> list[Ints]:
    """Rows in groups whose log ratios to their first finite entry fall into one cell of width ``merge``."""
    values = work_s if dram_bytes is None else np.hstack([work_s, dram_bytes])
    step = max(np.log1p(merge), EXACT)
    present = np.isfinite(values) & (values > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(present, np.log(values), 0.0)
    first = np.take_along_axis(logs, present.argmax(axis=1)[:, None], axis=1)
    cells = np.where(present, np.round((logs - first) / step), np.where(np.isfinite(values), -1e18, 1e18))
    _, inverse = np.unique(cells, axis=0, return_inverse=True)
    return [np.flatnonzero(inverse.ravel() == g) for g in range(int(inverse.max()) + 1)]


def _floor_pattern(work_s: Floats, dram_bytes: Floats | None) -> tuple[Floats, Floats]:
    """A row p and factors a with a[l] * p <= row l everywhere, as tight as one common p allows."""
    values = work_s if dram_bytes is None else np.hstack([work_s, dram_bytes])
    finite = np.isfinite(values[0])
    positive = finite & (values[0] > 0.0)
    pattern = np.where(finite, 0.0, np.inf)
    if not positive.any():
        return pattern, np.ones(len(values))
    logs = np.log(values[:, positive])
    pattern[positive] = np.exp((logs - logs[:, :1]).mean(axis=0))
    factor = (values[:, positive] / pattern[positive]).min(axis=1)
    return pattern, factor


def _heads(model: DnnModel, best_s: Floats) -> Floats:
    """(layers,) longest path of ``best_s`` before each layer."""
    head = np.zeros(len(best_s))
    for layer, before in enumerate(model.predecessors):
        head[layer] = max((head[b] + best_s[b] for b in before), default=0.0)
    return head


def _tails(model: DnnModel, best_s: Floats) -> Floats:
    """(layers,) longest path of ``best_s`` after each layer."""
    tail = np.zeros(len(best_s))
    for layer in range(len(best_s) - 1, -1, -1):
        tail[layer] = max((tail[a] + best_s[a] for a in model.successors[layer]), default=0.0)
    return tail


def _chains(model: DnnModel) -> int:
    """Chains that a greedy cover of the graph needs: no two layers of a chain ever run together (Dilworth)."""
    count = len(model.layers)
    before = np.zeros((count, count), np.bool_)  # before[a, b]: b must end before a starts
    ends: list[int] = []
    for layer, direct in enumerate(model.predecessors):
        for b in direct:
            before[layer] |= before[b]
            before[layer, b] = True
        follows = [c for c, end in enumerate(ends) if before[layer, end]]
        if follows:
            ends[max(follows, key=lambda c: ends[c])] = layer
        else:
            ends.append(layer)
    return len(ends)
