"""Several policies on the same requests: one scenario, common random numbers, paired seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from eunomia.config import Scenario, as_table
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.records import Comparison, read_comparison, write_comparison
from eunomia.engines.processes import Outcome
from eunomia.inference.options import Record
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.study.cells import folder_name, make_cell, run_cells
from eunomia.study.inference.bracket import Standing, standing
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.place import claim
from eunomia.study.run import ScenarioLike, as_scenario, provenance, seeds_from

OnDone = Callable[[Outcome], None]
Metrics = dict[str, float]


Keep = Literal["all", "first", "requests"]


@dataclass(frozen=True)
class Promise:
    """One agreement under one policy: ``got`` is its mean indicator, ``kept`` the share of seeds that met it."""

    tenant: str
    model: str
    kind: str
    target: float
    got: float
    kept: float


@dataclass(frozen=True)
class CompareResult:
    """Metrics of every policy on every seed; ``failures`` names the runs that gave none."""

    scenario: Scenario
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    metrics: dict[tuple[str, int], Metrics]  # (policy, seed) -> metric -> value
    tenants: dict[tuple[str, int], Metrics]  # (policy, seed) -> tenant -> hit rate
    pairs: dict[tuple[str, int], list[dict[str, Any]]]  # (policy, seed) -> rows of schema PAIRS
    failures: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None  # where the runs are; None = nothing was written
    replayed_alike: tuple[str, ...] = ()  # tenants whose trace is the same under every seed
    standing: Standing | None = None  # places in the bracket, where it was asked for

    def values(self, policy: str, metric: str) -> list[float]:
        """One number per seed, nan where a run failed or has no such number."""
        return [self.metrics.get((policy, seed), {}).get(metric, math.nan) for seed in self.seeds]

    def tenant(self, policy: str, tenant: str) -> Estimate:
        """Hit rate of one tenant: mean over seeds with its 95 % interval."""
        return interval([self.tenants.get((policy, seed), {}).get(tenant, math.nan) for seed in self.seeds])

    def worst_tenant(self, policy: str) -> str:
        """The tenant with the least mean hit rate."""
        names = [tenant.name for tenant in self.scenario.tenant]
        means = {name: self.tenant(policy, name).mean for name in names}
        return min(names, key=lambda name: (math.isnan(means[name]), means[name]))

    def promises(self, policy: str) -> list[Promise]:
        """What was promised to each (tenant, model) and what it got, mean over seeds."""
        rows = [row for seed in self.seeds for row in self.pairs.get((policy, seed), [])]
        names = list(dict.fromkeys((row["tenant"], row["model"]) for row in rows if row["slo_kind"]))
        mine = {name: [row for row in rows if (row["tenant"], row["model"]) == name] for name in names}
        return [
            Promise(
                *name,
                kind=found[0]["slo_kind"],
                target=found[0]["slo_target"],
                got=interval([math.nan if row["sli"] is None else row["sli"] for row in found]).mean,
                kept=sum(bool(row["met"]) for row in found) / len(found),
            )
            for name, found in mine.items()
        ]

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its 95 % interval."""
        return interval(self.values(policy, metric))

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Mean of policy - rival over the same seeds, with the paired 95 % interval."""
        return paired_difference(self.values(policy, metric), self.values(rival, metric))

    def records(self) -> Comparison:
        """The recorded runs, for reports. Raises RecordError when none were written."""
        if self.directory is None:
            raise ConfigError("this comparison was not written; give compare(..., directory=...)")
        return read_comparison(self.directory, verify=False)


def compare(
    scenario: ScenarioLike,
    policies: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    overrides: Iterable[str] = (),
    directory: str | Path | None = None,
    workers: int = 1,
    record: Keep = "first",
    on_done: OnDone | None = None,
    overwrite: bool = False,
    bracket: int | None = None,
) -> CompareResult:
    """Run every policy on every seed; with ``directory``, write the runs there and go on where a stopped call left off.

    ``policies`` and ``seeds`` default to the scenario's [compare]. ``record``: keep all tables of each
    policy's ``first`` seed and those of requests of the others; or ``all`` tables of all; or those of
    ``requests`` alone. The result does not depend on ``workers``. With more than one, call it from
    under ``if __name__ == "__main__":`` in a script.
    A ``directory`` with another scenario's comparison is refused, unless ``overwrite`` replaces it.
    ``bracket``: also put the policies into the clairvoyant bracket of so many first requests of each seed.
    A run that fails is named in ``failures``; if all fail, the first complaint is raised.
    """
    checked = as_scenario(scenario, overrides)
    chosen = list(policies) if policies else list(checked.compare.policies)
    names = _distinct([policy_name(policy) for policy in chosen])
    for policy in chosen:
        resolve_policy(policy)  # a wrong name is found before the first run
    numbers = seeds_from(checked.seed, checked.compare.seeds if seeds is None else seeds)
    root = Path(directory) if directory is not None else None
    if root is not None:
        claim(root, checked, "comparison", overwrite)
    kept: dict[int, Record] = {seed: "requests" if record == "requests" else "all" for seed in numbers}
    if record == "first":
        kept = {seed: "all" if seed == numbers[0] else "requests" for seed in numbers}
    cells = [make_cell(checked, policy, seed, root, kept[seed]) for policy in chosen for seed in numbers]
    outcomes = run_cells(cells, workers, on_done, root)
    result = _collect(checked, names, numbers, outcomes, root)
    if bracket is not None:
        result = replace(result, standing=standing(checked, chosen, numbers, bracket))
    if root is not None:
        write_comparison(root, _manifest(result))
    return result


def _distinct(names: list[str]) -> list[str]:
    folders = [folder_name(name) for name in names]
    for index, name in enumerate(folders):
        if name in folders[:index]:
            raise ConfigError(f"two policies are called '{names[index]}'; give them different names")
    return names


def _collect(
    scenario: Scenario, policies: list[str], seeds: list[int], outcomes: list[Outcome], directory: Path | None
) -> CompareResult:
    result = gather(scenario, policies, seeds, outcomes, directory)
    if not result.metrics:
        raise EunomiaError(next(iter(result.failures.values())))
    return result


def gather(
    scenario: Scenario, policies: list[str], seeds: list[int], outcomes: list[Outcome], directory: Path | None
) -> CompareResult:
    """Outcomes, in order of policy, then seed, as one value."""
    keys = [(policy, seed) for policy in policies for seed in seeds]
    done = {key: o.result for key, o in zip(keys, outcomes, strict=True) if o.result is not None}
    return CompareResult(
        scenario,
        tuple(policies),
        tuple(seeds),
        {key: found["metrics"] for key, found in done.items()},
        {key: found["tenants"] for key, found in done.items()},
        {key: found["pairs"] for key, found in done.items()},
        failed(outcomes),
        directory,
        tuple(sorted({tenant for found in done.values() for tenant in found["replayed_alike"]})),
    )


def failed(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Names of failed cells with the reason."""
    return {outcome.cell.name: outcome.failure for outcome in outcomes if outcome.failure is not None}


def _manifest(result: CompareResult) -> dict[str, Any]:
    return {
        "name": result.scenario.name,
        "policies": list(result.policies),
        "seeds": list(result.seeds),
        "failures": result.failures,
        **({"bracket": result.standing.facts()} if result.standing else {}),
        "config": as_table(result.scenario),
        **provenance(),
    }
