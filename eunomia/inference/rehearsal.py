"""Rehearsal: before a run, policies are tried on other traffic of the same kind, and the best of them runs.

It reads networks, platform, settings and beliefs of the run, and the traffic that is stated for it
(``RequestTable.stated``). Traces are drawn from that under seeds that no run has. It does not read the requests of the
run. The engine applies true durations to what it simulates, as where a rival is chosen on validation traces. Policies
see beliefs that err as those of the run do, with errors drawn anew.

A race in rounds, all candidates on the same traces (common random numbers):
    1  orders, placements, gates and published schedulers, by halves: all on one trace, the best on two, then on four
    2  an evolution strategy moves the weights of ``blend`` and the gate from the best rules on, on the same traces
    3  lookahead with its time charged, over the best rules and over learned policies: settings change one after
       another, on LOOKED traces
    4  the best of all that, and the policies that ask for the choice, by halves on fresh traces; the last two, and the
       best rule, on LAST of them
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

from eunomia.contract.contention import CONTENTION
from eunomia.contract.view import Policy
from eunomia.inference.candidates import (
    ALONE,
    GATES,
    PLACES,
    PUBLISHED,
    PUBLISHED_GATES,
    SETTINGS,
    STARTS,
    At,
    Rule,
    ahead,
    cost_of,
)
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.problem import Problem, rehearsed

SECOND, LOOKED, LAST = 4, 2, 12  # traces of the rounds
HALVES = ((1, 18), (2, 8), (SECOND, 8))  # traces, and how many go on
FINALS = ((3, 4), (6, 2))
STEPS = 100
LEAST = 40  # runs; a rehearsal of fewer chooses nothing
REQUESTS = 200  # of a trace
EVENTS = 10_000_000  # simulated events of a rehearsal, at most; an event of a rule takes about 0.4 us
ENOUGH = 0.9985  # a worth that leaves nothing to be gained: gaps between arrivals shrink
FASTER, FASTEST = 0.8, 0.4  # to so much of what they were, and at most
FAR = 0.04  # behind the best on a first trace: not tried on others
FIRST_SEED = 2**62  # of noise in execution times
SETUP = 2000  # what a run costs beside its events, in events
TICK = 2  # what a decision at a tick costs at least, in events: ticks may be many more than events
KEPT = 256  # choices that a process remembers

Worth = Callable[[Problem, Outcome], float]  # greatest is best
Own = dict[str, Policy]
Runs = dict[tuple[str, int], tuple[Outcome, Policy]]


def hits(problem: Problem, outcome: Outcome) -> float:
    """Share of the requests that met their deadline."""
    return float(np.mean(outcome.results["outcome"] == HIT)) if len(outcome.results) else 0.0


@dataclass(frozen=True)
class Rehearsed:
    """What was chosen, and the mean worth of the finalists on fresh traces; no scores = nothing could be rehearsed."""

    name: str
    scores: dict[str, float] = field(default_factory=dict)
    rule: str = ""  # the best of those that are rules
    events: int = 0
    aim: str = ""  # what worth is, where it is not the hit rate

    def facts(self) -> dict[str, object]:
        """For manifests."""
        told = {"chosen": self.name, "rule": self.rule, "scores": self.scores, "events": self.events}
        return {**told, "aim": self.aim} if self.aim else told


@dataclass(frozen=True)
class Aim:
    """What a rehearsal is for: the worth of a run, the rounds of the race, and who takes part beside the rules."""

    worth: Worth = hits
    rounds: Callable[[Race, int], Rehearsed] | None = None  # None = those above
    beside: tuple[str, ...] = ()  # policies by name
    ahead: bool = True  # whether lookahead takes part: it needs an engine
    over: tuple[str, ...] = ()  # learned policies by name that it looks ahead with, beside the best rules


class Rehearsing:
    """A policy that leaves its runs to the best of a rehearsal, if it has a budget for one."""

    name: str
    budget: int = 0  # simulated events
    aim: Aim = Aim()
    rehearsed: Rehearsed | None = None  # before the last run
    chosen: Policy | None = None

    def choose(self, problem: Problem, options: EngineOptions) -> Policy:
        """This policy, or the rule that is better at this place."""
        self.chosen = me = cast(Policy, self)
        if self.budget > 0:
            alone = copy.deepcopy(self)
            alone.budget = 0
            own = {self.name: cast(Policy, alone)}
            self.rehearsed = rehearse(problem, options, own, self.aim, self.budget)
            self.chosen = me if self.rehearsed.name == self.name else load_policy(self.rehearsed.name)
        return self.chosen


class Race:
    """Candidates by name on traces by number; every run is made once and counted."""

    aim = Aim()

    def __init__(self, problem: Problem, options: EngineOptions, worth: Worth, own: Own) -> None:
        self.problem, self.worth, self.own = problem, worth, own
        self.options = replace(options, record="requests", charge_measured=False)
        self.pace = 1.0  # of gaps between arrivals, those stated = 1
        self.traces: dict[int, Problem] = {}
        self.found: dict[tuple[str, int], float] = {}
        self.hits: dict[tuple[str, int], float] = {}
        self.runs: Runs = {}  # of policies by name, which races for other aims share
        self.events = 0

    def trace(self, number: int) -> Problem:
        """The run's problem with other requests."""
        if number not in self.traces:
            stated = self.problem.requests.stated
            assert stated is not None, "checked before"
            drawn = stated.draw(number)
            drawn = replace(drawn, arrival_s=drawn.arrival_s * self.pace)
            self.traces[number] = rehearsed(self.problem, drawn, self.noise(number))
        return self.traces[number]

    def hasten(self, names: Sequence[str]) -> None:
        """Where these lose nothing, requests come faster until one does: what is tried must differ."""
        while self.pace > FASTEST and min(self.mean(name, range(2)) for name in names) > ENOUGH:
            self.pace *= FASTER
            self.traces.clear()
            self.found.clear()
            self.runs = {}

    def noise(self, number: int) -> EngineOptions:
        """The run's settings with another seed: of errors in beliefs and of execution times."""
        return replace(self.options, seed=FIRST_SEED + number)

    def score(self, name: str, number: int) -> float:
        """The worth of one candidate on one trace."""
        if (name, number) not in self.found:
            outcome, policy = self.run(name, number)
            ticks = 0 if self.options.period_s is None else TICK * outcome.rounds
            self.events += SETUP + self.cost(policy, name) * max(outcome.events, ticks)
            self.found[name, number] = self.worth(outcome.problem, outcome)
            self.hits[name, number] = hits(outcome.problem, outcome)
        return self.found[name, number]

    def run(self, name: str, number: int) -> tuple[Outcome, Policy]:
        """What came of it, and of whom."""
        from eunomia.inference.simulate import simulate_problem

        if name in self.own or (name, number) not in self.runs:
            policy = self.own.get(name) or load_policy(name)
            outcome = simulate_problem(self.trace(number), policy, self.noise(number))
            if name in self.own:
                return outcome, policy
            self.runs[name, number] = outcome, policy
        return self.runs[name, number]

    def cost(self, policy: Policy, name: str) -> int:
        """Of an event, in events of a rule."""
        return 1 if isinstance(policy, Greedy) else cost_of(name)

    def mean(self, name: str, numbers: Sequence[int]) -> float:
        """Over some traces; rounded, so that equal policies are equal."""
        return round(float(np.mean([self.score(name, n) for n in numbers])), 9)

    def halves(self, names: Sequence[str], rounds: Sequence[tuple[int, int]], traces: range) -> list[str]:
        """Successive halving: all on the first traces, the best on more; those of the last round, greatest first."""
        for count, most in rounds:
            ranked, alike = self.best(names, traces[:count], len(names)), set()
            if count > 1:  # on one trace, different candidates often score alike
                alike = {
                    b for n, b in enumerate(ranked) for a in ranked[:n] if self.equal(a, b, traces[:count])
                }
            names = [name for name in ranked if name not in alike][:most]
        return list(names)

    def equal(self, one: str, other: str, traces: range) -> bool:
        """Whether two candidates scored alike on every trace, as placements do where all accelerators are alike."""
        return all(self.found[one, number] == self.found[other, number] for number in traces)

    def standing(self, name: str, traces: range) -> tuple[int, float]:
        """On how many of the traces it ran, and how well: who stayed longest is best."""
        ran = [number for number in traces if (name, number) in self.found]
        return len(ran), self.mean(name, ran)

    def best(self, names: Sequence[str], numbers: Sequence[int], most: int) -> list[str]:
        """The best so many, greatest first; equal ones as they were named."""
        return sorted(dict.fromkeys(names), key=lambda name: -self.mean(name, numbers))[:most]


