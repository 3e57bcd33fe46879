"""The least rent among sets of nodes, tried one after another.

First each type alone, by bisection: the cheapest that keeps the promises is the rent to beat, and the counts say what
a node of each type is worth. Then the sets below that rent which no bound refutes: the cheapest of those that should
do, by the worth of their nodes. What fails takes every set with no more nodes of any type along; each failure asks for
more worth, so that the search ends at the most promising sets and with them at a proof. What keeps lowers the rent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Flags, Floats, Ints

Counts = tuple[int, ...]  # of each type
Sets = Ints  # (sets, types)
MOST = 50_000  # sets below the rent to beat that are kept apart
STEP = 0.25  # of the way to the most promising set, after a failure
LESS = 1.0 - 1e-9  # rents that differ by less are equal


@dataclass(frozen=True)
class Market:
    """What there is to rent. ``gives``: devices x speed of a node; at least ``capacity`` of it is needed."""

    least: Counts
    most: Counts
    rents: tuple[float, ...]
    gives: tuple[float, ...]
    rent: float = np.inf
    nodes: float = np.inf
    capacity: float = 0.0

    def rent_of(self, counts: Counts) -> float:
        """Per hour."""
        return float(np.dot(counts, self.rents))

    def allows(self, counts: Counts) -> bool:
        """Whether the bounds do."""
        return 0 < sum(counts) <= self.nodes and self.rent_of(counts) * LESS <= self.rent


@dataclass
class Search:
    """One search. ``passes`` says which sets no bound refutes; ``grows``: more nodes never break a promise."""

    market: Market
    keeps: Callable[[Counts], bool]
    passes: Callable[[Sets], Flags]
    grows: bool = True
    tries: int = 300
    answer: Counts | None = None
    looked: int = 0  # sets that were given to ``keeps``
    left: int = 0  # cheaper sets without a verdict
    whole: bool = True  # else there are more of them than were kept apart
    _alone: dict[int, int] = field(default_factory=dict)  # type -> nodes that do, alone

    def run(self) -> Search:
        """Until no cheaper set is left, or ``tries`` are spent."""
        if self.grows:
            for at in np.argsort(np.divide(self.market.rents, self.market.gives), kind="stable"):
                self._bisect(self.market.least, int(at))
            if self.answer is None and self.market.allows(self.market.most):
                self._shrink()
        self._eliminate()
        return self

    def _try(self, counts: Counts) -> bool:
        open_ = bool(self.passes(np.array([counts]))[0])
        if open_ and self.looked >= self.tries:
            return False
        self.looked += open_
        kept = self.keeps(counts)
        if kept and self._cheaper(counts):
            self.answer = counts
        return kept

    def _cheaper(self, counts: Counts) -> bool:
        market = self.market
        return self.answer is None or market.rent_of(counts) < LESS * market.rent_of(self.answer)

    def _bisect(self, counts: Counts, at: int) -> None:
        """The fewest nodes of one type beside the others, as far as they are cheaper than the answer."""

        def with_(n: int) -> Counts:
            return (*counts[:at], n, *counts[at + 1 :])

        low, most = self.market.least[at] - 1, self.market.most[at]
        line = [n for n in range(low + 1, most + 1) if self._worth_it(with_(n))]
        if not line or not self._try(with_(line[-1])):
            return
        low, high = line[0] - 1, line[-1]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._try(with_(middle)) else (middle, high)
        self._alone[at] = high

    def _worth_it(self, counts: Counts) -> bool:
        return self.market.allows(counts) and self._cheaper(counts)

    def _shrink(self) -> None:
        """From everything that there is, type by type the dearest for what it gives first."""
        if not self._try(self.market.most):
            return
        worth = np.divide(self.market.gives, np.maximum(self.market.rents, 1e-12))
        for at in np.argsort(worth, kind="stable"):
            assert self.answer is not None
            self._bisect(self.answer, int(at))
        self._alone.clear()  # counts beside others say nothing of a type alone

    def _worth(self) -> Floats:
        """What a node of each type is worth: a share of the nodes that do alone, else by what it gives."""
        gives = np.array(self.market.gives)
        known = [1.0 / (max(n, 1) * gives[at]) for at, n in self._alone.items()]
        worth = gives * (float(np.median(known)) if known else 1.0 / max(self.market.capacity, gives.max()))
        for at, n in self._alone.items():
            worth[at] = 1.0 / max(n, 1)
        return np.asarray(worth)

    def _eliminate(self) -> None:
        limit = self.market.rent if self.answer is None else LESS * self.market.rent_of(self.answer)
        sets, self.whole = sets_within(self.market, limit)
        sets = sets[self.passes(sets)] if len(sets) else sets
        rents, worth, asked = sets @ np.array(self.market.rents), self._worth(), 1.0
        while len(sets) and self.looked < self.tries:
            score = sets @ worth
            able = np.flatnonzero(score >= asked)
            if self.grows and not len(able):
                able = np.flatnonzero(score >= score.max() * LESS)
            able = able if self.grows else np.arange(len(sets))
            pick = able[np.lexsort((-score[able], rents[able]))[0]]
            counts = tuple(int(n) for n in sets[pick])
            if self._try(counts):
                still = rents < LESS * self.market.rent_of(counts)
            elif self.grows:
                still = (sets > sets[pick]).any(axis=1)
                asked += STEP * max(0.0, float(score.max()) - asked)
            else:
                still = np.arange(len(sets)) != pick
            sets, rents = sets[still], rents[still]
        self.left = len(sets)


def sets_within(market: Market, rent: float) -> tuple[Sets, bool]:
    """Sets of at most that rent whose devices could suffice, and whether these are all: at most MOST are kept."""
    rents, gives = np.array(market.rents), np.array(market.gives)
    order = np.argsort(-rents, kind="stable")
    found, whole = np.zeros((1, 0), np.int64), True
    for depth, at in enumerate(order):
        counts = np.arange(market.least[at], market.most[at] + 1)
        found = np.column_stack([np.repeat(found, len(counts), axis=0), np.tile(counts, len(found))])
        done, later = order[: depth + 1], order[depth + 1 :]
        least = np.array(market.least)[later]
        spent = found @ rents[done] + least @ rents[later]
        reach = found @ gives[done] + _reach(market, later, rent - spent)
        fits = (found.sum(axis=1) + least.sum() <= market.nodes) & (spent * LESS <= rent)
        found, reach = found[fits & (reach >= market.capacity)], reach[fits & (reach >= market.capacity)]
        if len(found) > MOST:
            found, whole = found[np.argsort(-reach, kind="stable")[:MOST]], False
    sets = np.empty_like(found)
    sets[:, order] = found
    return sets[sets.sum(axis=1) > 0], whole


def _reach(market: Market, later: npt.NDArray[np.intp], spare: Floats) -> Floats:
    """What nodes of the later types can add at most for the rent that is to spare."""
    rents, gives = np.array(market.rents)[later], np.array(market.gives)[later]
    least, most = np.array(market.least)[later], np.array(market.most)[later]
    free = float(((most - least) * gives)[rents <= 0.0].sum())
    priced = rents > 0.0
    best = float((gives[priced] / rents[priced]).max(initial=0.0))
    roof = float(((most - least) * gives)[priced].sum())
    added = (
        np.minimum(roof, np.where(np.isfinite(spare), np.maximum(spare, 0.0), np.inf) * best) if best else 0.0
    )
    return np.asarray(least @ gives + free + added)
