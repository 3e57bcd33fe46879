"""The tables of one run as the metrics want them: read once, derived values computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from eunomia.core.arrays import Floats
from eunomia.metrics import bandwidth, causes, efficiency, fairness, indicators, service
from eunomia.metrics.columns import Requests, Subjobs, Tables, accelerators, num_rows
from eunomia.metrics.window import Measured
from eunomia.workload.tenant import Agreement


@dataclass(frozen=True)
class Facts:
    """What the tables do not say; None = not known, and the metrics that need it are nan."""

    bandwidth_bytes_s: float | None = None  # B of the platform; inf = unlimited
    period_s: float | None = None  # T_s; None for an event-driven run
    decision_times_s: Floats | None = None  # (decisions,) measured time of each decision, seconds
    scheduler_energy_j: float | None = None  # energy that deciding took
    guards: Mapping[str, int] | None = None  # counts of a learned policy's decisions and guards

    @classmethod
    def of(cls, manifest: Mapping[str, object]) -> Facts:
        """Facts from the manifest of a run: bandwidth (null = unlimited) and period of the engine, guards."""
        engine, guards = manifest.get("engine"), manifest.get("guards")
        known = cls(guards=guards if isinstance(guards, Mapping) else None)
        if not isinstance(engine, Mapping) or "bandwidth_bytes_s" not in engine:
            return known
        limit = engine["bandwidth_bytes_s"]
        bandwidth = np.inf if limit is None else float(limit)
        return replace(known, bandwidth_bytes_s=bandwidth, period_s=engine.get("period_s"))

    def over(self, others: Facts) -> Facts:
        """These facts, and the others' where these say nothing."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(others, **{name: value for name, value in own.items() if value is not None})


class Run:
    """The tables of one run, read once; each property is computed at its first use."""

    def __init__(
        self, tables: Tables, agreements: Sequence[Agreement] | None, scope: Measured, facts: Facts
    ) -> None:
        self.tables, self.agreements, self.scope, self.facts = tables, agreements, scope, facts

    @property
    def requests(self) -> Requests:
        """A, and the requests with an unknown fate.

        Misleads: both depend on the policy.
        """
        return self.scope.requests

    @cached_property
    def departed(self) -> Requests:
        """Requests that finished within the measured time."""
        return self.scope.departed

    @cached_property
    def response_s(self) -> Floats:
        """(finished,) response times."""
        return service.response_s(self.requests)

    @cached_property
    def slowdown(self) -> Floats:
        """(finished,) response / iso."""
        return service.slowdown(self.requests)

    @cached_property
    def lateness_s(self) -> Floats:
        """(finished with a deadline,) finish - deadline."""
        return service.lateness_s(self.requests)

    @cached_property
    def tardiness_s(self) -> Floats:
        """(finished with a deadline,) max(0, finish - deadline)."""
        return np.maximum(0.0, self.lateness_s)

    @property
    def bandwidth_bytes_s(self) -> float:
        """B; unlimited when not known."""
        return np.inf if self.facts.bandwidth_bytes_s is None else self.facts.bandwidth_bytes_s

    @property
    def decision_times_s(self) -> Floats:
        """Measured time per decision (`Facts.decision_times_s`): p50, p99.

        Misleads: it is wall-clock time of the simulating machine, perhaps with compilation.
        """
        times = self.facts.decision_times_s
        return np.empty(0) if times is None else times

    @property
    def guards(self) -> Mapping[str, int]:
        """What a learned policy counted; empty without one."""
        return self.facts.guards or {}

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of queueing, service, contention and switching in all time in the system."""
        return causes.split_shares(causes.split(self.requests, self.scope.horizon_s))

    @cached_property
    def pairs(self) -> pa.Table:
        """The pairs table: of the agreements, or the recorded one."""
        if self.agreements is not None:
            return indicators.pairs_of(self.scope, self.agreements)
        return self.tables["pairs"]

    @cached_property
    def subjobs(self) -> Subjobs:
        """Sub-jobs of the run; none when they were not recorded."""
        if self.has("subjobs"):
            return Subjobs.read(self.tables)
        return Subjobs(*(np.empty(0) for _ in range(4)))

    @cached_property
    def demand(self) -> bandwidth.Demand:
        """Demand for bandwidth over the measured time."""
        return bandwidth.demand_over_time(self.subjobs, self.scope.start_s, self.scope.end_s)

    @cached_property
    def rho(self) -> dict[str, float]:
        """Finish-time rho by tenant."""
        everyone = self.scope.everyone
        alone = fairness.alone_response_s(everyone, self.num_accelerators, self._weights())
        order = np.argsort(everyone.request, kind="stable")
        rows = order[np.searchsorted(everyone.request, self.requests.request, sorter=order)]
        return fairness.finish_time_rho(self.requests, alone[rows])

    @property
    def num_accelerators(self) -> int:
        """S."""
        return num_rows(self.tables["accelerators"])

    def used(self, effective: bool) -> float:
        """Utilisation within the measured time, or over the whole run when sub-jobs were not recorded."""
        if len(self.subjobs.start_s):
            share = efficiency.effective_utilisation if effective else efficiency.utilisation
            return share(self.subjobs, self.num_accelerators, self.scope.start_s, self.scope.end_s)
        _, busy_s, work_s = accelerators(self.tables["accelerators"])
        return efficiency.utilisation_of_run(work_s if effective else busy_s, self.scope.horizon_s)

    def has(self, need: str) -> bool:
        """Whether a table with rows, or a fact, is there."""
        if need in Facts.__dataclass_fields__:
            return getattr(self.facts, need) is not None
        if need == "pairs" and self.agreements is not None:
            return True
        return need in self.tables and num_rows(self.tables[need]) > 0

    def _weights(self) -> dict[str, float]:
        return {agreement.tenant: agreement.weight for agreement in self.agreements or ()}