def rehearse(
    problem: Problem, options: EngineOptions, own: Own, aim: Aim = Aim(), budget: int = EVENTS
) -> Rehearsed:
    """The policy to run: one of ``own``, the favourite first, or a rule by name.

    Nothing is rehearsed, and the favourite chosen, where no traffic is stated.
    """
    favourite = next(iter(own))
    stated = problem.requests.stated
    if stated is None or not len(problem.requests) or budget <= 0:
        return Rehearsed(favourite)
    requests = replace(problem.requests, stated=stated.first(REQUESTS))
    race, rounds = Race(problem._replace(requests=requests), options, aim.worth, own), aim.rounds or _raced
    race.aim = aim
    place, who = _place(problem, options), _digest(own)
    if place is None or who is None:
        return rounds(race, budget)
    if place not in _RUNS:
        _RUNS.clear()
    race.runs = _RUNS.setdefault(place, {})
    key = f"{aim!r} {who} {budget} {place}"
    if key not in _KEPT:
        if len(_KEPT) >= KEPT:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = rounds(race, budget)
    return _KEPT[key]


_KEPT: dict[str, Rehearsed] = {}
_RUNS: dict[str, Runs] = {}  # at the last place


def _place(problem: Problem, options: EngineOptions) -> str | None:
    """Changes with all that a run depends on, but for the run's requests and seed; None = cannot be said."""
    jobs, graph = problem.jobs, problem.graph
    promises = [jobs.model_of, jobs.tenant_of, jobs.weight, jobs.slo_kind, jobs.slo_target, jobs.slo_window]
    truth = [*problem.costs[:6], *graph[:4], problem.type_of, problem.bandwidth_bytes_s, problem.contention]
    truth.append(problem.slowdowns)
    traffic = [problem.requests.stated, problem.requests.agreements]
    parts = [truth, promises, traffic, replace(options, seed=0, record="requests")]
    return _digest(parts)


