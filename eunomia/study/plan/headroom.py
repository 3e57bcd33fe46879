"""Head-room as the target: the most traffic that still keeps the promises, on a platform within the bounds.

Two numbers: what the found platform carries, and what nobody could carry (the screen refutes every platform there).
Both by bisection to ``FINE``. At each traffic the ``TRIED`` platforms of the largest capacity are tried that no other
within the bounds dominates; capacity is devices over the time of the promised work, or memory over its bytes. So the
first number is a lower bound where more than ``TRIED`` are open, the second holds for all. What the found platform
does not need at its traffic is taken away again, one device after another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.study.plan.search import Proof, Search
from eunomia.study.plan.stress import Carrier

STEPS = (1.0, 1.5, 2.25, 3.4, 5.0, 7.6, 11.4)
FINE = 1.02
TRIED = 48
NEVER = 10.0  # times the slowest type: what a type that cannot run a layer counts as


@dataclass(frozen=True, eq=False)
class Headroom:
    """``carriers``: what was found to hold, by traffic. ``nobody``: times the traffic that no platform carries."""

    search: Search  # at the most traffic that holds, or at the stated one
    row: int | None
    proof: Proof | None
    carriers: tuple[Carrier, ...]
    nobody: float


def most_traffic(search: Search) -> Headroom:
    """Bisection between what holds and what does not, from the stated traffic upwards."""
    nobody = _refuted_at(search)
    held: list[tuple[Carrier, Search]] = []
    low, high = 0.0, nobody
    for factor in STEPS:
        if factor >= high or not _held(search, factor, held):
            high = min(high, factor)
            break
        low = factor
    while low and math.isfinite(high) and high / low > FINE:
        middle = math.sqrt(low * high)
        if _held(search, middle, held):
            low = middle
        else:
            high = middle
    if not held:
        return Headroom(search, None, None, (), nobody)
    held.sort(key=lambda pair: pair[0].more)
    best, at = held[-1]
    row, proof = _trimmed(at, best)
    carriers = (*(carrier for carrier, _ in held[:-1]), replace(best, row=row, proof=proof))
    return Headroom(at, row, proof, carriers, nobody)


def _trimmed(search: Search, best: Carrier) -> tuple[int | None, Proof | None]:
    """Without the devices and the memory that the traffic does not need, the dearest first."""
    row, proof, platforms = best.row, best.proof, search.platforms
    while row is not None:
        smaller = [other for _, other in platforms.neighbours(row) if platforms.inside(row)[other]]
        open_rows = [other for other in smaller if search.screen.refuted(other) is None]
        search.tried(open_rows, "what is not needed")
        kept = [other for other in open_rows if other in search.found.kept]
        kept.sort(key=lambda other: float(platforms.cost[other]))
        fits = next((other for other in kept if search.prove(other).holds), None)
        if fits is None:
            break
        row, proof = fits, search.prove(fits)
    return row, proof


def _held(search: Search, factor: float, held: list[tuple[Carrier, Search]]) -> bool:
    """Whether a platform keeps and proves its promises at so much traffic; it is noted."""
    further = Search(search.on, search.platforms, search.trials, factor)
    rows, room = search.platforms.largest, capacity(further)
    rows = rows[np.argsort(-room[rows], kind="stable")]
    open_rows = rows[further.screen.by[rows] < 0].tolist()
    row, proof = further.least(-room, f"{factor:.3g} x the traffic", open_rows[:TRIED])
    if row is None:
        return False
    held.append((Carrier(factor, row, proof), further))
    return True


def capacity(search: Search) -> Floats:
    """(platforms,) times the promised work of the seeds that devices, and memory, have time for; a rough order."""
    screen, on = search.screen, search.on
    table, models = on.bench.machine.table, screen.model_of()
    columns = [table.types.index(name) for name in on.names]
    runs = np.isfinite(table.latency_s)
    slowest_s = np.where(runs, table.latency_s, 0.0).max(axis=1, keepdims=True)
    times = np.where(runs, table.latency_s, NEVER * slowest_s)[:, columns]
    volume = np.where(runs, table.dram_bytes, np.inf)[:, columns].min(axis=1)
    work_s, work_bytes = np.zeros(len(columns)), 0.0
    for pair, need in enumerate(screen.needs):
        rows = slice(table.offsets[models[pair]], table.offsets[models[pair] + 1])
        work_s += need * times[rows].sum(axis=0)
        work_bytes += need * float(volume[rows].sum())
    devices = search.platforms.counts @ (1.0 / np.maximum(work_s, 1e-12))
    memory = screen.gb_s * 1e9 / max(work_bytes, 1e-12)
    return np.asarray(np.minimum(devices, memory))


def _refuted_at(search: Search) -> float:
    """The least traffic, to ``FINE``, at which every platform is refuted; inf = beyond the largest step."""
    rows = search.platforms.largest

    def refuted(factor: float) -> bool:
        screen = Search(search.on, search.platforms, search.trials, factor).screen
        return all(screen.refuted(row) is not None for row in rows.tolist())

    low, high = 0.0, math.inf
    for factor in STEPS:
        if refuted(factor):
            high = factor
            break
        low = factor
    while low and math.isfinite(high) and high / low > FINE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high
