"""Every metric of a run once: what it is called, how it is computed, and where its formula stands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

from eunomia.metrics import bandwidth, causes, efficiency, fairness, guards, indicators, service
from eunomia.metrics.columns import Costs, Requests, decision_times_s
from eunomia.metrics.metric import Direction, Metric, Unit
from eunomia.metrics.run import Run
from eunomia.metrics.statistics import mean, nearest_rank


@dataclass(frozen=True)
class RunMetric(Metric):
    """A number of a run. The docstring of ``formula`` is its text in docs/metrics.md; ``needs``: tables and facts."""

    function: Callable[[Run], float]
    formula: object
    needs: tuple[str, ...] = ()

    @property
    def definition(self) -> str:
        """The docstring of the formula in one line, without its paragraph of errors."""
        paragraphs = (inspect.getdoc(self.formula) or "").split("\n\n")
        return " ".join(" ".join(p for p in paragraphs if not p.startswith("Raises ")).split())


def _metric(
    formula: object, function: Callable[[Run], float], unit: Unit, better: Direction, label: str, *needs: str
) -> RunMetric:
    return RunMetric(label, HEADINGS.get(label, label), unit, better, function, formula, needs)


HEADINGS = {  # of columns, where the full label is too long for one: some of its words
    "hit rate of the worst tenant": "worst tenant",
    "Jain's index of hit rates": "Jain",
    "energy per request": "energy/request",
    "strange states": "strange",
    "fallback to the base": "fallback",
}


HEADLINES = (  # columns of every table of a comparison, in the terminal and in the report
    "slo_attainment",
    "hit_rate",
    "worst_tenant",
    "jain_hit_rate",
    "tardiness_p99_s",
    "response_p99_s",
    "energy_per_request_j",
    "utilisation",
    "strange_share",  # the last three stand where a learned policy takes part
    "alarms",
    "fallback_share",
)


def _worst_rho(run: Run) -> float:
    return max(run.rho.values(), default=math.nan)


def _ux_cost(run: Run) -> float:
    return efficiency.ux_cost(run.requests, Costs.read(run.tables["costs"]))


def _decisions_per_request(run: Run) -> float:
    instants = decision_times_s(run.tables["decisions"])
    return efficiency.decisions_per_request(instants, len(run.requests), run.scope.start_s, run.scope.end_s)


def _of(function: Callable[[Requests], float]) -> Callable[[Run], float]:
    """A function of the measured requests as one of the run."""
    return lambda run: function(run.requests)


METRICS: dict[str, RunMetric] = {
    # service
    "requests": _metric(Run.requests, lambda r: len(r.requests), "count", "neither", "requests measured"),
    "censored": _metric(
        Run.requests, lambda r: len(r.scope.censored), "count", "neither", "requests censored"
    ),
    "hit_rate": _metric(service.hit_rate, _of(service.hit_rate), "share", "higher", "hit rate"),
    "late_rate": _metric(service.outcome_rate, _of(service.late_rate), "share", "lower", "late rate"),
    "drop_rate": _metric(service.outcome_rate, _of(service.drop_rate), "share", "lower", "drop rate"),
    "overdue_rate": _metric(
        service.outcome_rate, _of(service.overdue_rate), "share", "lower", "overdue rate"
    ),
    "response_mean_s": _metric(
        service.response_s, lambda r: mean(r.response_s), "s", "lower", "mean response"
    ),
    "response_p50_s": _metric(
        service.response_s, lambda r: nearest_rank(r.response_s, 50), "s", "lower", "p50 response"
    ),
    "response_p95_s": _metric(
        service.response_s, lambda r: nearest_rank(r.response_s, 95), "s", "lower", "p95 response"
    ),
    "response_p99_s": _metric(
        service.response_s, lambda r: nearest_rank(r.response_s, 99), "s", "lower", "p99 response"
    ),
    "antt": _metric(efficiency.antt, lambda r: mean(r.slowdown), "ratio", "lower", "mean slowdown (ANTT)"),
    "slowdown_p50": _metric(
        service.slowdown, lambda r: nearest_rank(r.slowdown, 50), "ratio", "lower", "p50 slowdown"
    ),
    "slowdown_p95": _metric(
        service.slowdown, lambda r: nearest_rank(r.slowdown, 95), "ratio", "lower", "p95 slowdown"
    ),
    "slowdown_p99": _metric(
        service.slowdown, lambda r: nearest_rank(r.slowdown, 99), "ratio", "lower", "p99 slowdown"
    ),
    "lateness_mean_s": _metric(
        service.tardiness_s, lambda r: mean(r.lateness_s), "s", "lower", "mean lateness"
    ),
    "tardiness_mean_s": _metric(
        service.tardiness_s, lambda r: mean(r.tardiness_s), "s", "lower", "mean tardiness"
    ),
    "tardiness_p99_s": _metric(
        service.tardiness_s, lambda r: nearest_rank(r.tardiness_s, 99), "s", "lower", "p99 tardiness"
    ),
    "throughput_per_s": _metric(
        service.goodput_per_s,
        lambda r: service.throughput_per_s(r.departed, r.scope.length_s),
        "1/s",
        "higher",
        "throughput",
    ),
    "goodput_per_s": _metric(
        service.goodput_per_s,
        lambda r: service.goodput_per_s(r.departed, r.scope.length_s),
        "1/s",
        "higher",
        "goodput",
    ),
    "queueing_share": _metric(
        causes.split, lambda r: r.shares["queueing"], "share", "lower", "time queueing"
    ),
    "service_share": _metric(
        causes.split, lambda r: r.shares["service"], "share", "higher", "time in service"
    ),
    "contention_share": _metric(
        causes.split, lambda r: r.shares["contention"], "share", "lower", "time lost to contention"
    ),
    "switch_share": _metric(causes.split, lambda r: r.shares["switch"], "share", "lower", "time switching"),
    # fairness
    "worst_tenant": _metric(
        fairness.worst, _of(fairness.worst_tenant), "share", "higher", "hit rate of the worst tenant"
    ),
    "worst_model": _metric(
        fairness.worst,
        lambda r: min(service.model_rates(r.requests).values(), default=math.nan),
        "share",
        "higher",
        "hit rate of the worst model",
    ),
    "worst_pair": _metric(
        fairness.worst,
        lambda r: min(service.pair_rates(r.requests).values(), default=math.nan),
        "share",
        "higher",
        "hit rate of the worst tenant-model pair",
    ),
    "tenant_spread": _metric(
        fairness.tenant_spread, _of(fairness.tenant_spread), "share", "lower", "spread of tenants' hit rates"
    ),
    "jain_hit_rate": _metric(
        fairness.jain, _of(fairness.jain_hit_rate), "ratio", "higher", "Jain's index of hit rates"
    ),
    "jain_progress": _metric(
        fairness.jain, _of(fairness.jain_progress), "ratio", "higher", "Jain's index of progress"
    ),
    "slo_attainment": _metric(
        indicators.slo_attainment,
        lambda r: indicators.slo_attainment(r.pairs),
        "share",
        "higher",
        "SLO attainment",
        "pairs",
    ),
    "slo_shortfall": _metric(
        indicators.slo_shortfall,
        lambda r: indicators.slo_shortfall(r.pairs),
        "ratio",
        "lower",
        "mean SLO shortfall",
        "pairs",
    ),
    "prema_fairness": _metric(
        fairness.prema_fairness, _of(fairness.prema_fairness), "ratio", "higher", "PREMA fairness"
    ),
    "worst_rho": _metric(
        fairness.finish_time_rho, _worst_rho, "ratio", "lower", "worst finish-time rho", "accelerators"
    ),
    # efficiency
    "stp": _metric(
        efficiency.stp,
        lambda r: efficiency.stp(r.departed, r.scope.length_s),
        "ratio",
        "higher",
        "system throughput (STP)",
    ),
    "stp_sum": _metric(
        efficiency.stp_sum, _of(efficiency.stp_sum), "ratio", "higher", "system throughput of the batch"
    ),
    "ux_cost": _metric(efficiency.ux_cost, _ux_cost, "ratio", "lower", "UXCost", "costs"),
    "utilisation": _metric(
        efficiency.utilisation,
        lambda r: r.used(effective=False),
        "share",
        "neither",
        "utilisation",
        "accelerators",
    ),
    "utilisation_effective": _metric(
        efficiency.effective_utilisation,
        lambda r: r.used(effective=True),
        "share",
        "higher",
        "effective utilisation",
        "accelerators",
    ),
    "bandwidth_saturation": _metric(
        bandwidth.saturation,
        lambda r: bandwidth.saturation(r.demand, r.bandwidth_bytes_s),
        "share",
        "lower",
        "bandwidth saturated",
        "bandwidth_bytes_s",
        "subjobs",
        "costs",
        "accelerators",
    ),
    "bandwidth_use": _metric(
        bandwidth.use,
        lambda r: bandwidth.use(r.demand, r.bandwidth_bytes_s),
        "share",
        "neither",
        "bandwidth used",
        "bandwidth_bytes_s",
        "subjobs",
        "costs",
        "accelerators",
    ),
    "energy_per_request_j": _metric(
        efficiency.energy_per_request_j,
        _of(efficiency.energy_per_request_j),
        "J",
        "lower",
        "energy per request",
    ),
    "energy_per_hit_j": _metric(
        efficiency.energy_per_hit_j, _of(efficiency.energy_per_hit_j), "J", "lower", "energy per hit"
    ),
    "scheduler_energy_overhead": _metric(
        efficiency.scheduler_energy_overhead,
        lambda r: efficiency.scheduler_energy_overhead(r.requests, r.facts.scheduler_energy_j or 0.0),
        "share",
        "lower",
        "energy of deciding",
        "scheduler_energy_j",
    ),
    "decision_p50_s": _metric(
        Run.decision_times_s,
        lambda r: nearest_rank(r.decision_times_s, 50),
        "s",
        "lower",
        "p50 time to decide",
        "decision_times_s",
    ),
    "decision_p99_s": _metric(
        Run.decision_times_s,
        lambda r: nearest_rank(r.decision_times_s, 99),
        "s",
        "lower",
        "p99 time to decide",
        "decision_times_s",
    ),
    "decisions_per_request": _metric(
        efficiency.decisions_per_request,
        _decisions_per_request,
        "ratio",
        "lower",
        "decisions per request",
        "decisions",
    ),
    "period_in_layers": _metric(
        efficiency.period_in_layers,
        lambda r: efficiency.period_in_layers(r.facts.period_s or 0.0, r.subjobs),
        "ratio",
        "lower",
        "period / mean layer time",
        "period_s",
        "subjobs",
    ),
    # guards
    "strange_share": _metric(
        guards.rate, lambda r: guards.rate(r.guards, "strange"), "share", "lower", "strange states", "guards"
    ),
    "alarms": _metric(
        guards.rate, lambda r: guards.count(r.guards, "alarms"), "count", "lower", "alarms", "guards"
    ),
    "fallback_share": _metric(
        guards.rate,
        lambda r: guards.rate(r.guards, "fallback"),
        "share",
        "lower",
        "fallback to the base",
        "guards",
    ),
}
