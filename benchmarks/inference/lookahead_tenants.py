"""Lookahead with the operator's objectives against tenant-aware rules.

A hit rate is promised to every (tenant, network) pair. For each mix, load and objective the rival is the best of
the tenant-aware rules (gap_first, shift, triage, worst_first, deficit; placements and gates) on validation traces;
lookahead's base is the best of the rules that it can roll out, chosen there as well. Values are better when greater:
attainment is the share of the promised pairs at or above their target, shortfall minus the mean of what the pairs
miss, max_min minus what the worst pair misses. The quick run takes one mix, one load and one short trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.inference.lookahead import FIRST_SEED, OPTIONS, bench_of, problem_of
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.problem import SLI_KINDS, Problem
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.bench import Bench
from eunomia.study.inference.tuning import validation_seeds

ENDINGS = [f"+f{place}{gate}" for place in ("", "+eft") for gate in ("", "+g1", "+g0.8")]
ORDERS = [
    f"{rule}_{base}" for rule in ("gap_first", "shift", "triage", "worst_first") for base in ("edf", "sjf")
]
AWARE = [f"{order}{ending}" for order in (*ORDERS, "deficit_edf", "deficit_llf") for ending in ENDINGS]
ROLLED = ("edf", "sjf", "edf_bytes", "deficit_edf", "deficit_llf")
BASES = [f"{order}{ending}" for order in ROLLED for ending in ENDINGS]
MIXES = {  # tenants: (set of networks, least and greatest target)
    "light": (("moca-light", 0.6, 0.95),),
    "heavy": (("moca-heavy", 0.6, 0.95),),
    "mixed": (("moca-mixed", 0.6, 0.95),),
    "gold and bronze": (("moca-mixed", 0.9, 0.9), ("moca-mixed", 0.5, 0.5)),
}
LOADS = (1.0, 1.3)
OBJECTIVES = ("attainment", "shortfall", "max_min")
LABELS = {"base": "its base alone", "500 us": "500 us", "500 us, charged": "500 us, charged"}
LABELS["500 us, hits"] = "500 us, objective hits"
Size = tuple[int, int, int]  # seeds, requests, validation traces
FULL, QUICK = (6, 300, 3), (1, 60, 1)
Kept = dict[str, float]  # what one run keeps of its promises, and hits
Contest = Mapping[str, Any]  # what ``contests_of`` says of a test trace under an objective


def promised(bench: Bench, mix: str, seed: int, requests: int) -> Problem:
    """The first requests of a trace; targets are drawn anew for every trace."""
    problem = problem_of(bench, seed, requests)
    jobs, rng = problem.jobs, np.random.default_rng([seed, 77])
    low, high = (np.array([tenant[i] for tenant in MIXES[mix]])[jobs.tenant_of] for i in (1, 2))
    pairs = len(jobs.model_of)
    kind, window = np.full(pairs, SLI_KINDS.index("hit_rate"), np.int64), np.full(pairs, requests, np.int64)
    return problem._replace(
        jobs=jobs._replace(slo_kind=kind, slo_target=rng.uniform(low, high), slo_window=window)
    )


def judge(problem: Problem, policy: str) -> Kept:
    """Run, and compare each pair's hit rate over the whole trace with its target."""
    hit = simulate_problem(problem, policy, OPTIONS).results["outcome"] == HIT
    count = np.bincount(problem.jobs.pair, minlength=len(problem.jobs.model_of))
    reached = np.bincount(problem.jobs.pair, hit, len(count))
    gap = (problem.jobs.slo_target - reached / np.maximum(1, count))[count > 0]
    missed = np.maximum(0.0, gap)
    worst = {"shortfall": -float(missed.mean()), "max_min": -float(missed.max())}
    return {"attainment": float((gap <= 1e-12).mean()), **worst, "hits": float(hit.mean())}


