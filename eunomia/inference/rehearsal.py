"""Rehearsal: before a run, policies are tried on other traffic of the same kind, and the best of them runs.

It reads networks, platform, settings and beliefs of the run, and the traffic that is stated for it
(``RequestTable.stated``). Traces are drawn from that under seeds that no run has. It does not read the requests of the
run. The engine applies true durations to what it simulates, as where a rival is chosen on validation traces. Policies
see beliefs that err as those of the run do, with errors drawn anew.

A race in four rounds, all candidates on the same traces (common random numbers):
    1  orders, placements and gates, and published schedulers, on one trace; the best FIRST of them on a second one
    2  the best TOP of those on SECOND traces
    3  an evolution strategy moves the weights of ``blend`` and the gate from the best rules on, on the same traces
    4  what is left, lookahead over the best rule with its time charged, and the policies that ask for the choice, on
       LAST fresh traces; the best two on as many more
The best mean runs. Rounds end when the budget is spent: it counts simulated events and not time, so that every
machine chooses alike.

Does badly: where the traffic that comes is not what was stated; with fewer requests than a state of the system
needs to build up. The best of many on few traces is flattered: fresh traces decide.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from eunomia.contract.view import Policy
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.blend import WEIGHTS
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.settings import call_name
from eunomia.inference.problem import Problem, rehearsed

SECOND, LAST = 4, 6  # traces of the rounds
FIRST, TOP, FINALISTS, STEPS = 24, 10, 3, 100
LEAST = 40  # runs; a rehearsal of fewer chooses nothing
REQUESTS = 200  # of a trace
EVENTS = 6_000_000  # simulated events of a rehearsal, at most; an event of a rule takes about 0.4 us
FAR = 0.04  # behind the best on a first trace: not tried on others
FIRST_SEED = 2**62  # of noise in execution times
SETUP = 2000  # what a run costs beside its events, in events
OWN, OTHER = (
    8,
    3,
)  # what an event of a learned policy costs, and one of a published scheduler, in events of a rule
KEPT = 256  # choices that a process remembers
GATES = (math.inf, 1.0, 0.9, 0.75, 0.6, 0.45, 0.3)
PLACES = ("any_idle", "eft", "eft_ca")
STARTS = {
    "edf": (1.0, 0.0, 0.0, 0.0, 0.0),
    "sjf": (0.0, 1.0, 0.0, 0.0, 0.0),
    "llf": (1.0, 0.0, 0.0, -1.0, 0.0),
    "edf_bytes": (1.0, 0.0, 3.0, 0.0, 0.0),
}
PUBLISHED = ("pressure", "layerweaver", "veltair", "dysta", "dream", "moca", "planaria")
OTHERS = tuple(f"{name}{gate}" for name in PUBLISHED for gate in ("", "+g1", "+g0.75"))
SPREAD = np.array([0.3, 0.7, 1.5, 0.5, 0.7, 0.12])  # of a step: five weights, the gate
OPEN = 1.6  # a gate above it is none

Worth = Callable[[Problem, Outcome], float]  # greatest is best


def hits(problem: Problem, outcome: Outcome) -> float:
    """Share of the requests that met their deadline."""
    return float(np.mean(outcome.results["outcome"] == HIT)) if len(outcome.results) else 0.0


@dataclass(frozen=True)
class Rule:
    """A point of the search: weights of ``blend``, gate, placement."""

    weights: tuple[float, ...]
    gate: float
    place: str

    @property
    def name(self) -> str:
        """As policies are called: a rule's own name where it is one."""
        for order, start in STARTS.items():
            if start == self.weights:
                place = "" if self.place == "any_idle" else f"+{self.place}"
                return f"{order}+f{place}" + (f"+g{self.gate:g}" if self.gate < math.inf else "")
        settings = {name: w for name, w in zip(WEIGHTS, self.weights, strict=True) if w or name == "deadline"}
        return call_name("blend", {**settings, "place": self.place, "gate": self.gate})

    def moved(self, rng: np.random.Generator, step: float) -> Rule:
        """A neighbour: two or three numbers change, sometimes the placement."""
        mask = rng.random(len(SPREAD)) < 0.4
        mask[rng.integers(len(SPREAD))] = True
        move = mask * rng.standard_normal(len(SPREAD)) * SPREAD * step
        gate = (
            self.gate + move[-1]
            if self.gate < OPEN
            else float(rng.uniform(0.6, OPEN))
            if mask[-1]
            else self.gate
        )
        place = PLACES[rng.integers(len(PLACES))] if rng.random() < 0.2 else self.place
        weights = tuple(round(w + m, 3) for w, m in zip(self.weights, move[:-1].tolist(), strict=True))
        return Rule(weights, round(max(gate, 0.05), 3) if gate < OPEN else math.inf, place)


