"""The pieces of work of a study. Each is a plain value with a ``run``, so that any process can do it, once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from eunomia.config.study import WorkloadConfig
from eunomia.core.data import Data
from eunomia.inference.clairvoyant import SearchOptions
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate, simulate_problem
from eunomia.metrics.bounds import BoundOptions
from eunomia.metrics.run import Facts
from eunomia.metrics.service import tenant_rates
from eunomia.metrics.summary import summarise
from eunomia.metrics.window import measured
from eunomia.study.grid.traces import (
    Ground,
    Trace,
    Traffic,
    draw_requests,
    draw_trace,
    engine_options,
    ground,
)
from eunomia.study.inference.bracket import bracket
from eunomia.study.inference.capacity import measure_capacity
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.inference.tuning import ValidationProblem, choose, score, validation_seeds
from eunomia.study.run import blame
from eunomia.workload.deadlines import Level, calibrate_alpha

KEPT = (
    "requests", "censored", "hit_rate", "drop_rate", "worst_tenant", "jain_hit_rate", "tenant_spread",
    "slo_attainment", "slo_shortfall", "energy_per_request_j", "energy_per_hit_j", "antt", "response_p99_s",
    "queueing_share", "contention_share", "utilisation", "utilisation_effective",
)  # fmt: skip
PILOT_PER_S = 8000.0  # rate of the draws on which capacity is measured; any would do
CALIBRATION_SEED = 2_500_000_000
BRACKET_SEED = 3_500_000_000
ALPHAS = (1.0, 100.0)
ALPHA_STEPS = 14


@dataclass(frozen=True)
class Spot:
    """A place with all that was measured for it. ``draws`` numbers the cost table of each seed; None = one for all."""

    workload: str
    qos: Level
    load: float
    settings: Data
    alpha: float
    capacity_per_s: tuple[float, ...]  # one per cost table

    def ground(self, index: int) -> Ground:
        """Machine and costs of one replication."""
        return ground(self.workload, self.settings, self._table(index) if self.perturbed else None)

    @property
    def perturbed(self) -> bool:
        """Whether every replication has a cost table of its own."""
        return float(self.settings["costs"]["perturbation"]) > 0.0

    def _table(self, index: int) -> int:
        return index % len(self.capacity_per_s)

    def trace(self, index: int, seed: int, requests: int, warmup: int, margin: float = 0.0) -> Trace:
        """Requests of one replication at this load."""
        workload = WorkloadConfig.model_validate(self.settings["workload"])
        rate_per_s = self.load * self.capacity_per_s[self._table(index)]
        traffic = Traffic(workload, rate_per_s, self.qos, self.alpha)
        return draw_trace(self.ground(index), traffic, requests, warmup, seed, margin)

    def problem(self, index: int, seed: int, requests: int, warmup: int) -> ValidationProblem:
        """The same as a problem that candidates can be tried on."""
        on, trace = self.ground(index), self.trace(index, seed, requests, warmup)
        options = engine_options(self.settings, on, seed, trace.until_s)
        problem = build_problem(trace.requests, on.machine.table, on.machine, options)
        return ValidationProblem(problem, options, trace.from_s, trace.until_s)


@dataclass(frozen=True)
class CapacityTask:
    """What a platform carries of a workload set, and the set's mean layer time."""

    workload: str
    settings: Data
    draw: int | None

    def run(self) -> Data:
        """Requests per second at saturation, mean and interval."""
        on = ground(self.workload, self.settings, self.draw)
        workload = WorkloadConfig.model_validate(self.settings["workload"])
        steady = workload.model_copy(update={"process": "poisson"})
        capacity = measure_capacity(
            lambda seed, factor: draw_requests(
                on, Traffic(steady, PILOT_PER_S * factor, "m", 1.0), 1.0, seed
            ),
            1.0,
            on.machine,
        )
        return {**asdict(capacity.per_s), "layer_s": on.layer_s, "iso_s": on.iso_best_s,
                "bandwidth_gb_s": on.machine.dram_bytes_s / 1e9}  # fmt: skip


