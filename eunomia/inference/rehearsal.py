"""Rehearsal: before a run, policies are tried on other traffic of the same kind, and the best of them runs.

It reads networks, platform, settings and beliefs of the run, and the traffic that is stated for it
(``RequestTable.stated``). Traces are drawn from that under seeds that no run has. It does not read the requests of the
run. The engine applies true durations to what it simulates, as where a rival is chosen on validation traces. Policies
see what the scheduler of the run believes.

A race in four rounds, all candidates on the same traces (common random numbers):
    1  every rule of ``RULES`` on FIRST traces; then the best orders with every placement
    2  the best TOP of them on SECOND more traces
    3  an evolution strategy moves the weights of ``blend`` and the gate from the best rule on, on the same traces
    4  what is left, and the policies that ask for the choice, on LAST fresh traces; the best two on as many more
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
from eunomia.inference.policies.settings import call_name
from eunomia.inference.problem import Problem, with_requests

FIRST, SECOND, LAST = 2, 2, 6  # traces of the rounds
TOP, FINALISTS, STEPS = 10, 3, 60
LEAST = 40  # runs; a rehearsal of fewer chooses nothing
REQUESTS = 200  # of a trace
EVENTS = 6_000_000  # simulated events of a rehearsal, at most; an event of a rule takes about 0.4 us
FAR = 0.04  # behind the best on a first trace: not tried on others
FIRST_SEED = 2**62  # of noise in execution times
SETUP, OWN = (
    2000,
    8,
)  # what a run costs beside its events, and what an event of a learned policy costs, in events
KEPT = 256  # choices that a process remembers
GATES = (math.inf, 1.0, 0.9, 0.75, 0.6, 0.45, 0.3)
PLACES = ("any_idle", "eft", "eft_ca")
STARTS = {
    "edf": (1.0, 0.0, 0.0, 0.0, 0.0),
    "sjf": (0.0, 1.0, 0.0, 0.0, 0.0),
    "llf": (1.0, 0.0, 0.0, -1.0, 0.0),
    "edf_bytes": (1.0, 0.0, 3.0, 0.0, 0.0),
}
OTHERS = (
    "pressure",
    "pressure+g0.9",
    "layerweaver",
    "layerweaver+g0.9",
    "veltair",
    "veltair+g0.9",
    "dysta+g0.9",
)
SPREAD = np.array([0.3, 0.7, 1.5, 0.5, 0.7, 0.12])  # of a step: five weights, the gate
OPEN = 1.6  # a gate above it is none

Worth = Callable[[Problem, Outcome], float]  # greatest is best


def hits(problem: Problem, outcome: Outcome) -> float:
    """Share of the requests that met their deadline."""
    return float(np.mean(outcome.results["outcome"] == HIT))


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
    """What was chosen, and the mean worth of the finalists on the fresh traces; empty = nothing could be rehearsed."""

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
            self.traces[number] = with_requests(self.problem, stated.draw(number))
        return self.traces[number]

    def score(self, name: str, number: int) -> float:
        """The worth of one candidate on one trace."""
        from eunomia.inference.simulate import simulate_problem

        if (name, number) not in self.found:
            problem, options = self.trace(number), replace(self.options, seed=FIRST_SEED + number)
            outcome = simulate_problem(problem, self.own.get(name) or load_policy(name), options)
            self.events += SETUP + outcome.events * (OWN if name in self.own else 1)
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
    race, key = (
        Race(problem._replace(requests=requests), options, worth, own),
        _key(problem, options, own, worth, budget),
    )
    if key not in _KEPT:
        if len(_KEPT) >= KEPT:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = _raced(race, budget)
    return _KEPT[key]


_KEPT: dict[str, Rehearsed] = {}


def _key(problem: Problem, options: EngineOptions, own: dict[str, Policy], worth: Worth, budget: int) -> str:
    """Changes with all that a choice depends on; the run's requests and seed are not among it."""
    jobs = problem.jobs
    promises = [jobs.model_of, jobs.tenant_of, jobs.weight, jobs.slo_kind, jobs.slo_target, jobs.slo_window]
    settings = replace(options, seed=0, record="requests")
    place = [problem.costs, problem.graph, problem.type_of, problem.bandwidth_bytes_s, problem.contention]
    parts = [
        place,
        promises,
        settings,
        problem.requests.stated,
        problem.requests.agreements,
        tuple(own),
        budget,
    ]
    return f"{worth!r} {hashlib.sha256(pickle.dumps(parts)).hexdigest()}"


def _raced(race: Race, budget: int) -> Rehearsed:
    """The four rounds."""
    first = range(FIRST)
    both, fresh = range(FIRST + SECOND), range(FIRST + SECOND, FIRST + SECOND + LAST)
    plain = [Rule(start, gate, "any_idle") for start, gate in itertools.product(STARTS.values(), GATES)]
    rules = {rule.name: rule for rule in plain}
    if race.options.period_s is not None:
        plain = [
            rule for rule in plain if rule.gate == math.inf
        ]  # rules queue all at a tick: gates are not asked
    names = [rule.name for rule in plain]
    race.mean(names[0], [0])
    most = budget // race.events  # runs that fit
    if most < LEAST:
        return Rehearsed(next(iter(race.own)), events=race.events)
    names = names[:: max(1, 3 * len(names) // most)]
    placed = [replace(rules[name], place=p) for name in race.best(names, first, 5) for p in PLACES[1:]]
    rules |= {rule.name: rule for rule in placed}
    others = OTHERS if race.options.period_s is None else ()
    top = race.best([*names, *(rule.name for rule in placed), *others], first, TOP)
    top = race.best(top, both, TOP)
    base = next((rules[name] for name in top if name in rules), plain[0])
    tuned = _tuned(race, base, both, budget // 2)
    likely = [name for name in race.own if race.mean(name, first) > race.mean(top[0], first) - FAR]
    finalists = [*likely, *dict.fromkeys((tuned.name, *top[:FINALISTS]))]
    scores = {name: race.mean(name, fresh) for name in finalists}
    pair, more = race.best(finalists, fresh, 2), range(fresh.stop, fresh.stop + LAST)
    if race.events < budget:
        scores |= {name: race.mean(name, [*fresh, *more]) for name in pair}
    chosen = max(pair, key=lambda name: scores[name])
    rule = max((name for name in scores if name not in race.own), key=lambda name: scores[name])
    return Rehearsed(chosen, scores, rule, race.events)


def _tuned(race: Race, best: Rule, numbers: Sequence[int], budget: int) -> Rule:
    """An evolution strategy of one parent and one child, its step longer after a success and shorter after a failure.

    A child that is far behind on the first trace is not tried on the others.
    """
    rng, step = np.random.default_rng(0), 1.0
    score, first = race.mean(best.name, numbers), race.score(best.name, numbers[0])
    for _ in range(STEPS):
        if race.events > budget:
            break
        child = best.moved(rng, step)
        if (
            race.score(child.name, numbers[0]) > first - FAR
            and (value := race.mean(child.name, numbers)) > score
        ):
            best, score, first = child, value, race.score(child.name, numbers[0])
            step = min(2.0, 1.3 * step)
        else:
            step = max(0.3, 0.95 * step)
    return best
