"""The least rent among sets of nodes, tried one after another.

First each type alone, by bisection: the cheapest that keeps the promises is the rent to beat, and the counts say what
a node of each type is worth. Then the sets below that rent which no bound refutes: the cheapest of those that should
do, by the worth of their nodes. What fails takes every set with no more nodes of any type along; each failure asks for
more worth, so that the search ends at the most promising sets and with them at a proof. What keeps lowers the rent.
Where more nodes may break a promise, each type's largest set comes first, then all others from the cheapest up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError

Counts = tuple[int, ...]  # of each type
Sets = Ints  # (sets, types)
MOST = 50_000  # sets below the rent to beat that are kept apart
SLICE, ROWS = (
    500_000,
    50_000_000,
)  # sets looked at at once, and beside one another before a question is refused
AHEAD = 64  # sets that may come next
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
    ahead: Callable[[Sequence[Counts]], None] = lambda sets: None  # receives the sets that may come next
    answer: Counts | None = None
    looked: int = 0  # sets that were given to ``keeps``
    left: int = 0  # cheaper sets without a verdict
    whole: bool = True  # else there are more of them than were kept apart
    _alone: dict[int, int] = field(default_factory=dict)  # type -> nodes that do, alone
    _failed: list[Counts] = field(default_factory=list)

    def run(self) -> Search:
        """Until no cheaper set is left, or ``tries`` are spent."""
        if self.grows:
            for at in np.argsort(np.divide(self.market.rents, self.market.gives), kind="stable"):
                self._bisect(self.market.least, int(at))
            if self.answer is None and self.market.allows(self.market.most):
                self._shrink()
        else:
            for at in range(len(self.market.rents)):
                if line := self._line(self.market.least, at):
                    self._try(self._with(self.market.least, at, line[-1]))
        self._eliminate()
        return self

    def _try(self, counts: Counts) -> bool:
        open_ = bool(self.passes(np.array([counts]))[0])
        if open_ and self.looked >= self.tries:
            return False
        self.looked += open_
        kept = self.keeps(counts)
        if not kept:
            self._failed.append(counts)
        elif self._cheaper(counts):
            self.answer = counts
        return kept

    def _cheaper(self, counts: Counts) -> bool:
        market = self.market
        return self.answer is None or market.rent_of(counts) < LESS * market.rent_of(self.answer)

    def _bisect(self, counts: Counts, at: int) -> None:
        """The fewest nodes of one type beside the others, as far as they are cheaper than the answer."""
        line = self._line(counts, at)
        if line:
            self.ahead([self._with(counts, at, n) for n in islice(middles(line[0] - 1, line[-1]), AHEAD)])
        if not line or not self._try(self._with(counts, at, line[-1])):
            return
        low, high = line[0] - 1, line[-1]
        while high - low > 1:
            middle = (low + high) // 2
            self.ahead([self._with(counts, at, n) for n in islice(middles(low, high), 1, AHEAD)])
            low, high = (low, middle) if self._try(self._with(counts, at, middle)) else (middle, high)
        self._alone[at] = high

    def _line(self, counts: Counts, at: int) -> list[int]:
        """Nodes of one type beside the others: what the bounds allow and the answer does not beat."""
        span = range(self.market.least[at], self.market.most[at] + 1)
        return [n for n in span if self._worth_it(self._with(counts, at, n))]

    def _with(self, counts: Counts, at: int, n: int) -> Counts:
        return (*counts[:at], n, *counts[at + 1 :])

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
        sets = self._untried(sets[self.passes(sets)] if len(sets) else sets, limit)
        rents, worth, asked = sets @ np.array(self.market.rents), self._worth(), 1.0
        while len(sets) and self.looked < self.tries:
            score = sets @ worth
            able = np.flatnonzero(score >= asked)
            if self.grows and not len(able):
                able = np.flatnonzero(score >= score.max() * LESS)
            able = able if self.grows else np.arange(len(sets))
            pick = able[np.lexsort((-score[able], rents[able]))[0]]
            counts = tuple(int(n) for n in sets[pick])
            self.ahead([tuple(int(n) for n in one) for one in self._likely(sets, rents, score, int(pick))])
            if self._try(counts):
                still = rents < LESS * self.market.rent_of(counts)
            elif self.grows:
                still = (sets > sets[pick]).any(axis=1)
                asked += STEP * max(0.0, float(score.max()) - asked)
            else:
                still = np.arange(len(sets)) != pick
            sets, rents = sets[still], rents[still]
        self.left = len(sets)

    def _likely(self, sets: Sets, rents: Floats, score: Floats, pick: int) -> Sets:
        """Sets that may come after one that fails: the cheapest of those that promise more, or all that cost more."""
        after = (score > score[pick]) if self.grows else (rents >= rents[pick])
        rows = np.flatnonzero(after & (np.arange(len(sets)) != pick))
        return sets[rows[np.lexsort((-score[rows], rents[rows]))][:AHEAD]]

    def _untried(self, sets: Sets, limit: float) -> Sets:
        """Those cheaper than the answer about which no failure says anything."""
        if self.answer is not None:
            sets = sets[sets @ np.array(self.market.rents) < limit]
        for failed in self._failed:
            sets = sets[((sets > failed) if self.grows else (sets != failed)).any(axis=1)]
        return sets


def middles(low: int, high: int) -> Iterator[int]:
    """Where a bisection between the two may look, the soonest first."""
    spans = deque([(low, high)])
    while spans:
        low, high = spans.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            spans += [(low, middle), (middle, high)]


def sets_within(market: Market, rent: float) -> tuple[Sets, bool]:
    """Sets of at most that rent whose devices could suffice, and whether these are all: at most MOST are kept."""
    order = np.argsort(-np.array(market.rents), kind="stable")
    found, whole = np.zeros((1, 0), np.int64), True
    for depth in range(len(order)):
        counts = _counts(market, int(order[depth]), rent)
        if len(found) * len(counts) > ROWS:
            raise ConfigError(
                f"the catalogue makes {len(found) * len(counts):,} sets of {depth + 1} types alone, at most {ROWS:,} "
                "can be looked at; lower most of a [[node]], or lower bounds.cost or bounds.nodes"
            )
        step = max(1, SLICE // max(1, len(counts)))
        kept, reach = np.zeros((0, depth + 1), np.int64), np.zeros(0)
        for first in range(0, len(found), step):
            wider, further = _widened(market, rent, order, found[first : first + step], counts)
            kept, reach = np.concatenate([kept, wider]), np.concatenate([reach, further])
            if len(kept) > MOST:
                best = np.argsort(-reach, kind="stable")[:MOST]
                kept, reach, whole = kept[best], reach[best], False
        found = kept
    sets = np.empty_like(found)
    sets[:, order] = found
    return sets[sets.sum(axis=1) > 0], whole


def _counts(market: Market, at: int, rent: float) -> Ints:
    """Nodes of one type that the bounds allow beside the least of the others."""
    least, rents = np.array(market.least), np.array(market.rents)
    more = min(market.most[at] - least[at], market.nodes - least.sum())
    if rents[at] > 0.0:
        more = min(more, (rent / LESS - least @ rents) / rents[at] + 1.0)
    return np.arange(least[at], least[at] + max(int(more), -1) + 1)


def _widened(
    market: Market, rent: float, order: npt.NDArray[np.intp], found: Sets, counts: Ints
) -> tuple[Sets, Floats]:
    """Each set with each number of the next type, as far as the bounds allow, and what each could give at most."""
    rents, gives, depth = np.array(market.rents), np.array(market.gives), found.shape[1]
    done, later = order[: depth + 1], order[depth + 1 :]
    least = np.array(market.least)[later]
    found = np.column_stack([np.repeat(found, len(counts), axis=0), np.tile(counts, len(found))])
    spent = found @ rents[done] + least @ rents[later]
    reach = found @ gives[done] + _reach(market, later, rent - spent)
    fits = (found.sum(axis=1) + least.sum() <= market.nodes) & (spent * LESS <= rent)
    fits &= reach >= market.capacity
    return found[fits], reach[fits]


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
