"""The least platform that keeps its promises: best first, refuted by proof or beaten in the simulator."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.metrics.statistics import interval
from eunomia.study.plan.catalogue import Catalogue
from eunomia.study.plan.crew import Trials
from eunomia.study.plan.ground import Ground, plan_table
from eunomia.study.plan.screen import Screen
from eunomia.study.plan.trial import Order, Tally, tally

Score = Callable[[int, Tally], float]
PROVEN = 1  # block of fresh seeds that a platform is proven on
WAVE = 16  # platforms that are tried together, whatever the number of processes


@dataclass(frozen=True, eq=False)
class Proof:
    """Fresh seeds, as costed and with costs in error: what the answer has to survive."""

    fresh: Tally
    wrong: Tally | None  # with costs in error; None = the plan has no error
    lower: Floats  # (pairs,) confidence bound of the hit rate on fresh seeds
    lower_wrong: Floats
    holds: bool
    distinct: Ints  # (pairs,) requests on fresh seeds, those that seeds repeat once

    def margin(self, targets: Floats) -> float:
        """The worst confidence bound minus its target."""
        return float(np.nanmin(self.least - targets))

    @property
    def least(self) -> Floats:
        """(pairs,) the lower of the two bounds."""
        return np.minimum(self.lower, self.lower_wrong)

    def sure(self, pair: int, confidence: float) -> float:
        """The bound of one pair; where no request missed, what so many hits in a row say of its hit rate."""
        asked = max(int(self.distinct[pair]), 1)
        return float((1.0 - confidence) ** (1.0 / asked)) if self.hit(pair) else float(self.least[pair])

    def short_of_requests(self, targets: Floats) -> bool:
        """Whether the mean of every hit rate reaches its target, so that the bounds alone do not."""
        means = [lower_rates(one, 0.0) for one in (self.fresh, self.wrong) if one is not None]
        return not any((mean < targets).any() for mean in means)

    def hit(self, pair: int) -> bool:
        """Whether no request of a pair missed."""
        tallies = [one for one in (self.fresh, self.wrong) if one is not None]
        return not any((one.hits[:, pair] < one.asked[:, pair]).any() for one in tallies)


@dataclass
class Found:
    """What became of the platforms: one verdict for each that was looked at."""

    winner: int | None = None
    proof: Proof | None = None
    tallies: dict[int, Tally] = field(default_factory=dict)  # on the seeds of the search
    kept: set[int] = field(default_factory=set)  # kept their promises there
    failed: dict[int, Proof] = field(
        default_factory=dict
    )  # but not on fresh seeds, or not with costs in error


class Search:
    """Trials of one plan's platforms, with what is known of them so far."""

    def __init__(self, on: Ground, platforms: Catalogue, trials: Trials, more: float = 1.0) -> None:
        self.on, self.platforms, self.trials = on, platforms, trials
        self.factor = more * (1.0 + on.plan.search.headroom)  # of the traffic that promises must hold at
        self.screen = Screen(on, platforms, on.seeds(on.plan.search.seeds), self.factor)
        self.settings, self.targets = on.plan.search, on.targets
        self.found = Found()
        self._text = json.dumps(plan_table(on.plan), sort_keys=True)
        self._seeds = tuple(on.seeds(self.settings.seeds))
        self._proofs: dict[int, Proof] = {}

    def order(self, row: int) -> Order:
        """A race of the policies on the seeds of the search."""
        return Order(
            self._text,
            tuple(self.platforms.counts[row].tolist()),
            int(self.platforms.memory[row]),
            tuple(self.settings.policies),
            self._seeds,
            self.factor,
        )

    def tried(self, rows: Sequence[int], stage: str) -> list[bool]:
        """Whether each keeps its promises on the seeds of the search, under the best policy."""
        new = [row for row in rows if row not in self.found.tallies]
        for row, result in zip(new, self.trials.run([self.order(row) for row in new], stage), strict=True):
            self.found.tallies[row] = tally(result)
            if result["kept"]:
                self.found.kept.add(row)
        return [row in self.found.kept for row in rows]

    def least(
        self, score: Floats, stage: str, rows: Sequence[int] | None = None, actual: Score | None = None
    ) -> tuple[int | None, Proof | None]:
        """The platform of the least ``score`` that keeps its promises and survives the proof; None = there is none.

        Exact under these policies and seeds: every platform of a lower score is refuted, misses a promise, or fails
        the proof. ``actual``: the score of a platform that was tried, where ``score`` only bounds it from below.
        """
        within = np.arange(len(self.platforms)) if rows is None else np.asarray(rows, np.int64)
        waiting = deque(within[np.argsort(score[within], kind="stable")].tolist())
        best: tuple[float, int, Proof] | None = None
        while waiting and (best is None or score[waiting[0]] < best[0]):
            wave: list[int] = []
            while waiting and len(wave) < WAVE:
                row = waiting.popleft()
                if self.screen.refuted(row) is None:
                    wave.append(row)
            for row, kept in zip(wave, self.tried(wave, stage), strict=True):
                value = float(score[row]) if actual is None else actual(row, self.found.tallies[row])
                if not kept or row in self.found.failed or (best is not None and value >= best[0]):
                    continue
                proof = self.prove(row)
                if not proof.holds:
                    self.found.failed[row] = proof
                    continue
                best = value, row, proof
                if actual is None:
                    return row, proof
        return (None, None) if best is None else best[1:]

    def prove(self, row: int) -> Proof:
        """The promises on fresh seeds, as costed and with costs in error: the same seeds for everybody."""
        if row not in self._proofs:
            self._proofs[row] = self.proof(row, PROVEN)
        return self._proofs[row]

    def proof(self, row: int, block: int) -> Proof:
        """On a block of seeds by number: of the first policy that holds, or the one that comes nearest."""
        seeds, error = tuple(self.on.seeds(self.settings.fresh, fresh=block)), self.settings.cost_error
        first = self.found.tallies[row].policy
        base = replace(self.order(row), seeds=seeds, race=False)
        exact = [replace(base, policies=(p,)) for p in dict.fromkeys((first, *self.settings.policies))]
        wrong = [replace(order, error=error) for order in exact]
        made: list[Proof] = []
        for orders in (
            [exact[0], *([wrong[0]] if error else [])],
            exact[1:],
        ):  # the others only where the first fails
            results = self.trials.run(orders, "fresh seeds")
            held = []
            for order, result in zip(orders, results, strict=True):
                if order.error == 0.0:
                    alone = self._judged([tally(result)])
                    if alone.holds:
                        held.append(order)  # it still has to hold with costs in error
                    else:
                        made.append(alone)
            for order in held:
                again = [order, *([replace(order, error=error)] if error else [])]
                made.append(self._judged([tally(result) for result in self.trials.run(again, "fresh seeds")]))
                if made[-1].holds:
                    return made[-1]
        return max(made, key=lambda one: one.margin(self.targets))

    def _judged(self, tallies: Sequence[Tally]) -> Proof:
        lower = [lower_rates(one, self.settings.confidence) for one in tallies]
        holds = all(bool((np.isnan(self.targets) | (each >= self.targets)).all()) for each in lower)
        wrong = tallies[1] if len(tallies) > 1 else None
        return Proof(tallies[0], wrong, lower[0], lower[-1], holds, self.on.distinct(tallies[0].asked))


def lower_rates(found: Tally, confidence: float) -> Floats:
    """(pairs,) one-sided confidence bound of the hit rate: mean over seeds less Student's t times its error."""
    rates = np.where(found.asked > 0, found.hits / np.maximum(found.asked, 1), np.nan)
    bounds = []
    for column in rates.T:
        estimate = interval(column, 2.0 * confidence - 1.0) if confidence > 0.5 else interval(column)
        centre = estimate.mean if np.isnan(estimate.low) or confidence <= 0.5 else estimate.low
        bounds.append(1.0 if estimate.n == 0 else centre)
    return np.array(bounds)
