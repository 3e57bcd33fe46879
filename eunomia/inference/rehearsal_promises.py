"""Rehearsal for any objective: promises to tenants against hits (rounds of a race in inference/rehearsal.py).

Worth is a mixture of objectives, trace by trace, averaged. Attainment moves in steps of one pair: beside the step
stands a ramp around each target (contract/objectives.py, ``climbed``). All candidates see the same traces. Hits are
guarded. The *rival* is the best tenant rule for the objective. A candidate whose hit rate lies more than LOSE below the
rival's on the same traces pays PRICE times what is beyond.

    1  tenant rules, plain rules and points of ``pledge`` on one trace; the best FIRST of them on a second one
    2  the best TOP of those on SECOND traces
    3  an evolution strategy moves the best points of ``pledge``, on the same traces
    4  what is left and the learned policies, on LAST fresh traces; the best two on as many more

Does badly: few requests per pair and few traces, where chance decides; targets that nothing reaches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eunomia.contract.objectives import TENANT
from eunomia.contract.view import Policy
from eunomia.inference.candidates import STARTS, Pledge, Rule
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.problem import Problem
from eunomia.inference.rehearsal import LEAST, Aim, Race, Rehearsed, tuned_from

LOSE, PRICE = 0.02, 2.0
MOST = 6_000_000  # simulated events
DYNAMIC, OWN = (
    3,
    8,
)  # what an event of a dynamic rule costs, and one of a learned policy, in events of a static one
SECOND, LAST = 3, 6  # traces of the rounds
FIRST, TOP, FINALISTS, STEPS = 16, 8, 2, 80
LEARNED = 3  # learned policies that go on after the first trace
FAR = 0.08  # behind the best on a first trace: not tried on others
TENANT_ORDERS = [
    f"{rule}_{by}" for rule in ("triage", "gap_first", "shift", "worst_first") for by in ("edf", "sjf")
]
PLACES, GATES = ("any_idle", "eft"), (1.0, 0.75)
BESIDE = tuple(f"eunomia(promise={name},rehearse=0)" for name in (*TENANT, "none"))
BESIDE += tuple(
    f"eunomia(promise={terms})" for terms in ("keep,strength=1", "mend,strength=0.5", "level,strength=0.5")
)
# left, toll, spare, lack, often: from the orders and from what development found
POINTS = (
    (1.0, 0.0, 0.4, 0.0, 0.0),
    (1.0, 0.5, 0.4, -6.0, -0.3),
    (0.0, 0.0, 1.0, -6.0, 0.0),
    (1.0, 0.5, 0.4, 1.0, 0.0),
    (0.0, 0.0, 1.0, 6.0, 0.0),
    (0.5, 0.0, 0.3, 8.0, 0.4),
    (0.0, 0.0, 0.3, 25.0, 0.5),
)


@dataclass(frozen=True)
class Mixture:
    """Objectives of a run, weighted; ``measure`` computes one by name."""

    weights: tuple[tuple[str, float], ...]
    measure: Callable[[str, Problem, Outcome], float]

    def __call__(self, problem: Problem, outcome: Outcome) -> float:
        """The weighted sum."""
        return sum(weight * self.measure(name, problem, outcome) for name, weight in self.weights)

    def __str__(self) -> str:
        return " + ".join(f"{weight:g} {name}" for name, weight in self.weights)


def aim_for(
    promise: str,
    weights: tuple[tuple[str, float], ...],
    measure: Callable[[str, Problem, Outcome], float],
) -> Aim:
    """The rehearsal for a mixture; the policy trained for ``promise`` asks for it, the others take part."""
    others = tuple(name for name in BESIDE if f"promise={promise}," not in name)
    return Aim(Mixture(weights, measure), race_for_promises, others)


class Guarded(Race):
    """A race in which hits below those of the rival cost worth."""

    rival = ""

    def cost(self, policy: Policy, name: str) -> int:
        """Of an event, in events of a static rule."""
        return (DYNAMIC if policy.resolved.dynamic else 1) if isinstance(policy, Greedy) else OWN

    def mean(self, name: str, numbers: Sequence[int]) -> float:
        """Worth over some traces, less the price of hits."""
        worth = super().mean(name, numbers)
        if not self.rival or name == self.rival:
            return worth
        for each in (name, self.rival):
            for number in numbers:
                self.score(each, number)
        missing = sum(self.hits[self.rival, n] - self.hits[name, n] for n in numbers) / len(numbers) - LOSE
        return worth - PRICE * max(0.0, missing)


def race_for_promises(race: Race, budget: int) -> Rehearsed:
    """The four rounds. At ticks gates are not asked, and none is tried."""
    budget = min(budget, MOST)
    run, slow = Guarded(race.problem, race.options, race.worth, race.own), [*race.own, *race.aim.beside]
    run.runs = race.runs
    ticks = run.options.period_s is not None
    gates = (math.inf,) if ticks else GATES
    tenants = [
        f"{order}+f+{place}" + ("" if ticks else f"+g{gate:g}")
        for order, place, gate in itertools.product(TENANT_ORDERS, PLACES, gates)
    ]
    plain = [Rule(*of).name for of in itertools.product(STARTS.values(), gates, PLACES)]
    points = {
        point.name: point for point in (Pledge(*of) for of in itertools.product(POINTS, gates[:1], PLACES))
    }
    run.mean(tenants[0], [0])
    most = budget // run.events  # runs that fit
    if most < LEAST:
        return Rehearsed(next(iter(run.own)), events=run.events)
    names = [*tenants, *plain, *points][:: max(1, 2 * (len(tenants) + len(plain) + len(points)) // most)]
    both, fresh = range(SECOND), range(SECOND, SECOND + LAST)
    asked = [name for name in tenants if name in names]
    run.rival = run.best(run.best(asked, [0], 6), range(2), 1)[0]
    top = run.best(run.best(names, [0], FIRST), range(2), TOP)
    top = run.best(top, both, TOP)
    starts = [points[name] for name in run.best([*points], [0], 6)]
    starts = sorted(starts, key=lambda point: -run.mean(point.name, range(2)))[:4]
    tuned = tuned_from(run, starts, both, budget // 2, FAR, STEPS)
    lead = max(run.mean(name, [0]) for name in (tuned.name, *top))
    likely = [name for name in run.best(slow, [0], LEARNED) if run.mean(name, [0]) > lead - FAR]
    finalists = list(dict.fromkeys((*likely, tuned.name, *top[:FINALISTS], run.rival)))
    scores = {name: run.mean(name, fresh) for name in finalists}
    pair, more = run.best(finalists, fresh, 2), range(fresh.stop, fresh.stop + LAST)
    if run.events < budget:
        scores |= {name: run.mean(name, [*fresh, *more]) for name in pair}
    chosen = max(pair, key=lambda name: scores[name])
    rule = max((name for name in scores if name not in slow), key=lambda name: scores[name])
    return Rehearsed(chosen, scores, rule, run.events, str(run.worth))
