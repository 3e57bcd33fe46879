"""A comparison measured once: summaries, estimates over seeds, and who won and lost in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.run import Facts
from eunomia.metrics.service import tenant_rates
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.metrics.summary import METRICS, Compared, compare, summarise
from eunomia.metrics.window import Measured, measured

HEADLINES = (
    "hit_rate", "slo_attainment", "worst_tenant", "jain_hit_rate", "response_p99_s", "energy_per_request_j",
    "utilisation", "decisions_per_request",
)  # fmt: skip


def scope_of(run: RunRecords) -> Measured:
    """The measured part of a run, as its manifest says (``warmup_s``, ``measured_until_s``)."""
    return measured(
        run.tables, float(run.manifest.get("warmup_s") or 0.0), run.manifest.get("measured_until_s")
    )


def summary_of(run: RunRecords) -> dict[str, float]:
    """Every metric of a run: those of its manifest if it holds any, else measured now."""
    stored = run.manifest.get("metrics")
    if isinstance(stored, dict):
        known = {name: stored.get(name) for name in METRICS}
        return {name: math.nan if value is None else float(value) for name, value in known.items()}
    engine = run.manifest.get("engine") or {}
    facts = Facts(bandwidth_bytes_s=engine.get("bandwidth_bytes_s"), period_s=engine.get("period_s"))
    until_s = run.manifest.get("measured_until_s")
    return summarise(run.tables, None, float(run.manifest.get("warmup_s") or 0.0), until_s, facts)


@dataclass(frozen=True)
class Assessment:
    """A comparison with its numbers; each is computed when first asked for."""

    comparison: Comparison

    @cached_property
    def policies(self) -> list[str]:
        """Policies in the order in which they are shown."""
        return self.comparison.policies

    @cached_property
    def scopes(self) -> dict[tuple[str, int], Measured]:
        """Measured part of every run."""
        return {(run.policy, run.seed): scope_of(run) for run in self.comparison.runs}

    @cached_property
    def summaries(self) -> dict[str, dict[int, dict[str, float]]]:
        """Policy -> seed -> metrics."""
        return {p: {run.seed: summary_of(run) for run in self.comparison.of(p)} for p in self.policies}

    @cached_property
    def compared(self) -> Compared:
        """Estimates over seeds, and paired differences to the policy that served most in time."""
        plain = compare(self.summaries)
        best = plain.ranked("hit_rate")[0] if plain.policies else None
        return compare(self.summaries, best)

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its interval."""
        return self.compared.estimates[policy][metric]

    @cached_property
    def tenants(self) -> list[str]:
        """All tenants, in order of the pairs tables, then by name."""
        found: dict[str, None] = {}
        for run in self.comparison.runs:
            if "pairs" in run.tables:
                found |= dict.fromkeys(run["pairs"]["tenant"].to_pylist())
        for scope in self.scopes.values():
            found |= dict.fromkeys(scope.everyone.tenant.names)
        return list(found)

    @cached_property
    def tenant_estimates(self) -> dict[str, dict[str, Estimate]]:
        """Policy -> tenant -> hit rate over seeds."""
        return {p: {t: interval(self._rates(p, t)) for t in self.tenants} for p in self.policies}

    def _rates(self, policy: str, tenant: str) -> list[float]:
        return [
            self._tenant_rates[policy, run.seed].get(tenant, math.nan) for run in self.comparison.of(policy)
        ]

    @cached_property
    def _tenant_rates(self) -> dict[tuple[str, int], dict[str, float]]:
        return {key: tenant_rates(scope.requests) for key, scope in self.scopes.items()}

    def paired_tenant(self, policy: str, rival: str, tenant: str) -> Estimate:
        """Hit rate of one tenant: policy minus rival, seed by seed."""
        seeds = {r.seed for r in self.comparison.of(policy)} & {r.seed for r in self.comparison.of(rival)}
        ours, theirs = (
            [self._tenant_rates[p, seed].get(tenant, math.nan) for seed in sorted(seeds)]
            for p in (policy, rival)
        )
        return paired_difference(ours, theirs)

    def verdict(self) -> list[str]:
        """Who won, who lost, and for whom; the first sentence is the headline."""
        if not self.policies:
            return ["No run to report."]
        ranked = self.compared.ranked("hit_rate")
        best = ranked[0]
        said = [self._headline(best)]
        if len(ranked) > 1:
            said.append(self._runner_up(ranked[1]))
        if len(ranked) > 2:
            said.append(self._last(ranked[-1]))
        said += self._promises(best)
        said += self._worst_off(best)
        return said

    def _headline(self, best: str) -> str:
        hits = self.estimate(best, "hit_rate")
        if math.isnan(hits.mean):
            return "No request was measured."
        if len(self.policies) == 1:
            return f"{best} served {_share(hits)} of all requests in time."
        return f"{best} served most requests in time: {_share(hits)}."

    def _runner_up(self, second: str) -> str:
        hits = self.estimate(second, "hit_rate")
        behind = self.compared.differences[second]["hit_rate"]
        if not behind.has_interval:
            return f"{second} follows with {_share(hits)}; one seed cannot tell whether that differs."
        if behind.excludes_zero:
            points = f"{-100 * behind.mean:.1f} points ({-100 * behind.high:.1f} to {-100 * behind.low:.1f})"
            return f"{second} follows with {_share(hits)}, behind by {points} on the same seeds."
        return f"{second} follows with {_share(hits)}: over these seeds the two cannot be told apart."

    def _last(self, last: str) -> str:
        return f"{last} came last with {_share(self.estimate(last, 'hit_rate'))}."

    def _promises(self, best: str) -> list[str]:
        if math.isnan(self.estimate(best, "slo_attainment").mean):
            return []
        top = self.compared.ranked("slo_attainment")[0]
        kept = self.estimate(best, "slo_attainment").mean
        if math.isclose(self.estimate(top, "slo_attainment").mean, kept):
            return [f"{best} kept {100 * kept:.0f} % of the promises made to tenants."]
        most = 100 * self.estimate(top, "slo_attainment").mean
        return [f"{best} kept {100 * kept:.0f} % of the promises made to tenants; {top} kept {most:.0f} %."]

    def _worst_off(self, best: str) -> list[str]:
        rates = {t: e for t, e in self.tenant_estimates[best].items() if not math.isnan(e.mean)}
        if len(rates) < 2:
            return []
        poorest = min(rates, key=lambda tenant: rates[tenant].mean)
        said = [f"The worst-served tenant under {best} is {poorest}: {_share(rates[poorest])} in time."]
        losses = []
        for rival in self.policies:
            for tenant in rates:
                loss = self.paired_tenant(best, rival, tenant) if rival != best else None
                if loss is not None and loss.mean < -0.005 and (loss.excludes_zero or not loss.has_interval):
                    losses.append((loss.mean, tenant, rival))
        if losses:
            mean, tenant, rival = min(losses)
            said.append(f"Not everybody gains: {tenant} had {-100 * mean:.1f} points more under {rival}.")
        return said


def _share(e: Estimate) -> str:
    if not e.has_interval:
        return f"{100 * e.mean:.1f} %"
    low, high = max(0.0, 100 * e.low), min(100.0, 100 * e.high)
    return f"{100 * e.mean:.1f} % ({low:.1f} to {high:.1f})"


def metric_text(name: str, value: float) -> str:
    """A metric's value as people read it, unit included."""
    from eunomia.report.units import span

    if math.isnan(value):
        return "n/a"
    unit = METRICS[name].unit
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return span(value)
    if unit == "J":
        return _joules(value)
    if unit == "count":
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _joules(value: float) -> str:
    for factor, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")):
        if abs(value) >= 0.9995 * factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} nJ" if value else "0 J"


def interval_text(name: str, estimate: Estimate) -> str:
    """Half the width of the interval, in the unit of the metric; empty without one."""
    if not estimate.has_interval:
        return ""
    if METRICS[name].unit == "share":
        return f"± {100 * estimate.half_width:.1f}"
    return f"± {metric_text(name, estimate.half_width)}"


def plain(value: float | np.floating[Any]) -> float | None:
    """A number for JSON: nan and inf are null."""
    return float(value) if math.isfinite(value) else None
