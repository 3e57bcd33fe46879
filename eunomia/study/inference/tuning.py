"""Choosing rules, settings and gates on validation traces, alike for every rival.

``choose`` runs every candidate on every validation problem and takes the best mean. Candidates are policy names
(docs/policies.md), settings and gate included: ``grid("herald", theta=(0.2, 0.5), gate=(math.inf, 0.9))``
writes them out. Validation traces have seeds of their own (``validation_seeds``), far from those of any test.

Does badly: the best of many candidates on few traces is flattered by chance; the score of a choice is
no estimate of what it will do on the test. With loads that differ much, choose per load.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.config import Scenario
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.settings import Setting, call_name
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.inference.run import engine_options

FIRST_VALIDATION_SEED = 2_000_000_000
GATES = (math.inf, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
HIT = 0  # schema of requests: outcome


@dataclass(frozen=True, eq=False)
class ValidationProblem:
    """One trace to choose on: requests that arrive in [from_s, until_s) count."""

    problem: Problem
    options: EngineOptions
    from_s: float = 0.0
    until_s: float = math.inf

    def counted(self, outcome: Outcome) -> npt.NDArray[np.bool_]:
        """(n,) which requests count."""
        arrival_s = outcome.results["arrival_s"]
        return (arrival_s >= self.from_s) & (arrival_s < self.until_s)


@dataclass(frozen=True)
class Choice:
    """The best candidate: its mean score over the problems, and every candidate's score on each of them."""

    name: str
    score: float
    scores: dict[str, tuple[float, ...]]  # candidate -> one score per problem; best = greatest

    def mean(self, name: str) -> float:
        """Mean score of a candidate."""
        return float(np.mean(self.scores[name]))


Objective = Callable[[ValidationProblem, Outcome], float]  # greatest is best


def choose(
    candidates: Sequence[PolicyLike],
    validation_problems: Sequence[ValidationProblem],
    objective: str | Objective = "hit_rate",
) -> Choice:
    """The candidate of greatest mean objective over the problems; ties go to the one named first.

    ``objective``: a name of ``OBJECTIVES`` or a function (problem, outcome) -> float. Raises ConfigError for
    no candidates or problems, or two candidates of one name, and what the candidates themselves raise.
    """
    if not candidates or not validation_problems:
        raise ConfigError(
            f"nothing to choose from: {len(candidates)} candidates, {len(validation_problems)} validation problems"
        )
    measure = objective_of(objective)
    scores: dict[str, tuple[float, ...]] = {}
    for candidate in candidates:
        name = policy_name(candidate)
        if name in scores:
            raise ConfigError(f"two candidates are called '{name}'; name each once")
        scores[name] = tuple(score(candidate, problem, measure) for problem in validation_problems)
    best = max(scores, key=lambda name: float(np.mean(scores[name])))
    return Choice(best, float(np.mean(scores[best])), scores)


def choose_each(
    families: Mapping[str, Sequence[PolicyLike]],
    validation_problems: Sequence[ValidationProblem],
    objective: str | Objective = "hit_rate",
) -> dict[str, Choice]:
    """``choose`` for every family (a rule with all its settings and gates) by itself."""
    return {family: choose(members, validation_problems, objective) for family, members in families.items()}


def score(
    candidate: PolicyLike, problem: ValidationProblem, objective: str | Objective = "hit_rate"
) -> float:
    """The objective of one candidate on one problem."""
    return objective_of(objective)(
        problem, simulate_problem(problem.problem, resolve_policy(candidate), problem.options)
    )


def grid(name: str, **settings: Iterable[Setting]) -> tuple[str, ...]:
    """Names of all combinations of settings, the first value of each first: ``grid("prema", gate=GATES)``.

    ``name`` may be of the grammar ``order[+f][+placement]``; then ``gate`` is the only setting.
    """
    if not settings.keys() <= {"gate"} and "+" in name:
        raise ConfigError(f"policy '{name}' takes no settings but a gate; put placement and +f into its name")
    combinations = itertools.product(*(tuple(values) for values in settings.values()))
    return tuple(call_name(name, dict(zip(settings, values, strict=True))) for values in combinations)


