"""How much of the gap to the best clairvoyant schedule does lookahead close?

Light, heavy and mixed sets at loads from 0.85 to 1.3. The rule to beat is chosen on validation traces, for every
set and load by itself, among orders x placements x gates, all +f. The clairvoyant schedule is the best found by
search on the test trace itself. The quick run takes one set, one load and one short trace.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.inference.contest import best, contest, lanes, limits, scenario, tenant, validation
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.contract.constants import give_constants
from eunomia.contract.view import Assign, View
from eunomia.engines.processes import Result
from eunomia.inference.lookahead.companion import Companion
from eunomia.inference.lookahead.policy import Lookahead
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import Estimate, Floats, interval
from eunomia.study.inference.bench import prepare

GATES = ("", "+g1", "+g0.9", "+g0.75", "+g0.6")
SETS, LOADS = ("moca-light", "moca-heavy", "moca-mixed"), (0.85, 1.0, 1.15, 1.3)
ENDS = [place + gate for place in ("", "+eft", "+eft_ca", "+pref") for gate in GATES]
RULES = tuple(f"{order}+f{end}" for order in ("edf", "edf_bytes", "llf", "sjf") for end in ENDS)
OPTIONS = EngineOptions(late="drop", record="requests")
FIRST_SEED = 5000  # of the tests: settings and designs were tried out on others, 0 to 14 and 100 to 109
VARIANTS = {  # what is shown -> settings beside the base
    "no limit": "budget_us=0",
    "500 us": "budget_us=500",
    "200 us": "budget_us=200",
    "100 us": "budget_us=100",
    "500 us, rules alone": "budget_us=500,singles=false",
    "500 us, price 0": "budget_us=500,price=0",
    "500 us, charged": "budget_us=500,charge=true",
    "100 us, charged": "budget_us=100,charge=true",
    "500 us, charged, no rules": "budget_us=500,charge=true,portfolio=none",
    "500 us, charged, half as fast": "budget_us=500,charge=true,ends_per_us=4",
    "500 us, charged, twice as fast": "budget_us=500,charge=true,ends_per_us=16",
}
SHOWN = ("no limit", "500 us", "100 us", "500 us, charged")
Size = tuple[int, int, int, int]  # seeds, validation traces, requests, evaluations of the search
FULL, QUICK = (5, 3, 250, 500), (1, 1, 100, 20)


class Timed:
    """A lookahead asked step by step: processor time of each answer that made a plan."""

    def __init__(self, policy: Lookahead) -> None:
        self.policy, self.rules, self.parameters = policy, policy.rules, policy.parameters
        self.plan_us: list[float] = []

    def attach(self, engine: Engine) -> Companion:
        """Keep the counters in sight."""
        self.companion = self.policy.attach(engine)
        return self.companion

    def __call__(self, view: View) -> list[Assign]:
        """Answer, and note what the plan took, if one was made."""
        before, began = self.companion.count("deliberations"), time.thread_time()
        answer = self.policy(view)
        if self.companion.count("deliberations") > before:
            self.plan_us.append(1e6 * (time.thread_time() - began))
        return answer


def run_time(problem: Problem, policy: Lookahead, planning: bool) -> tuple[float, Companion | None]:
    """Least processor time of three compiled runs, with its planning or without."""
    least, companion = np.inf, None
    for _ in range(3):
        engine = Engine(problem, policy.rules, OPTIONS, None, policy.decide)
        give_constants(policy, engine.state["system"])
        engine.companion = companion = policy.attach(engine) if planning else None
        began = time.process_time()
        engine.advance()
        least = min(least, time.process_time() - began)
    return least, companion


def planning_time(problem: Problem, policy: Lookahead) -> tuple[float, float, float]:
    """(time that the model charges for all plans, processor time that they took, length of the trace) [s]."""
    with_s, companion = run_time(problem, policy, True)
    without_s, _ = run_time(problem, policy, False)
    assert companion is not None
    ends_s = companion.count("layer_ends") * policy.settings.unit_s
    charged_s = companion.count("deliberations") * policy.settings.snapshot_s + ends_s
    return charged_s, with_s - without_s, float(problem.jobs.arrival_s[-1])


def problem_of(tenants: Mapping[str, str], load: float, seed: int, requests: int) -> Problem:
    """The first requests of a trace: 4 Simba-like and 4 Eyeriss-like accelerators behind 36 GB/s.

    ``tenants``: name -> set of networks; all send at equal rates, with deadlines of 2.5 isolated times.
    """
    level = {"deadline": "qos_m", "deadline_alpha": 2.5}
    made = [tenant(name, 500.0, model_set=models, **level) for name, models in tenants.items()]
    bench = prepare(scenario("lookahead", made, lanes(4, 36.0), load))
    asked = bench.requests(seed).first(requests)
    return build_problem(asked, bench.machine.table, bench.machine, OPTIONS)


@dataclass(frozen=True)
class Place:
    """One set of networks at one load, with what becomes of hopeless requests."""

    workload: str
    load: float
    requests: int
    late: str = "drop"

    def episode(self, seed: int) -> Episode:
        """One trace."""
        problem = problem_of({"all": self.workload}, self.load, seed, self.requests)
        return Episode(problem, replace(OPTIONS, late=self.late))


@dataclass(frozen=True, eq=False)
class Line:
    """Hit rates at one place, (traces,) each; ``ours`` and the times of plans by variant."""

    place: Place
    rule: str
    alone: Floats
    ours: Mapping[str, Floats]
    found: Floats  # by the search, or by any policy here that pays nothing for its plans where that is better
    bound: Floats
    times: Mapping[str, Any]

    def gain(self, variant: str) -> Floats:
        """Above the rule, trace by trace."""
        return np.asarray(self.ours[variant] - self.alone)


def timed(task: tuple[Place, str]) -> Result:
    """Processor time of each plan of every variant on the first test trace, and of all its plans together."""
    place, rule = task
    load_policy("lookahead").decide  # noqa: B018  compiled before any clock runs
    problem, plan_us, planning_s = place.episode(FIRST_SEED).problem, {}, {}
    for name, settings in VARIANTS.items():
        policy = load_policy(f"lookahead(base={rule},{settings})")
        asked = Timed(policy)
        simulate_problem(problem, asked, OPTIONS, stepped=True)
        plan_us[name], planning_s[name] = asked.plan_us, planning_time(problem, policy)
    return {"plan_us": plan_us, "planning_s": planning_s}


def lines_of(places: Sequence[Place], size: Size, workers: int) -> Iterator[Line]:
    """Choose the rule of every place on validation traces, then meet the test traces."""
    seeds, validations, _, evaluations = size
    tests = range(FIRST_SEED, FIRST_SEED + seeds)
    tried, _ = contest("lookahead", places, validation(validations), RULES, workers=workers)
    rules = {place: best([tried[place]], RULES) for place in places}
    variants = [f"lookahead(base={{}},{settings})" for settings in VARIANTS.values()]
    names = {p: [rule, *(variant.format(rule) for variant in variants)] for p, rule in rules.items()}
    played, _ = contest("lookahead", places, tests, names, workers=workers)
    ends = limits("lookahead", places, tests, evaluations, workers)
    times = kept_all("lookahead-times", timed, list(rules.items()), workers)
    for place, took in zip(places, times, strict=True):
        alone, *each = (played[place][name][:, 0] for name in names[place])
        ours = dict(zip(VARIANTS, each, strict=True))
        free = [rates for name, rates in ours.items() if "charged" not in name]
        found = np.max([ends[place]["found"], alone, *free], axis=0)
        yield Line(place, rules[place], alone, ours, found, ends[place]["bound"], took)


def points(gains: Sequence[Floats]) -> Estimate:
    """Mean over all traces, in points."""
    return interval(100.0 * np.concatenate(gains))


def closed(lines: Sequence[Line], variant: str, end: str = "found") -> float:
    """Share of the gap between the rule and the best schedule found (or the bound), both summed over the traces."""
    gap = sum(float((getattr(line, end) - line.alone).sum()) for line in lines)
    gained = sum(float(line.gain(variant).sum()) for line in lines)
    return gained / gap if gap > 0.0 else 0.0


def overall(lines: Sequence[Line]) -> Iterator[list[Cell]]:
    """One row per variant."""
    for name in VARIANTS:
        took_us = np.concatenate([line.times["plan_us"][name] for line in lines])
        charged, took, length = np.sum([line.times["planning_s"][name] for line in lines], axis=0).tolist()
        gains = [points([line.gain(name)]) for line in lines]
        below = sum(gain.excludes_zero and gain.mean < 0.0 for gain in gains)
        row: list[Cell] = [name, points([line.gain(name) for line in lines])]
        row += [closed(lines, name), closed(lines, name, "bound"), f"{below} of {len(lines)}"]
        yield [*row, *np.percentile(took_us, [50, 99]).tolist(), took / charged, charged / length]


def by_place(line: Line) -> list[Cell]:
    """One row per set and load."""
    where: list[Cell] = [line.place.workload, line.place.load, line.rule]
    means = [float(rates.mean()) for rates in (line.alone, line.found, line.bound)]
    return [*where, *means, *(points([line.gain(name)]) for name in SHOWN), closed([line], "500 us")]


def measure(options: Options) -> Iterator[Table]:
    """Over all sets and loads, and for each."""
    size = QUICK if options.quick else FULL
    places = [Place(*cell, size[2]) for cell in itertools.product(SETS, LOADS)]
    lines = list(lines_of(places[3:4] if options.quick else places, size, options.workers))
    columns = (
        "lookahead; gain over the rule, points|+.2f; share of the gap closed|.0%; of the gap to the bound|.0%; "
        "cells significantly below the rule; plan p50, us|.0f; plan p99, us|.0f; measured / charged|.2f; "
        "planner at work|.0%"
    )
    yield table("overall", columns, overall(lines))
    gains = "".join(f"; {name}: gain, points|+.2f" for name in SHOWN)
    columns = f"set; load|g; rule chosen on validation; rule %|.1p; best found %|.1p; bound %|.1p{gains}"
    yield table("cells", f"{columns}; 500 us: closed|.0%", map(by_place, lines))
