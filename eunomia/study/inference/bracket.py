"""The clairvoyant bracket: best schedule found .. bound that nobody can beat; always shown together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.core.errors import ConfigError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.clairvoyant import Found, SearchOptions, search_schedule
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.bounds import Bound, BoundOptions, hit_bound
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.run import blame, engine_options
from eunomia.workload.requests import RequestTable


@dataclass(frozen=True)
class Bracket:
    """The best possible number of hits lies in [found.hits, bound.value]."""

    found: Found
    bound: Bound

    def place(self, hits: float) -> float:
        """Where a policy stands: its hits as a share of the best schedule found; above 1 = it beat the search."""
        return hits / self.found.hits if self.found.hits else 1.0

    def closed(self, hits: float, baseline_hits: float) -> float:
        """Share of the gap between a baseline and the best schedule found that a policy closes; 0 without a gap."""
        gap = self.found.hits - baseline_hits
        return (hits - baseline_hits) / gap if gap > 0.0 else 0.0

    def __str__(self) -> str:
        return (
            f"best schedule found {100.0 * self.found.share:.1f} % .. bound {100.0 * self.bound.share:.1f} % "
            f"of {len(self.found.admitted)} requests"
        )


def bracket(
    requests: RequestTable,
    table: CostTable,
    platform: PlatformLike,
    options: EngineOptions | None = None,
    search: SearchOptions | None = None,
    bounding: BoundOptions | None = None,
) -> Bracket:
    """Search and bound under one set of engine options.

    ``bounding`` says how tightly; contention, bandwidth and horizon are taken from ``options``. Raises what
    ``search_schedule`` and ``hit_bound`` raise.
    """
    options = options or EngineOptions()
    bounded = replace(
        bounding or BoundOptions(), contention=options.contention, horizon_s=options.horizon_s,
        bandwidth_bytes_s=options.bandwidth_bytes_s,
    )  # fmt: skip
    found = search_schedule(requests, table, platform, options, search)
    return Bracket(found, hit_bound(requests, table, platform, bounded))


@dataclass(frozen=True)
class Standing:
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

    def facts(self) -> dict[str, Any]:
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
            with blame(policy):
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