def validation_seeds(count: int, *taken: int) -> list[int]:
    """Seeds for validation; raises ConfigError when a test uses (``taken``) one of them."""
    seeds = list(range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + count))
    shared = sorted(set(seeds) & set(taken))
    if shared:
        raise ConfigError(
            f"seed {shared[0]} is for validation (from {FIRST_VALIDATION_SEED} on); test on others"
        )
    return seeds


def problems_of(scenario: Scenario, seeds: Sequence[int]) -> list[ValidationProblem]:
    """The scenario's traces of these seeds; its warm-up does not count."""
    bench = prepare(scenario)
    made = []
    for seed in seeds:
        options = engine_options(scenario, seed, "requests")
        problem = build_problem(bench.requests(seed), bench.machine.table, bench.machine, options)
        made.append(ValidationProblem(problem, options, scenario.warmup_s, scenario.duration_s))
    return made


def hit_rate(problem: ValidationProblem, outcome: Outcome) -> float:
    """Share of the requests that met their deadline."""
    return _rate(outcome.results["outcome"][problem.counted(outcome)] == HIT)


def worst_tenant(problem: ValidationProblem, outcome: Outcome) -> float:
    """Least hit rate of any tenant."""
    jobs, counted = problem.problem.jobs, problem.counted(outcome)
    hit, tenant = outcome.results["outcome"] == HIT, jobs.tenant_of[jobs.pair]
    return min(_rate(hit[counted & (tenant == t)]) for t in np.unique(tenant[counted]))


def attainment(problem: ValidationProblem, outcome: Outcome) -> float:
    """Share of the pairs with a hit-rate target that reach it over the whole trace."""
    gaps = _gaps(problem, outcome)
    return _rate(gaps <= 0.0)


def shortfall(problem: ValidationProblem, outcome: Outcome) -> float:
    """Minus the mean of max(0, target - hit rate) over the pairs with a hit-rate target."""
    return -float(np.maximum(_gaps(problem, outcome), 0.0).mean())


def max_min(problem: ValidationProblem, outcome: Outcome) -> float:
    """Minus the widest gap, target - hit rate, of any pair with a hit-rate target."""
    return -float(_gaps(problem, outcome).max())


def uxcost(problem: ValidationProblem, outcome: Outcome) -> float:
    """Minus UXCost (DREAM): sum over networks of miss rates times sum of their energies over the least possible."""
    jobs, counted, results = problem.problem.jobs, problem.counted(outcome), outcome.results
    costs, offset = problem.problem.costs, problem.problem.graph.offset
    able = np.where(np.isfinite(costs.latency_s), costs.energy_j, np.inf).min(axis=1)
    least_j, model = np.add.reduceat(able, offset[:-1]), jobs.model
    misses, energy = 0.0, 0.0
    for m in np.unique(model[counted]):
        mine = counted & (model == m)
        misses += 1.0 - _rate(results["outcome"][mine] == HIT)
        energy += float(results["energy_j"][mine].mean()) / float(least_j[m]) if least_j[m] > 0.0 else 1.0
    return -misses * energy


OBJECTIVES: dict[str, Objective] = {
    "hit_rate": hit_rate,
    "worst_tenant": worst_tenant,
    "attainment": attainment,
    "shortfall": shortfall,
    "max_min": max_min,
    "uxcost": uxcost,
}


def objective_of(objective: str | Objective) -> Objective:
    """An objective by name; functions pass through. Raises UnknownNameError."""
    if not isinstance(objective, str):
        return objective
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES)
    return OBJECTIVES[objective]


def _rate(met: npt.NDArray[np.bool_]) -> float:
    return float(np.mean(met)) if len(met) else math.nan


def _gaps(problem: ValidationProblem, outcome: Outcome) -> npt.NDArray[np.float64]:
    """Target less hit rate of every pair that has a hit-rate target and requests. Raises ConfigError for none."""
    jobs, counted = problem.problem.jobs, problem.counted(outcome)
    hit = outcome.results["outcome"] == HIT
    pairs = [p for p in np.unique(jobs.pair[counted]) if jobs.slo_kind[p] == 0]
    if not pairs:
        raise ConfigError("this objective needs tenants with hit-rate targets; none has one")
    return np.array([jobs.slo_target[p] - _rate(hit[counted & (jobs.pair == p)]) for p in pairs])
