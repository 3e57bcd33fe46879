"""Lookahead with the operator's objectives against tenant-aware rules: ``python -m benchmarks.lookahead_tenants``.

A hit rate is promised to every (tenant, network) pair. For each mix, load and objective the rival is the best of
the tenant-aware rules (gap_first, shift, triage, worst_first, deficit; placements and gates) on validation traces;
lookahead's base is the best of the rules that it can roll out, chosen there as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.lookahead import (
    FIRST_SEED,
    OPTIONS,
    PROMISES,
    RESULTS,
    bench_of,
    command_line,
    first,
    in_cells,
)
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.problem import SLI_KINDS, Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.bench import Bench
from eunomia.study.inference.tuning import validation_seeds

ENDINGS = [f"+f{place}{gate}" for place, gate in itertools.product(("", "+eft"), ("", "+g1", "+g0.8"))]
AWARE = [f"{rule}_{base}{ending}" for rule in ("gap_first", "shift", "triage", "worst_first")
         for base in ("edf", "sjf") for ending in ENDINGS]  # fmt: skip
AWARE += [f"deficit_{base}{ending}" for base in ("edf", "llf") for ending in ENDINGS]
BASES = [f"{order}{ending}" for order in ("edf", "sjf", "edf_bytes", "deficit_edf", "deficit_llf")
         for ending in ENDINGS]  # fmt: skip
MIXES = {  # tenants: (set of networks, least and greatest target)
    "light": (("moca-light", 0.6, 0.95),),
    "heavy": (("moca-heavy", 0.6, 0.95),),
    "mixed": (("moca-mixed", 0.6, 0.95),),
    "gold and bronze": (("moca-mixed", 0.9, 0.9), ("moca-mixed", 0.5, 0.5)),
}
LOADS = (1.0, 1.3)
VARIANTS = ("500 us", "500 us, charged", "500 us, hits")


@dataclass(frozen=True)
class Kept:
    """What one run keeps of its promises; all better when greater."""

    attainment: float  # share of the promised pairs at or above their target
    shortfall: float  # minus the mean of what the pairs miss
    max_min: float  # minus what the worst pair misses
    hits: float


OBJECTIVES = ("attainment", "shortfall", "max_min")


@dataclass(frozen=True)
class Contest:
    """One test trace under one objective."""

    mix: str
    load: float
    objective: str
    rival: str
    base: str
    kept: dict[str, Kept]  # by "rival", "base" and the variants


def promised(bench: Bench, mix: str, seed: int, requests: int) -> Problem:
    """The first requests of a trace; targets are drawn anew for every trace."""
    problem = build_problem(
        first(bench.requests(seed), requests), bench.machine.table, bench.machine, OPTIONS
    )
    jobs, rng = problem.jobs, np.random.default_rng([seed, 77])
    low, high = (np.array([tenant[i] for tenant in MIXES[mix]])[jobs.tenant_of] for i in (1, 2))
    pairs = len(jobs.model_of)
    jobs = jobs._replace(
        slo_kind=np.full(pairs, SLI_KINDS.index("hit_rate"), np.int64), slo_target=rng.uniform(low, high),
        slo_window=np.full(pairs, requests, np.int64),
    )  # fmt: skip
    return problem._replace(jobs=jobs)


def judge(problem: Problem, policy: str) -> Kept:
    """Run, and compare each pair's hit rate over the whole trace with its target."""
    hit = simulate_problem(problem, policy, OPTIONS).results["outcome"] == HIT
    count = np.bincount(problem.jobs.pair, minlength=len(problem.jobs.model_of))
    hits = np.bincount(problem.jobs.pair, hit, len(count))
    gap: npt.NDArray[np.float64] = (problem.jobs.slo_target - hits / np.maximum(1, count))[count > 0]
    missed = np.maximum(0.0, gap)
    return Kept(float((gap <= 1e-12).mean()), -float(missed.mean()), -float(missed.max()), float(hit.mean()))


def best(names: Sequence[str], problems: Sequence[Problem]) -> dict[str, str]:
    """The best rule on validation for each objective; hits decide between equals."""
    found = {name: [judge(problem, name) for problem in problems] for name in names}

    def mean(name: str, fact: str) -> float:
        return float(np.mean([getattr(kept, fact) for kept in found[name]]))

    return {
        objective: max(names, key=lambda name: (round(mean(name, objective), 12), mean(name, "hits")))
        for objective in OBJECTIVES
    }


