"""One run to one row of numbers, and rows over seeds and policies to estimates that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError
from eunomia.core.records import RunRecords
from eunomia.metrics import bandwidth, efficiency, fairness, indicators, service
from eunomia.metrics.columns import Costs, Tables, decision_times_s
from eunomia.metrics.metric import Direction, Metric, Unit
from eunomia.metrics.run import Facts, Run
from eunomia.metrics.statistics import NO_DATA, Estimate, interval, mean, nearest_rank
from eunomia.metrics.statistics import paired_difference as minus
from eunomia.metrics.window import measured
from eunomia.workload.tenant import Agreement

Summary = Mapping[str, float]
Seeds = Sequence[Summary] | Mapping[int, Summary]  # one summary per seed, in the same order for all policies


@dataclass(frozen=True)
class RunMetric(Metric):
    """A number of a run. ``anchor`` is its place in docs/metrics.md; ``needs`` are tables and facts."""

    function: Callable[[Run], float]
    anchor: str
    needs: tuple[str, ...] = ()


def _metric(
    anchor: str, function: Callable[[Run], float], unit: Unit, better: Direction, label: str, *needs: str
) -> RunMetric:
    return RunMetric(label, HEADINGS.get(label, label), unit, better, function, anchor, needs)


HEADINGS = {  # of columns, where the full label is too long for one: some of its words
    "hit rate of the worst tenant": "worst tenant",
    "Jain's index of hit rates": "Jain",
    "energy per request": "energy/request",
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
)


def _worst_rho(run: Run) -> float:
    return max(run.rho.values(), default=math.nan)


def _ux_cost(run: Run) -> float:
    return efficiency.ux_cost(run.requests, Costs.read(run.tables["costs"]))


def _decisions_per_request(run: Run) -> float:
    instants = decision_times_s(run.tables["decisions"])
    return efficiency.decisions_per_request(instants, len(run.requests), run.scope.start_s, run.scope.end_s)


METRICS: dict[str, RunMetric] = {
    # service
    "requests": _metric("counts", lambda r: len(r.requests), "count", "neither", "requests measured"),
    "censored": _metric("counts", lambda r: len(r.scope.censored), "count", "neither", "requests censored"),
    "hit_rate": _metric("hit_rate", lambda r: service.hit_rate(r.requests), "share", "higher", "hit rate"),
    "late_rate": _metric("outcomes", lambda r: service.late_rate(r.requests), "share", "lower", "late rate"),
    "drop_rate": _metric("outcomes", lambda r: service.drop_rate(r.requests), "share", "lower", "drop rate"),
    "overdue_rate": _metric("outcomes", lambda r: service.overdue_rate(r.requests), "share", "lower", "overdue rate"),
    "response_mean_s": _metric("latency", lambda r: mean(r.response_s), "s", "lower", "mean response"),
    "response_p50_s": _metric("latency", lambda r: nearest_rank(r.response_s, 50), "s", "lower", "p50 response"),
    "response_p95_s": _metric("latency", lambda r: nearest_rank(r.response_s, 95), "s", "lower", "p95 response"),
    "response_p99_s": _metric("latency", lambda r: nearest_rank(r.response_s, 99), "s", "lower", "p99 response"),
    "antt": _metric("antt", lambda r: mean(r.slowdown), "ratio", "lower", "mean slowdown (ANTT)"),
    "slowdown_p50": _metric("slowdown", lambda r: nearest_rank(r.slowdown, 50), "ratio", "lower", "p50 slowdown"),
    "slowdown_p95": _metric("slowdown", lambda r: nearest_rank(r.slowdown, 95), "ratio", "lower", "p95 slowdown"),
    "slowdown_p99": _metric("slowdown", lambda r: nearest_rank(r.slowdown, 99), "ratio", "lower", "p99 slowdown"),
    "lateness_mean_s": _metric("tardiness", lambda r: mean(r.lateness_s), "s", "lower", "mean lateness"),
    "tardiness_mean_s": _metric("tardiness", lambda r: mean(r.tardiness_s), "s", "lower", "mean tardiness"),
    "tardiness_p99_s": _metric("tardiness", lambda r: nearest_rank(r.tardiness_s, 99), "s", "lower", "p99 tardiness"),
    "throughput_per_s": _metric(
        "goodput", lambda r: service.throughput_per_s(r.departed, r.scope.length_s), "1/s", "higher", "throughput"
    ),
    "goodput_per_s": _metric(
        "goodput", lambda r: service.goodput_per_s(r.departed, r.scope.length_s), "1/s", "higher", "goodput"
    ),
    "queueing_share": _metric("split", lambda r: r.shares["queueing"], "share", "lower", "time queueing"),
    "service_share": _metric("split", lambda r: r.shares["service"], "share", "higher", "time in service"),
    "contention_share": _metric("split", lambda r: r.shares["contention"], "share", "lower", "time lost to contention"),
    "switch_share": _metric("split", lambda r: r.shares["switch"], "share", "lower", "time switching"),
    # fairness
    "worst_tenant": _metric(
        "worst_tenant", lambda r: fairness.worst_tenant(r.requests), "share", "higher", "hit rate of the worst tenant"
    ),
    "worst_model": _metric(
        "worst_tenant", lambda r: min(service.model_rates(r.requests).values(), default=math.nan), "share", "higher",
        "hit rate of the worst model",
    ),
    "worst_pair": _metric(
        "worst_tenant", lambda r: min(service.pair_rates(r.requests).values(), default=math.nan), "share", "higher",
        "hit rate of the worst tenant-model pair",
    ),
    "tenant_spread": _metric(
        "tenant_spread", lambda r: fairness.tenant_spread(r.requests), "share", "lower", "spread of tenants' hit rates"
    ),
    "jain_hit_rate": _metric(
        "jain", lambda r: fairness.jain_hit_rate(r.requests), "ratio", "higher", "Jain's index of hit rates"
    ),
    "jain_progress": _metric(
        "jain", lambda r: fairness.jain_progress(r.requests), "ratio", "higher", "Jain's index of progress"
    ),
    "slo_attainment": _metric(
        "slo_attainment", lambda r: indicators.slo_attainment(r.pairs), "share", "higher", "SLO attainment", "pairs"
    ),
    "slo_shortfall": _metric(
        "slo_shortfall", lambda r: indicators.slo_shortfall(r.pairs), "ratio", "lower", "mean SLO shortfall", "pairs"
    ),
    "prema_fairness": _metric(
        "prema_fairness", lambda r: fairness.prema_fairness(r.requests), "ratio", "higher", "PREMA fairness"
    ),
    "worst_rho": _metric("finish_time_rho", _worst_rho, "ratio", "lower", "worst finish-time rho", "accelerators"),
    # efficiency
    "stp": _metric(
        "stp", lambda r: efficiency.stp(r.departed, r.scope.length_s), "ratio", "higher", "system throughput (STP)"
    ),
    "stp_sum": _metric(
        "stp", lambda r: efficiency.stp_sum(r.requests), "ratio", "higher", "system throughput of the batch"
    ),
    "ux_cost": _metric("ux_cost", _ux_cost, "ratio", "lower", "UXCost", "costs"),
    "utilisation": _metric(
        "utilisation", lambda r: r.used(effective=False), "share", "neither", "utilisation", "accelerators"
    ),
    "utilisation_effective": _metric(
        "utilisation", lambda r: r.used(effective=True), "share", "higher", "effective utilisation",
        "accelerators",
    ),
    "bandwidth_saturation": _metric(
        "bandwidth", lambda r: bandwidth.saturation(r.demand, r.bandwidth_bytes_s), "share", "lower",
        "bandwidth saturated", "bandwidth_bytes_s", "subjobs", "costs", "accelerators",
    ),
    "bandwidth_use": _metric(
        "bandwidth", lambda r: bandwidth.use(r.demand, r.bandwidth_bytes_s), "share", "neither",
        "bandwidth used", "bandwidth_bytes_s", "subjobs", "costs", "accelerators",
    ),
    "energy_per_request_j": _metric(
        "energy", lambda r: efficiency.energy_per_request_j(r.requests), "J", "lower", "energy per request"
    ),
    "energy_per_hit_j": _metric(
        "energy", lambda r: efficiency.energy_per_hit_j(r.requests), "J", "lower", "energy per hit"
    ),
    "scheduler_energy_overhead": _metric(
        "energy_overhead",
        lambda r: efficiency.scheduler_energy_overhead(r.requests, r.facts.scheduler_energy_j or 0.0),
        "share", "lower", "energy of deciding", "scheduler_energy_j",
    ),
    "decision_p50_s": _metric(
        "decision_time", lambda r: nearest_rank(r.decision_times_s, 50), "s", "lower", "p50 time to decide",
        "decision_times_s",
    ),
    "decision_p99_s": _metric(
        "decision_time", lambda r: nearest_rank(r.decision_times_s, 99), "s", "lower", "p99 time to decide",
        "decision_times_s",
    ),
    "decisions_per_request": _metric(
        "decision_time", _decisions_per_request, "ratio", "lower", "decisions per request", "decisions"
    ),
    "period_in_layers": _metric(
        "period", lambda r: efficiency.period_in_layers(r.facts.period_s or 0.0, r.subjobs), "ratio", "lower",
        "period / mean layer time", "period_s", "subjobs",
    ),
}  # fmt: skip


def summarise(
    source: Tables | RunRecords,
    agreements: Sequence[Agreement] | None = None,
    warmup_s: float | None = None,
    end_s: float | None = None,
    facts: Facts | None = None,
) -> dict[str, float]:
    """Every metric of METRICS for one run, by name; nan where the run has no data for it.

    ``source`` is a recorded run, or maps names of eunomia.core.schemas to Arrow tables or to mappings of
    arrays; ``requests`` is needed, the others add metrics. SLOs are judged from ``agreements``, or read from
    the ``pairs`` table when they are None. ``warmup_s`` and ``end_s`` choose the requests (``measured``), by
    default 0 and the last instant on record. For a recorded run the defaults are ``warmup_s`` and
    ``duration_s`` of its manifest, which also gives facts that ``facts`` lacks.
    """
    known, tables = facts or Facts(), source.tables if isinstance(source, RunRecords) else source
    if isinstance(source, RunRecords):
        known = known.over(Facts.of(source.manifest))
        warmup_s = source.manifest.get("warmup_s") if warmup_s is None else warmup_s
        end_s = source.manifest.get("duration_s") if end_s is None else end_s
    run = Run(tables, agreements, measured(tables, warmup_s or 0.0, end_s), known)
    return {
        name: float(metric.function(run)) if all(map(run.has, metric.needs)) else math.nan
        for name, metric in METRICS.items()
    }


@dataclass(frozen=True)
class Compared:
    """Estimates over seeds, by policy and metric, and their paired differences to one policy."""

    baseline: str
    estimates: dict[str, dict[str, Estimate]]  # policy -> metric -> mean over seeds
    differences: dict[str, dict[str, Estimate]]  # policy -> metric -> policy minus baseline, seed by seed

    @property
    def policies(self) -> list[str]:
        """Policies in the order given."""
        return list(self.estimates)

    def ranked(self, metric: str = "hit_rate") -> list[str]:
        """Policies from best to worst mean of a metric; those without data stand last."""
        sign = -1.0 if metric in METRICS and METRICS[metric].better == "lower" else 1.0
        value = {name: sign * row.get(metric, NO_DATA).mean for name, row in self.estimates.items()}
        return sorted(value, key=lambda name: (math.isnan(value[name]), -value[name]))


def compare(
    summaries: Mapping[str, Seeds], baseline: str | None = None, confidence: float = 0.95
) -> Compared:
    """Mean and interval of every metric over seeds, and its difference to ``baseline`` seed by seed.

    ``summaries``: policy -> one ``summarise`` result per seed; a mapping by seed pairs runs by seed, without
    seeds that one side lacks; a sequence pairs them by position. ``baseline`` is the first policy by default.
    For the price of fairness take the SLO-agnostic policy as baseline: it is minus the difference of
    ``hit_rate``.
    """
    if not summaries:
        return Compared("", {}, {})
    reference = next(iter(summaries)) if baseline is None else baseline
    if reference not in summaries:
        raise UnknownNameError("policy", reference, summaries)
    rows = {policy: _by_seed(runs) for policy, runs in summaries.items()}
    names = list(dict.fromkeys(name for runs in rows.values() for run in runs.values() for name in run))
    estimates, differences = {}, {}
    for policy, runs in rows.items():
        estimates[policy] = {name: interval(_values(runs, list(runs), name), confidence) for name in names}
        seeds = [seed for seed in runs if seed in rows[reference]]
        differences[policy] = {
            name: minus(_values(runs, seeds, name), _values(rows[reference], seeds, name), confidence)
            for name in names
        }
    return Compared(reference, estimates, differences)


def _by_seed(runs: Seeds) -> dict[int, Summary]:
    return dict(runs) if isinstance(runs, Mapping) else dict(enumerate(runs))


def _values(runs: Mapping[int, Summary], seeds: Sequence[int], name: str) -> Floats:
    return np.array([runs[seed].get(name, math.nan) for seed in seeds], np.float64)