@dataclass(frozen=True)
class Rehearsed:
    """What was chosen, and the mean worth of the finalists on fresh traces; no scores = nothing could be rehearsed."""

    name: str
    scores: dict[str, float] = field(default_factory=dict)
    rule: str = ""  # the best of those that are rules
    events: int = 0

    def facts(self) -> dict[str, object]:
        """For manifests."""
        return {"chosen": self.name, "rule": self.rule, "scores": self.scores, "events": self.events}


class Rehearsing:
    """A policy that leaves its runs to the best of a rehearsal, if it has a budget for one."""

    name: str
    budget: int = 0  # simulated events
    rehearsed: Rehearsed | None = None  # before the last run
    chosen: Policy | None = None

    def choose(self, problem: Problem, options: EngineOptions) -> Policy:
        """This policy, or the rule that is better at this place."""
        self.chosen = me = cast(Policy, self)
        if self.budget > 0:
            alone = copy.deepcopy(self)
            alone.budget = 0
            self.rehearsed = rehearse(problem, options, {self.name: cast(Policy, alone)}, budget=self.budget)
            self.chosen = me if self.rehearsed.name == self.name else load_policy(self.rehearsed.name)
        return self.chosen


class Race:
    """Candidates by name on traces by number; every run is made once and counted."""

    def __init__(
        self, problem: Problem, options: EngineOptions, worth: Worth, own: dict[str, Policy]
    ) -> None:
        self.problem, self.worth, self.own = problem, worth, own
        self.options = replace(options, record="requests", charge_measured=False)
        self.traces: dict[int, Problem] = {}
        self.found: dict[tuple[str, int], float] = {}
        self.events = 0

    def trace(self, number: int) -> Problem:
        """The run's problem with other requests."""
        if number not in self.traces:
            stated = self.problem.requests.stated
            assert stated is not None, "checked before"
            self.traces[number] = rehearsed(self.problem, stated.draw(number), self.noise(number))
        return self.traces[number]

    def noise(self, number: int) -> EngineOptions:
        """The run's settings with another seed: of errors in beliefs and of execution times."""
        return replace(self.options, seed=FIRST_SEED + number)

    def score(self, name: str, number: int) -> float:
        """The worth of one candidate on one trace."""
        from eunomia.inference.simulate import simulate_problem

        if (name, number) not in self.found:
            problem, options = self.trace(number), self.noise(number)
            policy = self.own.get(name) or load_policy(name)
            outcome = simulate_problem(problem, policy, options)
            cost = 1 if isinstance(policy, Greedy) else OTHER if name in OTHERS else OWN
            self.events += SETUP + cost * outcome.events
            self.found[name, number] = self.worth(problem, outcome)
        return self.found[name, number]

    def mean(self, name: str, numbers: Sequence[int]) -> float:
        """Over some traces; rounded, so that equal policies are equal."""
        return round(float(np.mean([self.score(name, n) for n in numbers])), 9)

    def best(self, names: Sequence[str], numbers: Sequence[int], most: int) -> list[str]:
        """The best so many, greatest first; equal ones as they were named."""
        return sorted(dict.fromkeys(names), key=lambda name: -self.mean(name, numbers))[:most]


def rehearse(
    problem: Problem,
    options: EngineOptions,
    own: dict[str, Policy],
    worth: Worth = hits,
    budget: int = EVENTS,
) -> Rehearsed:
    """The policy to run: one of ``own``, the favourite first, or a rule by name.

    Nothing is rehearsed, and the favourite chosen, where no traffic is stated.
    """
    favourite = next(iter(own))
    stated = problem.requests.stated
    if stated is None or not len(problem.requests) or budget <= 0:
        return Rehearsed(favourite)
    requests = replace(problem.requests, stated=stated.first(REQUESTS))
    race = Race(problem._replace(requests=requests), options, worth, own)
    key = _key(problem, options, own, worth, budget)
    if key is None:
        return _raced(race, budget)
    if key not in _KEPT:
        if len(_KEPT) >= KEPT:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = _raced(race, budget)
    return _KEPT[key]


