"""Policies compared on the requests of a scenario: tenants, their SLOs, and the clairvoyant bracket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Unpack

from eunomia.config import Scenario
from eunomia.core.data import Data
from eunomia.core.errors import UnknownNameError
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.metrics.table import METRICS
from eunomia.report.leaders import ranked
from eunomia.report.verdict import verdict
from eunomia.study.batch import BatchOptions
from eunomia.study.compare import CompareResult, Metrics, as_data, compare_in, write_manifest
from eunomia.study.inference.policy import PolicyLike, policy_name
from eunomia.study.inference.run import ScenarioLike
from eunomia.study.inference.standing import Standing, standing
from eunomia.study.inference.words import PairOutcome, rehearsed_notes, replayed_note, twins_note, unmet
from eunomia.study.sweep import SweepResult, sweep_in
from eunomia.study.wing import wing_of

GUARDS = (
    "strange: decisions of a learned policy at states unlike its training; alarms: runs of such decisions that "
    "handed over to its base; fallback: decisions by its base"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class InferenceComparison(CompareResult[Scenario]):
    """A comparison of policies on a scenario."""

    standing: Standing | None = None  # places in the bracket; None without ``bracket``

    @property
    def scenario(self) -> Scenario:
        """What was run."""
        return self.config

    @cached_property
    def tenants(self) -> dict[tuple[str, int], Metrics]:
        """(policy, seed) -> tenant -> hit rate."""
        return {key: answer["tenants"] for key, answer in self.answers.items()}

    @cached_property
    def pairs(self) -> dict[tuple[str, int], list[Data]]:
        """(policy, seed) -> rows of schema PAIRS."""
        return {key: answer["pairs"] for key, answer in self.answers.items()}

    @property
    def replayed_alike(self) -> tuple[str, ...]:
        """Tenants whose trace is the same under every seed."""
        return tuple(sorted({name for answer in self.answers.values() for name in answer["replayed_alike"]}))

    @property
    def baseline(self) -> str:
        """The policy that gains refer to: that of [compare], or the first that finished."""
        wanted = policy_name(self.config.compare.baseline or "")
        return wanted if wanted in self.finished else self.finished[0]

    @property
    def tenant_names(self) -> list[str]:
        """All tenants, in the order of the scenario."""
        return [tenant.name for tenant in self.config.tenant]

    def tenant(self, policy: str, tenant: str) -> Estimate:
        """Hit rate of one tenant: mean over seeds with its 95 % interval. Raises UnknownNameError."""
        if tenant not in self.tenant_names:
            raise UnknownNameError("tenant", tenant, self.tenant_names)
        return interval(self._rates(policy, tenant))

    def tenant_difference(self, policy: str, rival: str, tenant: str) -> Estimate:
        """Hit rate of one tenant: policy minus rival, seed by seed."""
        return paired_difference(self._rates(policy, tenant), self._rates(rival, tenant))

    def _rates(self, policy: str, tenant: str) -> list[float]:
        return [self.tenants.get((policy, seed), {}).get(tenant, math.nan) for seed in self.seeds]

    def worst_tenant(self, policy: str) -> str:
        """The tenant with the least mean hit rate; in a single seed it may be another one."""
        means = {name: self.tenant(policy, name).mean for name in self.tenant_names}
        return min(means, key=lambda name: (math.isnan(means[name]), means[name]))

    def outcomes(self, policy: str) -> list[PairOutcome]:
        """The SLO of each tenant-model pair that has one, and what came of it, mean over seeds."""
        rows = [row for seed in self.seeds for row in self.pairs.get((policy, seed), [])]
        names = list(dict.fromkeys((row["tenant"], row["model"]) for row in rows if row["slo_kind"]))
        mine = {name: [row for row in rows if (row["tenant"], row["model"]) == name] for name in names}
        return [
            PairOutcome(
                *name,
                slo_kind=found[0]["slo_kind"],
                slo_target=found[0]["slo_target"],
                sli=interval([math.nan if row["sli"] is None else row["sli"] for row in found]).mean,
                met=sum(bool(row["met"]) for row in found) / len(found),
                shortfall=interval([row["shortfall"] for row in found]).mean,
            )
            for name, found in mine.items()
        ]

    def gain(self, policy: str) -> Estimate | None:
        """Hit rate minus that of the baseline, seed by seed; None for the baseline itself."""
        return None if policy == self.baseline else self.difference(policy, self.baseline, "hit_rate")

    def footnotes(self) -> list[str]:
        """How to read the table, places in the bracket, and what is no finding."""
        said = super().footnotes()
        if len(self.policies) > 1:
            seeds = len(self.seeds)
            said.append(
                f"gain: hit rate minus that of {self.baseline}, in points, paired by seed (n = {seeds})"
            )
        if any(not math.isnan(x) for policy in self.policies for x in self.values(policy, "strange_share")):
            said.append(GUARDS)
        said += rehearsed_notes(self.policies, self.answers)
        wanted = self.config.compare.baseline
        if wanted and policy_name(wanted) not in self.policies:
            said.append(f"note: the baseline '{wanted}' is none of the policies compared")
        if self.standing is not None:
            said += [self.standing.title, *self.standing.places()]
        return [*said, *(f"note: {text}" for text in self.no_findings())]

    def no_findings(self) -> list[str]:
        """What a reader could take for a finding and is none."""
        late = self.config.engine.late
        return [*replayed_note(self.replayed_alike, len(self.seeds)), *twins_note(self.policies, late)]

    def sentences(self) -> list[str]:
        """Who won, who lost, for whom, and which SLOs were not met under the first and the last."""
        order = ranked(self, "hit_rate", METRICS["hit_rate"])
        extremes = dict.fromkeys((order[-1], order[0])) if any(map(self.outcomes, order)) else {}
        return [*verdict(self), *(unmet(policy, self.outcomes(policy)) for policy in extremes)]

    def facts(self) -> Data:
        """Estimates by policy, gains over the baseline, tenants and pairs with an SLO, as plain data."""
        return {
            "baseline": self.baseline,
            "notes": self.no_findings(),
            "policies": {policy: self._facts(policy) for policy in self.policies},
        }

    def _facts(self, policy: str) -> Data:
        gains = {name: as_data(self.difference(policy, self.baseline, name)) for name in METRICS}
        return {
            "metrics": self.estimates(policy),
            "gain_over_baseline": gains,  # paired by seed
            "tenants": {name: as_data(self.tenant(policy, name)) for name in self.tenant_names},
            "worst_tenant": self.worst_tenant(policy) if policy in self.finished else None,
            "pairs": [asdict(pair) for pair in self.outcomes(policy)],
        }


def compare(
    scenario: ScenarioLike,
    policies: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    bracket: int | None = None,
    **options: Unpack[BatchOptions],
) -> InferenceComparison:
    """Run every policy on every seed; ``options``: eunomia.study.batch.BatchOptions.

    ``policies`` and ``seeds`` default to the scenario's [compare]. ``bracket``: also put the policies into the
    clairvoyant bracket of so many first requests of each seed. A run that fails is named in ``failures``; if all
    fail, the first complaint is raised.
    """
    result = compare_in(wing_of("inference"), scenario, policies, seeds, overrides, **options)
    assert isinstance(result, InferenceComparison)
    if bracket is None:
        return result
    chosen = list(policies) if policies else list(result.config.compare.policies)
    result = replace(result, standing=standing(result.config, chosen, result.seeds, bracket))
    if result.directory is not None and result.standing is not None:
        write_manifest(result, bracket=result.standing.facts())
    return result


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Sequence[object]] | None = None,
    policies: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    **options: Unpack[BatchOptions],
) -> SweepResult[Scenario]:
    """Compare the policies at every point of ``grid`` (default: the scenario's [sweep]); ``options``: BatchOptions."""
    return sweep_in(wing_of("inference"), scenario, grid, policies, seeds, overrides, **options)