def best(names: Sequence[str], problems: Sequence[Problem]) -> dict[str, str]:
    """The best rule on validation for each objective; hits decide between equals."""
    found = {name: [judge(problem, name) for problem in problems] for name in names}

    def mean(name: str, fact: str) -> float:
        return float(np.mean([kept[fact] for kept in found[name]]))

    return {
        o: max(names, key=lambda name: (round(mean(name, o), 12), mean(name, "hits"))) for o in OBJECTIVES
    }


def contests_of(task: tuple[str, float, Size]) -> Result:
    """Choose on validation traces, then meet the test traces."""
    mix, load, (count, requests, validation) = task
    bench = bench_of(load, {f"tenant{i}": models for i, (models, _, _) in enumerate(MIXES[mix])})
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    chosen = [promised(bench, mix, seed, requests) for seed in validation_seeds(validation, *seeds)]
    rivals, bases = best(AWARE, chosen), best(BASES, chosen)
    contests = []
    for seed, objective in itertools.product(seeds, OBJECTIVES):
        rival, base, problem = rivals[objective], bases[objective], promised(bench, mix, seed, requests)
        policies = {"rival": rival, "base": base, "500 us": f"lookahead(base={base},objective={objective})"}
        policies["500 us, charged"] = f"lookahead(base={base},objective={objective},charge=true)"
        policies["500 us, hits"] = f"lookahead(base={base})"
        kept = {name: judge(problem, policy) for name, policy in policies.items()}
        where = {"mix": mix, "load": load, "objective": objective}
        contests.append({**where, "rival": rival, "base": base, "kept": kept})
    return {"contests": contests}


def gain(contests: Sequence[Contest], ours: str, fact: str) -> Estimate:
    """Points above the rival, paired by trace."""
    return interval([100.0 * (c["kept"][ours][fact] - c["kept"]["rival"][fact]) for c in contests])


def cells_of(contests: Sequence[Contest]) -> dict[tuple[str, float], list[Contest]]:
    """By mix and load."""
    found: dict[tuple[str, float], list[Contest]] = {}
    for one in contests:
        found.setdefault((one["mix"], one["load"]), []).append(one)
    return found


def overall(contests: Sequence[Contest]) -> Iterator[list[Cell]]:
    """A line per objective and variant."""
    for objective in OBJECTIVES:
        part = [c for c in contests if c["objective"] == objective]
        rival = float(np.mean([c["kept"]["rival"][objective] for c in part]))
        for name, label in LABELS.items():
            gains = [gain(cell, name, objective) for cell in cells_of(part).values()]
            above, below = (sum(g.excludes_zero and g.mean * sign > 0.0 for g in gains) for sign in (1, -1))
            both = gain(part, name, objective), gain(part, name, "hits")
            yield [objective, rival, label, *both, f"{above} / {below} of {len(gains)}"]


def by_cell(contests: Sequence[Contest]) -> Iterator[list[Cell]]:
    """A line per objective, mix and load."""
    for objective in OBJECTIVES:
        for key, cell in cells_of([c for c in contests if c["objective"] == objective]).items():
            value = float(np.mean([c["kept"]["rival"][objective] for c in cell]))
            gains = [gain(cell, name, objective) for name in ("500 us", "500 us, charged")]
            yield [objective, *key, cell[0]["rival"], value, cell[0]["base"], *gains]


def measure(options: Options) -> Iterator[Table]:
    """Over all mixes, then per mix and load."""
    cells = (
        [("light", 1.3, QUICK)] if options.quick else [(*c, FULL) for c in itertools.product(MIXES, LOADS)]
    )
    found = kept_all("lookahead-tenants", contests_of, cells, options.workers)
    contests = [one for cell in found for one in cell["contests"]]
    columns = (
        "objective; rival: best tenant-aware rule|.1p; lookahead; gain in the objective, points|+.2f; "
        "gain in hits, points|+.2f; cells significantly above / below"
    )
    yield table("overall", columns, overall(contests))
    columns = "objective; mix; load|g; rival; rival's value|.1p; base; 500 us|+.2f; 500 us, charged|+.2f"
    yield table("cells", columns, by_cell(contests))
