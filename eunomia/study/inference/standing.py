"""Where policies stand between the best schedule found and the bound that no schedule can exceed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from eunomia.config import Scenario
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.inference.clairvoyant import SearchOptions
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.report.units import estimate_text
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.bracket import bracket
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.inference.run import engine_options
from eunomia.study.result import Result, Row
from eunomia.study.run import blame
from eunomia.workload.requests import RequestTable

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

SHARE = Metric("share of hits", "share of hits", "share", "higher")


@dataclass(frozen=True, repr=False)
class Standing(Result):
    """Where policies stand in the brackets of a scenario's first requests, one bracket per seed."""

    total: tuple[int, ...]  # requests of each bracket
    found: tuple[int, ...]  # hits of the best schedule found
    bound: tuple[float, ...]  # hits that nobody can exceed
    hits: Mapping[str, tuple[int, ...]]  # policy -> hits on the same requests

    def of_found(self, policy: str) -> Estimate:
        """Hits as a share of those of the best schedule found: mean over seeds with its interval."""
        return interval(np.array(self.hits[policy]) / np.maximum(self.found, 1))

    def of_bound(self, policy: str) -> Estimate:
        """Hits as a share of the bound."""
        return interval(np.array(self.hits[policy]) / np.maximum(self.bound, 1.0))

    @property
    def title(self) -> str:
        """How much was bracketed, and the two ends."""
        total, found, bound = sum(self.total), sum(self.found), sum(self.bound)
        return (
            f"bracket of {total} requests ({len(self.total)} x the first ones of a seed, from an empty platform): "
            f"best schedule found {100.0 * found / total:.1f} % .. bound {100.0 * bound / total:.1f} %"
        )

    def table(self, short: bool = False) -> Table:
        """One row per policy: its hits as a share of those of the best schedule found, and of the bound."""
        rows = (
            (name, *(estimate_text(SHARE, share(name), short) for share in (self.of_found, self.of_bound)))
            for name in self.hits
        )
        return Table(("policy", "of the best found", "of the bound"), tuple(rows))

    def places(self) -> list[str]:
        """Each policy's place, in words."""
        return [
            f"{name}: {estimate_text(SHARE, self.of_found(name))} of the best found, "
            f"{estimate_text(SHARE, self.of_bound(name))} of the bound"
            for name in self.hits
        ]

    def rows(self) -> list[Row]:
        """One row per policy and seed."""
        return [
            {
                "policy": name,
                "bracket": number,
                "requests": total,
                "hits": hits[number],
                "found": found,
                "bound": bound,
            }
            for name, hits in self.hits.items()
            for number, (total, found, bound) in enumerate(
                zip(self.total, self.found, self.bound, strict=True)
            )
        ]

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per policy, and the best schedule found as the line at 1."""
        bars(
            axes, {name: self.of_found(name) for name in self.hits}, "hits / those of the best schedule found"
        )
        axes.axhline(1.0, color="black", linewidth=1.0)

    def facts(self) -> Data:
        """For manifests."""
        return asdict(self)


def standing(
    scenario: Scenario,
    policies: Sequence[PolicyLike],
    seeds: Sequence[int],
    requests: int,
    search: SearchOptions | None = None,
) -> Standing:
    """Bracket the first ``requests`` requests of every seed, and run the policies on them alone.

    The platform is empty at first, so these windows are easier than what follows. Raises ConfigError for closed
    loops, whose arrivals depend on the schedule, for jitter, and where the number of requests is below one.
    """
    if requests < 1:
        raise ConfigError(f"a bracket of {requests} requests; give at least 1")
    bench = prepare(scenario)
    machine, brackets = bench.machine, []
    hits: dict[str, list[int]] = {policy_name(policy): [] for policy in policies}
    for seed in seeds:
        window, options = _first(bench.requests(seed), requests), engine_options(scenario, seed, "requests")
        brackets.append(bracket(window, machine.table, machine, options, search))
        problem = build_problem(window, machine.table, machine, options)
        for policy in policies:
            with blame(policy_name(policy)):
                outcome = simulate_problem(problem, resolve_policy(policy), options)
            hits[policy_name(policy)].append(int((outcome.results["outcome"] == HIT).sum()))
    return Standing(
        tuple(len(both.found.admitted) for both in brackets),
        tuple(both.found.hits for both in brackets),
        tuple(both.bound.value for both in brackets),
        {name: tuple(found) for name, found in hits.items()},
    )


def _first(table: RequestTable, count: int) -> RequestTable:
    """The requests that arrive first. Raises ConfigError for closed loops."""
    if (table.after >= 0).any():
        raise ConfigError(
            "a bracket needs arrivals that do not depend on the schedule; leave closed-loop clients out"
        )
    return RequestTable(
        table.agreements, table.pair[:count], table.arrival_s[:count], table.relative_deadline_s[:count],
        table.priority[:count], table.deferrable[:count],
    )  # fmt: skip
