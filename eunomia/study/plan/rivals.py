"""What people do without a search: grow a platform step by step, or buy one type only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.study.plan.ground import needed
from eunomia.study.plan.search import Proof, Search
from eunomia.study.plan.trial import Tally


@dataclass(frozen=True, eq=False)
class Rival:
    """A platform found otherwise. ``row`` is None where that way finds none that keeps the promises."""

    name: str
    row: int | None
    proof: Proof | None
    steps: int  # platforms tried on the way


def one_type(search: Search, score: Floats, at: int) -> Rival:
    """The least platform with devices of one type."""
    platforms = search.platforms
    others = np.delete(platforms.counts, at, axis=1)
    rows = np.flatnonzero((others == 0).all(axis=1))
    before = len(search.found.tallies)
    row, proof = search.least(score, f"{platforms.names[at]} alone", rows.tolist())
    return Rival(f"{platforms.names[at]} alone", row, proof, len(search.found.tallies) - before)


def greedy(search: Search, score: Floats, per_cost: bool) -> Rival:
    """Grow from the least platform, each time by the device or memory that gains most, then drop what is not needed.

    Gain: the sum over pairs of the hit rate up to its target, each as a share of it; ``per_cost`` divides it by what
    the step costs. Trials, policies and seeds are those of the search, and the result has to survive the same proof: a
    platform that does not grows on. Where no step gains anything, the cheapest is taken.
    """
    platforms, steps = search.platforms, 0
    name = "greedy, gain per cost" if per_cost else "greedy, largest gain"
    base = tuple(device.least for device in search.on.plan.devices)
    memory = int(platforms.memory.min())
    here = platforms.find(base, memory)
    worth = 0.0 if here is None else _worth(search, here)
    counts = list(base)
    while True:
        if here is not None and here in search.found.kept:
            here = _trimmed(search, here, score)
            proof = search.prove(here)
            if proof.holds:
                return Rival(name, here, proof, steps)
            search.found.failed[here] = proof  # it is not come back to
            counts, memory = platforms.counts[here].tolist(), int(platforms.memory[here])
            worth = _worth(search, here)
        grown = _larger(search, counts, memory)
        if not grown:
            return Rival(name, None, None, steps)
        search.tried(grown, name)
        steps += len(grown)
        now = float(score[here]) if here is not None else 0.0
        gains = [_worth(search, row) - worth for row in grown]
        paid = [max(float(score[row]) - now, 1e-12) if per_cost else 1.0 for row in grown]
        best = max(range(len(grown)), key=lambda n: (gains[n] / paid[n], -score[grown[n]]))
        if gains[best] <= 0.0:
            best = min(range(len(grown)), key=lambda n: score[grown[n]])
        here = grown[best]
        counts, memory, worth = (
            platforms.counts[here].tolist(),
            int(platforms.memory[here]),
            _worth(search, here),
        )


def _larger(search: Search, counts: list[int], memory: int) -> list[int]:
    """Platforms of the catalogue with one device or one step of memory more."""
    find = search.platforms.find
    found = [find([*counts[:at], counts[at] + 1, *counts[at + 1 :]], memory) for at in range(len(counts))]
    found.append(search.platforms.beside(counts, memory, 1))
    return [row for row in found if row is not None]


def _trimmed(search: Search, row: int, score: Floats) -> int:
    """Less and less of what saves most, as long as the promises are kept on the seeds of the search."""
    while True:
        smaller = [other for _, other in search.platforms.neighbours(row) if score[other] < score[row]]
        smaller = [other for other in smaller if other not in search.found.failed]
        search.tried(smaller, "greedy")
        kept = [other for other in smaller if other in search.found.kept]
        if not kept:
            return row
        row = min(kept, key=lambda other: score[other])


def _worth(search: Search, row: int) -> float:
    search.tried([row], "greedy")
    found: Tally = search.found.tallies[row]
    needs = needed(found.asked.sum(axis=0), search.targets)
    share = np.minimum(found.hits.sum(axis=0) / np.maximum(needs, 1), 1.0)
    return float(share[needs > 0].sum())
