"""The operator's objective as one number per episode, more is better.

    hit_rate    hits / measured requests
    attainment  share of promised pairs that are at or above their target over the episode, 1 without promises
    near_attainment  the same with a ramp instead of a step: 1 at NEAR above the target, 0 at NEAR below
    shortfall   - mean over promised pairs of max(0, target - indicator)
    max_min     - largest shortfall of a promised pair, plus nothing else: 0 when all are served
    fairness    - standard deviation over tenants of their hit rates
    slowdown    - mean response / isolated best time of measured requests; a dropped one counts 0: use late = "last"

An objective is a mixture ``{name: weight}``; ``PROMISED`` has one for each promise, as attainment alone moves in steps
of one pair. A promised latency or throughput counts by its relative shortfall, at most WORST.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from eunomia.contract.objectives import OBJECTIVES as CATALOGUE
from eunomia.contract.objectives import TENANT
from eunomia.core.arrays import Floats, Ints, Records
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.kernel.layout import DROPPED, HIT
from eunomia.inference.outcome import Outcome
from eunomia.inference.problem import Jobs, Problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode, Sampler, Task
from eunomia.metrics.indicators import TOLERANCE, sli
from eunomia.workload.tenant import SLI_KINDS, Slo

WORST = 1.0  # a latency of twice its target, and all that is slower
NEAR = 0.1  # of a hit rate
Objective = Callable[[Records, Episode], float]


def hit_rate(results: Records, episode: Episode) -> float:
    """Hits over measured requests."""
    rows = _measured(results, episode)
    return float((results["outcome"][rows] == HIT).mean()) if len(rows) else 0.0


def gaps(results: Records, episode: Episode) -> Floats:
    """Signed gap of every promised pair that had requests, over the whole episode, at most WORST.

    As metrics/indicators.py judges a run: a latency of which nothing finished misses by WORST; a throughput is kept
    where fewer requests arrived than it asks for, and the episode ends with its last arrival or departure.
    """
    rows, jobs = _measured(results, episode), episode.problem.jobs
    pair, length_s = jobs.pair[rows], _measured_s(results, episode)
    count = np.bincount(pair, minlength=len(jobs.model_of))
    found = []
    for p in np.flatnonzero((jobs.slo_kind >= 0) & (count > 0)):
        slo, mine, departed = promised(jobs, int(p)), results[rows[pair == p]], 0
        if slo.kind == "throughput":
            left = (results["outcome"] < DROPPED) & (results["finish_s"] >= episode.warmup_s)
            departed = int((left & (jobs.pair == p)).sum())
        value = sli(slo, mine["outcome"], mine["finish_s"] - mine["arrival_s"], departed, length_s)
        if slo.kind == "throughput" and (len(mine) < slo.target * length_s or math.isnan(value)):
            found.append(0.0)
        else:
            found.append(WORST if math.isnan(value) else min(slo.gap(value), WORST))
    return np.array(found)


def _measured_s(results: Records, episode: Episode) -> float:
    """Seconds from the end of the warm-up to the last arrival or departure."""
    times_s = np.concatenate([results["arrival_s"], results["finish_s"]])
    return float(np.nanmax(times_s, initial=0.0, where=np.isfinite(times_s))) - episode.warmup_s


def promised(jobs: Jobs, pair: int) -> Slo:
    """What a pair is promised in an episode, drawn targets included."""
    return Slo(
        float(jobs.slo_target[pair]), SLI_KINDS[jobs.slo_kind[pair]], float(jobs.slo_percentile[pair]),
        int(jobs.slo_window[pair]), float(jobs.slo_window_s[pair]),
    )  # fmt: skip


def _of_gaps(worth: Callable[[Floats], np.floating], without: float) -> Objective:
    """An objective of the gaps of promised pairs; ``without``: its value where nothing is promised."""

    def objective(results: Records, episode: Episode) -> float:
        gap = gaps(results, episode)
        return float(worth(gap)) if len(gap) else without

    return objective


attainment = _of_gaps(lambda gap: (gap <= TOLERANCE).mean(), 1.0)
near_attainment = _of_gaps(lambda gap: np.clip(0.5 - gap / (2.0 * NEAR), 0.0, 1.0).mean(), 1.0)
shortfall = _of_gaps(lambda gap: -np.maximum(gap, 0.0).mean(), 0.0)
max_min = _of_gaps(lambda gap: -np.maximum(gap, 0.0).max(), 0.0)


def fairness(results: Records, episode: Episode) -> float:
    """Minus the standard deviation over tenants of their hit rates."""
    rows, jobs = _measured(results, episode), episode.problem.jobs
    tenant = jobs.tenant_of[jobs.pair[rows]]
    count = np.bincount(tenant)
    hits = np.bincount(tenant, weights=results["outcome"][rows] == HIT)
    return -float((hits[count > 0] / count[count > 0]).std()) if len(rows) else 0.0


def slowdown(results: Records, episode: Episode) -> float:
    """Minus the mean of response over isolated time; unfinished requests count 0."""
    rows, problem = _measured(results, episode), episode.problem
    done = rows[results["outcome"][rows] < DROPPED]
    iso_s = problem.graph.iso_best_s[problem.jobs.model[done]]
    ratio = (results["finish_s"][done] - results["arrival_s"][done]) / iso_s
    return -float(ratio.sum()) / max(len(rows), 1)


OBJECTIVES: dict[str, Objective] = {
    "hit_rate": hit_rate, "attainment": attainment, "shortfall": shortfall, "max_min": max_min,
    "fairness": fairness, "near_attainment": near_attainment, "slowdown": slowdown,
}  # fmt: skip

# What a search climbs for each promise. The promise itself decides what becomes of the outcome.
PROMISED = {name: dict(CATALOGUE[name].climbed) for name in TENANT}


def measured(name: str, problem: Problem, outcome: Outcome) -> float:
    """An objective of a run."""
    return OBJECTIVES[name](outcome.results, Episode(problem, outcome.options))


def check_objective(mixture: Mapping[str, float]) -> None:
    """Raises UnknownNameError or ConfigError for an objective that cannot be computed."""
    if not mixture or not all(np.isfinite(weight) for weight in mixture.values()):
        raise ConfigError(f"objective {dict(mixture)} must weigh at least one of: {', '.join(OBJECTIVES)}")
    for name in mixture:
        if name not in OBJECTIVES:
            raise UnknownNameError("objective", name, OBJECTIVES)


def task_of(sampler: Sampler, objective: Mapping[str, float]) -> Task:
    """Episodes of ``sampler``, valued by a mixture of objectives. Raises UnknownNameError or ConfigError."""
    check_objective(objective)
    return Task(sampler, partial(value, mixture=dict(objective)))


def value(policy: Any, episode: Episode, mixture: Mapping[str, float]) -> float:
    """One run, and the weighted sum of objectives."""
    results = simulate_problem(episode.problem, policy, episode.options).results
    return float(sum(weight * OBJECTIVES[name](results, episode) for name, weight in mixture.items()))


def _measured(results: Records, episode: Episode) -> Ints:
    return np.flatnonzero(results["arrival_s"] >= episode.warmup_s)
