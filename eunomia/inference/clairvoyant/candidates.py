"""What a clairvoyant search tries, and how: a rule, the requests that it admits, a credit in seconds for each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.contract.rows import Ready, System
from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.clairvoyant.timetable import Timetable
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.policy import Lookahead
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order, edf, edf_bytes, llf, sjf
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable

Schedule: TypeAlias = Greedy | Lookahead | Timetable
# contention modes in which a priority is physics, not only order
WEIGHING = tuple(name for name, model in CONTENTION.items() if model.weighs)
PLACES = ("any_idle", "pref", "eft", "eft_ca")
GATES = (math.inf, 1.0, 0.9, 0.75, 0.6)


def credited_edf(ready: Ready, system: System) -> float:
    """Deadline less credit."""
    return ready.deadline_s - ready.priority


def credited_llf(ready: Ready, system: System) -> float:
    """Laxity less credit."""
    return ready.deadline_s - ready.path_best_s - ready.priority


def credited_edf_bytes(ready: Ready, system: System) -> float:
    """Deadline with a toll on bandwidth (policies/ordering.py), less credit."""
    return ready.deadline_s + 3.0 * ready.bytes_left / system.bandwidth_bytes_s - ready.priority


def credited_sjf(ready: Ready, system: System) -> float:
    """Remaining work less credit."""
    return ready.work_best_s - ready.priority


CREDITED = {
    order.name: order
    for order in (
        Order("edf-credit", credited_edf),
        Order("edf_bytes-credit", credited_edf_bytes),
        Order("llf-credit", credited_llf),
        Order("sjf-credit", credited_sjf),
    )
}
PLAIN = {f"{name}-credit": Order(name, key) for name, key in
         (("edf", edf), ("edf_bytes", edf_bytes), ("llf", llf), ("sjf", sjf))}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy on the requests that it admits, with its outcome once it was tried."""

    policy: Schedule
    admitted: Flags  # (n,)
    credit_s: Floats  # (n,) taken off a request's key
    hit: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))  # (n,)
    start_s: Floats = field(default_factory=lambda: np.zeros(0))  # (n,) nan = never
    finish_s: Floats = field(default_factory=lambda: np.zeros(0))  # (n,)

    @property
    def hits(self) -> int:
        """Requests on time."""
        return int(self.hit.sum())


class Bench:
    """Evaluates candidates on one problem."""

    def __init__(
        self, requests: RequestTable, table: CostTable, platform: PlatformLike, options: EngineOptions
    ) -> None:
        if (requests.after >= 0).any():
            raise ConfigError(
                "a clairvoyant schedule needs arrivals that do not depend on it; leave closed-loop clients out"
            )
        if options.drawn:
            raise ConfigError(
                "a clairvoyant schedule needs true times; set estimator jitter to 0, and switch_s and move_s to one "
                "number by type"
            )
        self.requests, self.runs = requests, 0
        self.options = replace(
            options, estimator=Estimator(), decision_s=0.0, charge_measured=False, record="requests"
        )
        self.problem: Problem = build_problem(requests, table, platform, self.options)
        self.weighing = self.problem.contention in WEIGHING
        self.limited = math.isfinite(self.problem.bandwidth_bytes_s)
        finite = requests.relative_deadline_s[np.isfinite(requests.relative_deadline_s)]
        self.work_s: Floats = self.problem.graph.iso_best_s[self.problem.jobs.model]  # (n,)
        self.scale_s = float(finite.mean()) if len(finite) else 1.0

    @property
    def orders(self) -> dict[str, Order]:
        """Credits are priorities, and where those shape contention the search leaves them alone."""
        orders = PLAIN if self.weighing else CREDITED
        return orders if self.limited else {n: o for n, o in orders.items() if "bytes" not in n}

    @property
    def gates(self) -> tuple[float, ...]:
        """Without a bandwidth limit a gate never shuts."""
        return GATES if self.limited else GATES[:1]

    def rules(self) -> list[Greedy]:
        """The portfolio."""
        return [
            Greedy(order, place, True, gate)
            for order in self.orders.values() for place in PLACES for gate in self.gates
        ]  # fmt: skip

    def table_of(self, candidate: Candidate) -> RequestTable:
        """The admitted requests with their credits."""
        rows, all_ = np.flatnonzero(candidate.admitted), self.requests
        priority = all_.priority if self.weighing else candidate.credit_s
        return RequestTable(
            all_.agreements, all_.pair[rows], all_.arrival_s[rows], all_.relative_deadline_s[rows],
            priority[rows], all_.deferrable[rows], size=all_.size[rows],
        )  # fmt: skip

    def try_out(self, candidate: Candidate) -> Candidate:
        """The candidate with its hits."""
        self.runs += 1
        rows = np.flatnonzero(candidate.admitted)
        hit = np.zeros(len(self.requests), np.bool_)
        start_s, finish_s = np.full((2, len(hit)), np.nan)
        if len(rows):
            jobs = self.problem.jobs
            jobs = jobs._replace(
                pair=jobs.pair[rows], model=jobs.model[rows], arrival_s=jobs.arrival_s[rows],
                relative_deadline_s=jobs.relative_deadline_s[rows], deferrable=jobs.deferrable[rows],
                priority=jobs.priority[rows] if self.weighing else candidate.credit_s[rows],
                next=jobs.next[rows], num_open=len(rows),
            )  # fmt: skip
            outcome = simulate_problem(self.problem._replace(jobs=jobs), candidate.policy, self.options)
            hit[rows] = outcome.results["outcome"] == HIT
            start_s[rows], finish_s[rows] = outcome.results["start_s"], outcome.results["finish_s"]
        return replace(candidate, hit=hit, start_s=start_s, finish_s=finish_s)

    def everything(self, policy: Schedule) -> Candidate:
        """A policy with all requests admitted and no credits."""
        count = len(self.requests)
        return Candidate(policy, np.ones(count, np.bool_), np.zeros(count))

    def worth(self, candidate: Candidate) -> tuple[int, float]:
        """Hits; among equal ones, less work in them leaves room for more."""
        return candidate.hits, -float(self.work_s[candidate.hit].sum())

    def as_finished(self, rule: Candidate, plan: Candidate) -> Candidate:
        """The rule's placement and gate on what a plan served, in the order in which it finished them."""
        assert isinstance(rule.policy, Greedy), "only rules take credits"
        due_s = self.requests.deadline_s
        known = plan.hit & np.isfinite(due_s)
        credit_s = np.where(known, due_s - plan.finish_s, 0.0)
        order = replace(rule.policy, order=next(iter(self.orders.values())))
        return Candidate(order, plan.hit, credit_s - min(0.0, float(credit_s.min(initial=0.0))))