@dataclass(frozen=True)
class AlphaTask:
    """The alpha of a workload set: deadlines such that a reference policy reaches a given hit rate at QoS-M."""

    workload: str
    settings: Data
    capacity_per_s: float
    policy: str
    load: float
    hit_rate: float
    requests: int

    def run(self) -> Data:
        """Bisection; the same requests for every alpha but for their deadlines."""

        def reached(alpha: float) -> float:
            spot = Spot(self.workload, "m", self.load, self.settings, alpha, (self.capacity_per_s,))
            problem = spot.problem(0, CALIBRATION_SEED, self.requests, self.requests // 10)
            return score(self.policy, problem)

        alpha = calibrate_alpha(reached, self.hit_rate, *ALPHAS, steps=ALPHA_STEPS)
        return {"alpha": alpha, "hit_rate": reached(alpha)}


@dataclass(frozen=True)
class ChoiceTask:
    """A rival's candidates on validation traces of one spot."""

    spot: Spot
    members: tuple[str, ...]
    traces: int
    requests: int
    objective: str
    test_seeds: tuple[int, ...]

    def run(self) -> Data:
        """The best mean, and all means."""
        seeds = validation_seeds(self.traces, *self.test_seeds)
        problems = [
            self.spot.problem(i, seed, self.requests, self.requests // 10) for i, seed in enumerate(seeds)
        ]
        chosen = choose(self.members, problems, self.objective)
        return {"name": chosen.name, "score": chosen.score,
                "scores": {name: chosen.mean(name) for name in chosen.scores}}  # fmt: skip


@dataclass(frozen=True)
class RunTask:
    """One policy at one spot: every replication, and the windows of the bracket where there is one."""

    spot: Spot
    policy: str
    seeds: tuple[int, ...]
    requests: int
    warmup: int
    margin: float
    windows: int  # 0 = no bracket here
    window_requests: int

    def run(self) -> Data:
        """Metrics and tenants' hit rates per seed, hits per window."""
        with blame(self.policy):
            runs = [self._replication(index, seed) for index, seed in enumerate(self.seeds)]
            hits = [self._window(index) for index in range(self.windows)]
        return {"runs": runs, "hits": hits}

    def _replication(self, index: int, seed: int) -> Data:
        on = self.spot.ground(index)
        trace = self.spot.trace(index, seed, self.requests, self.warmup, self.margin)
        options = engine_options(self.spot.settings, on, seed, trace.until_s)
        result = simulate(trace.requests, on.machine.table, on.machine, resolve_policy(self.policy), options)
        facts = Facts(bandwidth_bytes_s=on.machine.dram_bytes_s)
        agreements = trace.requests.agreements
        metrics = summarise(result.tables, agreements, trace.from_s, trace.until_s, facts)
        tenants = tenant_rates(measured(result.tables, trace.from_s, trace.until_s).requests)
        values = {name: metrics[name] for name in KEPT}
        values["saturated_share"] = result.saturated_s / result.end_s if result.end_s > 0.0 else math.nan
        values["decisions_per_request"] = result.decisions / len(trace.requests)
        return {"metrics": {name: _plain(value) for name, value in values.items()}, "tenants": tenants}

    def _window(self, index: int) -> int:
        problem = self.spot.problem(index, BRACKET_SEED + index, self.window_requests, 0)
        outcome = simulate_problem(problem.problem, resolve_policy(self.policy), problem.options)
        return int((outcome.results["outcome"] == 0).sum())


@dataclass(frozen=True)
class BracketTask:
    """The best schedule found and the bound, on each window of a spot."""

    spot: Spot
    windows: int
    requests: int
    evaluations: int
    intervals: int
    segments: int

    def run(self) -> Data:
        """Hits found, bound and number of requests of each window."""
        rows = [self._window(index) for index in range(self.windows)]
        return {
            name: [row[name] for row in rows] for name in ("found", "bound", "total", "rule", "rule_hits")
        }

    def _window(self, index: int) -> Data:
        on, seed = self.spot.ground(index), BRACKET_SEED + index
        trace = self.spot.trace(index, seed, self.requests, 0)
        options = engine_options(self.spot.settings, on, seed, trace.until_s)
        both = bracket(
            trace.requests, on.machine.table, on.machine, options,
            SearchOptions(self.evaluations), BoundOptions(intervals=self.intervals, segments=self.segments),
        )  # fmt: skip
        found = both.found
        return {"found": found.hits, "bound": both.bound.value, "total": len(trace.requests),
                "rule": found.rule, "rule_hits": found.rule_hits}  # fmt: skip


@dataclass(frozen=True)
class TimingTask:
    """How long a policy takes to decide: wall time, so it differs from run to run and machine to machine."""

    spot: Spot
    policy: str
    seed: int
    requests: int
    repeats: int

    def run(self) -> Data:
        """Microseconds per decision point, least of the repeats: engine included, or the policy alone if in Python."""
        problem = self.spot.problem(0, self.seed, self.requests, 0)
        policy = resolve_policy(self.policy)
        simulate_problem(problem.problem, policy, problem.options)  # compiles
        outcomes = [simulate_problem(problem.problem, policy, problem.options) for _ in range(self.repeats)]
        asked = [outcome.decision_wall_s for outcome in outcomes if len(outcome.decision_wall_s)]
        if asked:
            return {"us": 1e6 * min(float(np.median(times)) for times in asked), "alone": True,
                    "p99_us": 1e6 * min(float(np.quantile(times, 0.99)) for times in asked)}  # fmt: skip
        return {
            "us": 1e6 * min(outcome.wall_s / outcome.rounds for outcome in outcomes),
            "alone": False,
            "p99_us": None,
        }


Task = CapacityTask | AlphaTask | ChoiceTask | RunTask | BracketTask | TimingTask


def run_task(task: Task) -> Data:
    """What a worker calls."""
    return task.run()


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
