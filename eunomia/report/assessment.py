"""A comparison measured once, from its records: summaries and estimates over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.run import Facts
from eunomia.metrics.service import tenant_rates
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.metrics.summary import Compared, compare, summarise
from eunomia.metrics.table import METRICS
from eunomia.metrics.window import Measured, measured


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
    """A comparison with its numbers; each is computed at first use."""

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
        """Estimates over seeds, and paired differences to the policy with the highest hit rate."""
        plain = compare(self.summaries)
        best = plain.ranked("hit_rate")[0] if plain.policies else None
        return compare(self.summaries, best)

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its interval."""
        return self.compared.estimates[policy][metric]

    @property
    def baseline(self) -> str:
        """The policy that gains refer to: the comparison's, or the first one of older records."""
        stated = self.comparison.manifest.get("baseline")
        return stated if stated in self.policies else self.policies[0]

    def gain(self, policy: str) -> Estimate | None:
        """Hit rate minus that of the baseline, seed by seed; None for the baseline itself."""
        return None if policy == self.baseline else self.difference(policy, self.baseline, "hit_rate")

    @property
    def finished(self) -> list[str]:
        """Policies with results: all of them."""
        return self.policies

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Policy minus rival over the seeds that both have."""
        ours, theirs = self.summaries[policy], self.summaries[rival]
        seeds = sorted(ours.keys() & theirs.keys())
        return paired_difference([ours[s][metric] for s in seeds], [theirs[s][metric] for s in seeds])

    @cached_property
    def tenant_names(self) -> list[str]:
        """All tenants, in order of the pairs tables, then by name."""
        found: dict[str, None] = {}
        for run in self.comparison.runs:
            if "pairs" in run.tables:
                found |= dict.fromkeys(run["pairs"]["tenant"].to_pylist())
        for scope in self.scopes.values():
            found |= dict.fromkeys(scope.everyone.tenant.names)
        return list(found)

    def tenant(self, policy: str, tenant: str) -> Estimate:
        """Hit rate of a tenant over seeds."""
        return interval(self._rates(policy, tenant))

    def _rates(self, policy: str, tenant: str) -> list[float]:
        return [
            self._tenant_rates[policy, run.seed].get(tenant, math.nan) for run in self.comparison.of(policy)
        ]

    @cached_property
    def _tenant_rates(self) -> dict[tuple[str, int], dict[str, float]]:
        return {key: tenant_rates(scope.requests) for key, scope in self.scopes.items()}

    def tenant_difference(self, policy: str, rival: str, tenant: str) -> Estimate:
        """Hit rate of one tenant: policy minus rival, seed by seed."""
        seeds = {r.seed for r in self.comparison.of(policy)} & {r.seed for r in self.comparison.of(rival)}
        ours, theirs = (
            [self._tenant_rates[p, seed].get(tenant, math.nan) for seed in sorted(seeds)]
            for p in (policy, rival)
        )
        return paired_difference(ours, theirs)


def plain(value: float | np.float64) -> float | None:
    """A number for JSON: nan and inf are null."""
    return float(value) if math.isfinite(value) else None
