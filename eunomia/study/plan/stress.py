"""What the answer stands: more traffic, slower devices, one device more or less."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunomia.study.plan.search import Proof, Search
from eunomia.study.plan.targets import score_of
from eunomia.study.plan.trial import Order, Tally, tally

BLOCK = 10_000  # of fresh seeds
SEEDS = 5  # of it
STEPS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
FINE = 0.01  # head-room is found to one percent


@dataclass(frozen=True)
class Limit:
    """Promises hold at ``kept`` times what is stated and break at ``broken``; ``pair`` breaks first."""

    kept: float
    broken: float  # inf = not within the largest of STEPS
    pair: int
    rate: float  # hit rate of that pair then
    relieved: tuple[str, ...] = ()  # changes by one that hold there


@dataclass(frozen=True, eq=False)
class Carrier:
    """The least platform that keeps the promises at ``more`` times the traffic; ``row`` None = there is none."""

    more: float
    row: int | None
    proof: Proof | None


@dataclass(frozen=True)
class Neighbour:
    """One device or one step of memory more or less."""

    change: str
    row: int
    kept: bool
    refuted: str  # why nobody can run it; empty = tried
    margin: float  # of the worst promise; nan where it was not tried
    pair: int


def traffic_limit(search: Search, row: int) -> Limit:
    """How much more traffic of every tenant the platform carries, and what relieves it at the point of breaking."""
    found = _limit(search, row, lambda order, factor: replace(order, factor=order.factor * factor))
    if not np.isfinite(found.broken):
        return found
    more = [
        (change, other) for change, other in search.platforms.neighbours(row) if _larger(search, row, other)
    ]
    orders = [replace(_order(search, other), factor=search.factor * found.broken) for _, other in more]
    held = search.trials.run(orders, "head-room")
    relieved = tuple(change for (change, _), result in zip(more, held, strict=True) if result["kept"])
    return replace(found, relieved=relieved)


def cost_limit(search: Search, row: int) -> Limit:
    """How much slower every layer may be on every device than its cost says."""
    return _limit(search, row, lambda order, slower: replace(order, slower=slower))


def neighbours(search: Search, row: int) -> list[Neighbour]:
    """Every change by one within the catalogue and its bounds."""
    near = search.platforms.neighbours(row)
    refuted = {other: search.screen.refuted(other) for _, other in near}
    open_rows = [other for _, other in near if refuted[other] is None]
    search.tried(open_rows, "one more or less")
    found = []
    for change, other in near:
        proof = refuted[other]
        if proof is not None:
            found.append(Neighbour(change, other, False, proof.sentence, float("nan"), proof.pair))
            continue
        one = search.found.tallies[other]
        kept = other in search.found.kept
        found.append(
            Neighbour(change, other, kept, "", one.margin(search.targets), one.worst(search.targets))
        )
    return found


def fronts(search: Search, steps: Sequence[float], row: int, proof: Proof | None) -> Iterator[Carrier]:
    """The least platform at more and more traffic: the Pareto front of the target against traffic carried."""
    yield Carrier(1.0, row, proof)
    for more in steps:
        further = Search(search.on, search.platforms, search.trials, more)
        score, _ = score_of(further)
        rows = np.flatnonzero(score >= score[row]).tolist()  # less does not even carry less traffic
        at, proof = further.least(score, f"{more:g} x the traffic", rows)
        row = row if at is None else at
        yield Carrier(more, at, proof)


def _larger(search: Search, row: int, other: int) -> bool:
    """Whether the other one has more of something."""
    counts = search.platforms.counts
    return bool(
        (counts[other] > counts[row]).any() or search.platforms.memory[other] > search.platforms.memory[row]
    )


def _order(search: Search, row: int) -> Order:
    return replace(search.order(row), seeds=tuple(search.on.seeds(SEEDS, fresh=BLOCK)))


def _limit(search: Search, row: int, changed: Callable[[Order, float], Order]) -> Limit:
    base = _order(search, row)
    low, high = 1.0, float("inf")
    last: Tally | None = None

    def tried(factors: Sequence[float]) -> None:
        nonlocal low, high, last
        orders = [changed(base, factor) for factor in factors]
        for factor, result in zip(factors, search.trials.run(orders, "head-room"), strict=True):
            if result["kept"] and factor < high:
                low = max(low, factor)
            elif not result["kept"] and factor < high:
                high, last = factor, tally(result)

    for step in range(0, len(STEPS), 2):
        if not np.isfinite(high):
            tried(STEPS[step : step + 2])
    while np.isfinite(high) and high - low > FINE:
        span = high - low
        tried([low + span / 3.0, low + 2.0 * span / 3.0])
    if last is None:
        return Limit(low, high, -1, 1.0)
    worst = last.worst(search.targets)
    return Limit(low, high, worst, float(last.rates()[worst]))
