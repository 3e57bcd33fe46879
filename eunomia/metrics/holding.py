"""How long requests were held: they waited while an idle accelerator would have ended their layer sooner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.metrics.columns import Layers, Tables

NEEDS = ("requests", "subjobs", "costs", "accelerators")
Spans = tuple[Floats, Floats]  # starts and ends


def held_s(tables: Tables) -> dict[int, float] | None:
    """Seconds that each request was held, by its number, zeros left out; None without tables of layers and costs.

    Layers of parallel branches add up; those that never started do not count.
    """
    if any(name not in tables for name in NEEDS):
        return None
    layers = Layers.read(tables)
    lanes = range(layers.isolated_s.shape[1])
    busy = [(layers.start_s[layers.accelerator == n], layers.end_s[layers.accelerator == n]) for n in lanes]
    each = held_each((layers.start_s, layers.end_s), layers.ready_s, layers.isolated_s, busy)
    total = np.bincount(layers.row, each, len(layers.request))
    return {int(layers.request[row]): float(total[row]) for row in np.flatnonzero(total)}


def held_each(layers: Spans, ready_s: Floats, isolated_s: Floats, busy: Sequence[Spans]) -> Floats:
    """(layers,) seconds that each layer was held.

    A layer is held at an instant between its readiness and its start if an accelerator is idle that, started then at
    isolated speed (``isolated_s``: layers x accelerators), would have ended it before it did end. Of several such
    accelerators the one counts that was idle longest, so the figure is never too large. Waiting for a faster
    accelerator that ends a layer sooner is not holding; a bandwidth gate, a decision period and a policy that
    reserves are. ``busy``: when each accelerator ran something.
    """
    start_s, end_s = layers
    held = np.zeros(len(ready_s))
    for each_s, (from_s, to_s) in zip(isolated_s.T, busy, strict=True):
        with np.errstate(invalid="ignore"):
            latest_s = np.minimum(start_s, end_s - each_s)  # of a start there that ends sooner
        until_s = np.where(np.isfinite(each_s) & (latest_s > ready_s), latest_s, ready_s)
        held = np.maximum(held, until_s - ready_s - busy_within(from_s, to_s, ready_s, until_s))
    return np.where(held > 1e-12, held, 0.0)  # rounding of the clock


def busy_within(start_s: Floats, end_s: Floats, from_s: Floats, to_s: Floats) -> Floats:
    """How much of each span [from, to] lies within the intervals [start, end), which do not overlap."""
    order = np.argsort(start_s, kind="stable")
    last = max(to_s.max(initial=0.0), start_s.max(initial=0.0))
    start, end = start_s[order], np.minimum(end_s[order], last)
    if not len(start):
        return np.zeros(len(from_s))
    knots = np.stack([start, np.maximum(end, start)], axis=1).ravel()
    busy = np.concatenate([[0.0], np.cumsum(knots[1::2] - knots[::2])])
    total = np.repeat(busy, 2)[1:-1]  # at each start and end
    return np.asarray(np.interp(to_s, knots, total) - np.interp(from_s, knots, total))