_KEPT: dict[str, Rehearsed] = {}


def _key(
    problem: Problem, options: EngineOptions, own: dict[str, Policy], worth: Worth, budget: int
) -> str | None:
    """Changes with all that a choice depends on, but for the run's requests and seed; None = cannot be said."""
    jobs, graph = problem.jobs, problem.graph
    promises = [jobs.model_of, jobs.tenant_of, jobs.weight, jobs.slo_kind, jobs.slo_target, jobs.slo_window]
    truth = [*problem.costs[:6], *graph[:4], problem.type_of, problem.bandwidth_bytes_s, problem.contention]
    traffic = [problem.requests.stated, problem.requests.agreements]
    parts = [truth, promises, traffic, replace(options, seed=0, record="requests"), tuple(own), budget]
    try:
        return f"{worth!r} {hashlib.sha256(pickle.dumps(parts)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError):  # arrivals of one's own
        return None


def _raced(race: Race, budget: int) -> Rehearsed:
    """The four rounds."""
    both, fresh = range(SECOND), range(SECOND, SECOND + LAST)
    ticks = race.options.period_s is not None  # rules then queue all that waits: gates are not asked
    plain = [
        Rule(start, gate, place)
        for start, place, gate in itertools.product(STARTS.values(), PLACES, GATES)
        if not ticks or gate == math.inf
    ]
    rules = {rule.name: rule for rule in plain}
    names = [*rules, *(() if ticks else OTHERS)]
    race.mean(names[0], [0])
    most = budget // race.events  # runs that fit
    if most < LEAST:
        return Rehearsed(next(iter(race.own)), events=race.events)
    names = names[:: max(1, 2 * len(names) // most)]
    top = race.best(race.best(names, [0], FIRST), range(2), TOP)
    top = race.best(top, both, TOP)
    tuned = _tuned(
        race, _apart([rules[name] for name in top if name in rules] or plain[:1]), both, budget * 2 // 3
    )
    base = next((rules[name] for name in top if name in rules), plain[0])
    slow = [*race.own, *(() if ticks else (f"lookahead(base={base.name},charge=true)",))]
    likely = [name for name in slow if race.mean(name, range(2)) > race.mean(top[0], range(2)) - FAR]
    finalists = list(dict.fromkeys((*likely, tuned.name, *top[:FINALISTS])))
    scores = {name: race.mean(name, fresh) for name in finalists}
    pair, more = race.best(finalists, fresh, 2), range(fresh.stop, fresh.stop + LAST)
    if race.events < budget:
        scores |= {name: race.mean(name, [*fresh, *more]) for name in pair}
    chosen = max(pair, key=lambda name: scores[name])
    rule = max((name for name in scores if name not in slow), key=lambda name: scores[name])
    return Rehearsed(chosen, scores, rule, race.events)


def _apart(rules: Sequence[Rule]) -> list[Rule]:
    """The first two of each order: a pool that differs."""
    return [rule for n, rule in enumerate(rules) if [r.weights for r in rules[:n]].count(rule.weights) < 2]


def _tuned(race: Race, starts: Sequence[Rule], numbers: Sequence[int], budget: int) -> Rule:
    """An evolution strategy: a child of one of the best rules takes the place of the worst of them, if it is better.

    Steps grow after a success and shrink after a failure. A child that is far behind on the first trace is not tried
    on the others.
    """
    rng, step = np.random.default_rng(0), 1.0
    pool = sorted(((race.mean(rule.name, numbers), rule) for rule in starts), key=lambda one: -one[0])
    for _ in range(STEPS):
        if race.events > budget:
            break
        child = pool[min(int(rng.geometric(0.5)), len(pool)) - 1][1].moved(rng, step)
        near = race.score(child.name, numbers[0]) > race.score(pool[0][1].name, numbers[0]) - FAR
        value = race.mean(child.name, numbers) if near else -math.inf
        step = min(2.0, 1.3 * step) if value > pool[0][0] else max(0.3, 0.97 * step)
        if value > pool[-1][0] and child not in [rule for _, rule in pool]:
            pool = sorted([*pool[:-1], (value, child)], key=lambda one: -one[0])
    return pool[0][1]