def _digest(parts: object) -> str | None:
    try:
        return hashlib.sha256(pickle.dumps(parts)).hexdigest()
    except (pickle.PicklingError, AttributeError, TypeError):  # arrivals or a policy of one's own
        return None


def _raced(race: Race, budget: int) -> Rehearsed:
    """The rounds."""
    ticks = race.options.period_s is not None  # rules then queue all that waits: gates are not asked
    gates = GATES[:1] if ticks or CONTENTION[race.problem.contention].described_as is None else GATES
    places = PLACES if len(np.unique(race.problem.type_of)) > 1 else PLACES[:1]  # of one type: all alike
    plain = [Rule(*made) for made in itertools.product(STARTS.values(), gates, places)]
    rules = {rule.name: rule for rule in plain}
    race.mean(plain[0].name, [0])
    most = budget // race.events  # runs that fit
    if most < LEAST:
        return Rehearsed(next(iter(race.own)), events=race.events)
    race.hasten([plain[0].name, plain[-1].name])
    names = [*rules][:: max(1, 2 * len(rules) // most)]
    if not ticks and most > 2 * len(rules):
        gated = [f"{name}+g{gate:g}" for name in PUBLISHED for gate in PUBLISHED_GATES]
        names += [*PUBLISHED, *(gated if len(gates) > 1 else [])]
    top = race.halves(names, HALVES, range(SECOND))
    known = [rules[name] for name in top if name in rules] or plain[:1]
    tuned = tuned_from(race, _apart(known), range(SECOND), race.events + budget // 6)
    slow = [*race.own, *race.aim.beside]
    if race.aim.ahead and not ticks:
        slow += _planned(race, [rule.name for rule in _apart(known, most=1)[:2]], budget // 4)
        if race.events < budget // 2:
            slow += _planned(race, race.aim.over, budget // 4, **ALONE)
    hopes = race.mean(top[0], range(LOOKED)) - FAR
    likely = [name for name in slow if race.mean(name, range(LOOKED)) > hopes]
    finalists = list(dict.fromkeys((*likely, tuned.name, *top[:3])))
    fresh = range(SECOND, SECOND + LAST)
    last = race.halves(finalists, FINALS, fresh)
    rule = max((name for name in finalists if name not in slow), key=lambda name: race.standing(name, fresh))
    decisive = fresh if race.events < budget else fresh[: FINALS[-1][0]]
    scores = {name: race.mean(name, decisive) for name in dict.fromkeys((*last, rule))}
    return Rehearsed(max(scores, key=lambda name: scores[name]), scores, rule, race.events)


def _planned(race: Race, bases: Sequence[str], budget: int, **given: str) -> list[str]:
    """Lookahead over the best of these: each of SETTINGS stays where it is better; the best two, greatest first."""
    if not bases:
        return []
    seen, traces, most = (
        {ahead(base, **given): (base, given) for base in bases},
        range(LOOKED),
        race.events + budget,
    )
    best = race.best([*seen], traces, 1)[0]
    for change in SETTINGS:
        if race.events > most:
            break
        if "refuse" not in change or race.options.late != "drop":
            base, settings = seen[best]
            name = ahead(base, **(settings | change))
            seen[name] = base, settings | change
            if race.mean(name, traces) > race.mean(best, traces):
                best = name
    return race.best([*seen], traces, 2)


def _apart(rules: Sequence[Rule], most: int = 2) -> list[Rule]:
    """The first few of each order: a pool that differs."""
    return [rule for n, rule in enumerate(rules) if [r.weights for r in rules[:n]].count(rule.weights) < most]


def tuned_from(
    race: Race,
    starts: Sequence[At],
    numbers: Sequence[int],
    budget: int,
    far: float = FAR,
    steps: int = STEPS,
) -> At:
    """An evolution strategy: a child of one of the best rules takes the place of the worst of them, if it is better.

    Steps grow after a success and shrink after a failure. A child that is ``far`` behind on the first trace is not
    tried on the others.
    """
    rng, step = np.random.default_rng(0), 1.0
    pool = sorted(((race.mean(rule.name, numbers), rule) for rule in starts), key=lambda one: -one[0])
    for _ in range(steps):
        if race.events > budget:
            break
        child = pool[min(int(rng.geometric(0.5)), len(pool)) - 1][1].moved(rng, step)
        near = race.mean(child.name, numbers[:1]) > race.mean(pool[0][1].name, numbers[:1]) - far
        value = race.mean(child.name, numbers) if near else -math.inf
        step = min(2.0, 1.3 * step) if value > pool[0][0] else max(0.3, 0.97 * step)
        if value > pool[-1][0] and child not in [rule for _, rule in pool]:
            pool = sorted([*pool[:-1], (value, child)], key=lambda one: -one[0])
    return pool[0][1]