def contests_of(mix: str, load: float, seeds: Sequence[int], requests: int, validation: int) -> list[Contest]:
    """Choose on validation traces, then meet the test traces."""
    bench = bench_of(load, {f"tenant{i}": models for i, (models, _, _) in enumerate(MIXES[mix])})
    chosen = [promised(bench, mix, seed, requests) for seed in validation_seeds(validation, *seeds)]
    rivals, bases = best(AWARE, chosen), best(BASES, chosen)
    contests = []
    for seed, objective in itertools.product(seeds, OBJECTIVES):
        base = bases[objective]
        policies = {
            "rival": rivals[objective],
            "base": base,
            "500 us": f"lookahead(base={base},objective={objective})",
            "500 us, charged": f"lookahead(base={base},objective={objective},charge=true)",
            "500 us, hits": f"lookahead(base={base})",
        }
        problem = promised(bench, mix, seed, requests)
        kept = {name: judge(problem, policy) for name, policy in policies.items()}
        contests.append(Contest(mix, load, objective, rivals[objective], base, kept))
    return contests


def gain(contests: Sequence[Contest], ours: str, fact: Callable[[Kept], float]) -> Estimate:
    """Points above the rival, paired by trace."""
    return interval([100.0 * (fact(c.kept[ours]) - fact(c.kept["rival"])) for c in contests])


def _fact(objective: str) -> Callable[[Kept], float]:
    return lambda kept: float(getattr(kept, objective))


def _count(contests: Sequence[Contest], ours: str, objective: str) -> str:
    cells: dict[Any, list[Contest]] = {}
    for c in contests:
        cells.setdefault((c.mix, c.load), []).append(c)
    gains = [gain(cell, ours, _fact(objective)) for cell in cells.values()]
    above = sum(g.excludes_zero and g.mean > 0.0 for g in gains)
    below = sum(g.excludes_zero and g.mean < 0.0 for g in gains)
    return f"{above} / {below} of {len(gains)}"


def section(contests: list[Contest]) -> list[str]:
    """Over all mixes, then per mix and load."""
    lines = [
        "| objective | rival: best tenant-aware rule | lookahead | gain in the objective, points | "
        "gain in hits, points | cells significantly above / below |",
        "|---|---|---|---|---|---|",
    ]
    for objective in OBJECTIVES:
        part = [c for c in contests if c.objective == objective]
        rival = 100.0 * np.mean([_fact(objective)(c.kept["rival"]) for c in part])
        for name in ("base", *VARIANTS):
            shown = {"base": "its base alone", "500 us, hits": "500 us, objective hits"}.get(name, name)
            lines.append(
                f"| {objective} | {rival:.1f} | {shown} | {gain(part, name, _fact(objective)):+.2f} | "
                f"{gain(part, name, _fact('hits')):+.2f} | {_count(part, name, objective)} |"
            )
    lines += ["", "| objective | mix | load | rival | rival's value | base | 500 us | 500 us, charged |",
              "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for objective, mix, load in itertools.product(OBJECTIVES, MIXES, LOADS):
        part = [c for c in contests if (c.objective, c.mix, c.load) == (objective, mix, load)]
        if part:
            fact = _fact(objective)
            value = 100.0 * np.mean([fact(c.kept["rival"]) for c in part])
            lines.append(
                f"| {objective} | {mix} | {load:g} | {part[0].rival} | {value:.1f} | {part[0].base} | "
                f"{gain(part, '500 us', fact):+.2f} | {gain(part, '500 us, charged', fact):+.2f} |"
            )
    return lines


def page(contests: list[Contest], seeds: int, requests: int, validation: int) -> str:
    """The second part of results/lookahead.md."""
    table = "\n".join(section(contests))
    return f"""{PROMISES}

Written by `python -m benchmarks.lookahead_tenants --write`. Same platform; a hit rate is promised to every (tenant,
network) pair: drawn for each trace from 0.6 to 0.95 for the light, heavy and mixed sets; two tenants that both
send the mixed set, promised 0.9 and 0.5, are gold and bronze. Rivals and bases are chosen for every mix, load and
objective on {validation} validation traces, among {len(AWARE)} tenant-aware rules (gap_first, shift, triage,
worst_first, deficit; placements and gates) and {len(BASES)} rules that lookahead can roll out. {seeds} test
traces of {requests} requests, seeds from {FIRST_SEED} on. Judged on the whole trace: attainment = share of the
pairs at or above their target; shortfall = minus the mean over the pairs of what they miss; max_min = minus what
the worst pair misses; all in percent and better when greater. Gains over the rival, 95 %, paired by trace.

{table}
"""


def main() -> None:
    """Command line."""
    arguments = command_line(__doc__)
    seeds, requests, validation = (2, 100, 1) if arguments.small else (6, 300, 3)
    fixed = (range(FIRST_SEED, FIRST_SEED + seeds), requests, validation)
    contests: list[Contest] = []
    for cell in in_cells(contests_of, itertools.product(MIXES, LOADS), fixed, arguments.processes):
        contests += cell
        print(cell[0].mix, cell[0].load, flush=True)
    text = page(contests, seeds, requests, validation)
    print(text)
    if arguments.write:
        RESULTS.write_text(f"{RESULTS.read_text().partition(PROMISES)[0].rstrip()}\n\n{text}")


if __name__ == "__main__":
    main()
