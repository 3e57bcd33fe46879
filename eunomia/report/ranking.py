"""Greedy decisions recomputed from the records: keys, lateness and placement of every candidate.

An independent reading of docs/engine.md, on purpose: the report does not ask the engine that it
checks. Policies that are not Greedy, keys that read running indicators, learned estimates and
periodic runs cannot be recomputed from the tables; ``Rule.of`` says so in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.report.columns import Floats, Ints
from eunomia.report.history import History

GRACE_S = 1e-9


class Facts:
    """What the scheduler knew of some sub-jobs when they became ready (READY in the policy's view); arrays."""

    def __init__(self, rule: Rule, rows: Ints) -> None:
        self._rule, self._rows = rule, rows
        self._job, self._row = rule.history.job_of[rows], rule.cost_row[rows]
        self.bandwidth_bytes_s: float = rule.bandwidth_bytes_s

    @property
    def arrival_s(self) -> Floats:
        """Of the request."""
        return self._rule.history.arrival_s[self._job]

    @property
    def deadline_s(self) -> Floats:
        """Of the request; inf = none."""
        return self._rule.history.deadline_s[self._job]

    @property
    def priority(self) -> Floats:
        """Of the request."""
        return self._rule.history.priority[self._job]

    @property
    def path_best_s(self) -> Floats:
        """Critical path to the end, least estimates."""
        return np.asarray(self._rule.path_best_s[self._row])

    @property
    def path_mean_s(self) -> Floats:
        """Critical path to the end, mean estimates over types."""
        return np.asarray(self._rule.path_mean_s[self._row])

    @property
    def work_best_s(self) -> Floats:
        """Sum of least estimates over layers not ended when the sub-job became ready."""
        return self._rule.left(self._rows)[:, 0]

    @property
    def work_mean_s(self) -> Floats:
        """The same of mean estimates."""
        return self._rule.left(self._rows)[:, 1]

    @property
    def bytes_left(self) -> Floats:
        """The same of DRAM bytes on the type of least estimate."""
        return self._rule.left(self._rows)[:, 2]


@dataclass(frozen=True)
class Order:
    """An ordering rule: its key (least first) and how to say it.

    ``tells``: "at" = the key is an instant, "left" = an instant told as time left until it,
    "span" = seconds, "number" = neither.
    """

    key: Callable[[Facts, float], Floats]  # facts of waiting sub-jobs, now_s
    noun: str
    tells: str = "span"
    sign: float = 1.0  # -1 when the key is the negative of what the noun names


ORDERS: dict[str, Order] = {
    "fcfs": Order(lambda f, now: f.arrival_s, "arrival", "at"),
    "edf": Order(lambda f, now: f.deadline_s, "deadline", "at"),
    "sjf": Order(lambda f, now: f.work_best_s, "remaining work"),
    "sjf_mean": Order(lambda f, now: f.work_mean_s, "mean remaining work"),
    "llf": Order(lambda f, now: f.deadline_s - f.path_best_s, "laxity", "left"),
    "llf_mean": Order(lambda f, now: f.deadline_s - f.path_mean_s, "mean laxity", "left"),
    "heft": Order(lambda f, now: -f.path_mean_s, "upward rank", "span", -1.0),
    "edf_bytes": Order(
        lambda f, now: f.deadline_s + 3.0 * f.bytes_left / f.bandwidth_bytes_s, "deadline plus toll", "at"
    ),
    "priority": Order(lambda f, now: -f.priority, "priority", "number", -1.0),
    "laxity_ratio": Order(lambda f, now: (f.deadline_s - now) / f.path_best_s, "laxity ratio", "number"),
}
PLACES = ("any_idle", "pref", "eft", "eft_ca", "first_idle")


@dataclass(frozen=True)
class Candidates:
    """One recorded decision as the rule saw it; arrays run over what waited, in order of readiness."""

    rows: Ints  # rows of History.subjobs
    key: Floats
    late: npt.NDArray[np.bool_]  # hopeless and therefore after all others
    wanted: Ints  # accelerator that the placement rule gives it; -1 = none can run it
    startable: npt.NDArray[np.bool_]  # that accelerator is idle
    idle: npt.NDArray[np.bool_]  # (S,)

    @property
    def first(self) -> int:
        """Place in ``rows`` of the sub-job to start; -1 = hold."""
        able = np.flatnonzero(self.startable)
        if not len(able):
            return -1
        able = able[self.late[able] == self.late[able].min()]
        return int(able[np.argmin(self.key[able])])  # equal keys: the first to become ready


class Rule:
    """A Greedy policy (order, place, feasible, gate) over a run's history."""

    def __init__(  # noqa: D107
        self, history: History, order: str, place: str, tiered: bool, bandwidth_bytes_s: float
    ) -> None:
        self.history, self.order, self.place, self.tiered = history, ORDERS[order], place, tiered
        self.bandwidth_bytes_s: float = bandwidth_bytes_s
        networks = list(history.networks.values())
        sizes = [len(network.layers) for network in networks]
        offset = dict(zip(history.networks, np.cumsum([0, *sizes]).tolist(), strict=False))
        start = np.array([offset[model] for model in history.model], np.int64)
        self.cost_row = start[history.job_of] + history.subjobs.layer  # (sub-jobs,) row in what follows
        estimate = np.concatenate([n.estimate_s for n in networks])
        demand = np.concatenate([n.demand_bytes_s for n in networks])
        self._estimate_s, self._demand_bytes_s = (
            estimate[:, history.type_of],
            demand[:, history.type_of],
        )  # (rows, S)
        self._favourite = estimate.argmin(axis=1)  # (rows,) type of least estimate
        self.path_best_s = np.concatenate([n.longest(n.best_s) for n in networks])
        self.path_mean_s = np.concatenate([n.longest(n.mean_s) for n in networks])
        self._left = np.full((len(self.cost_row), 3), np.nan)

    @classmethod
    def of(cls, history: History) -> tuple[Rule | None, str]:
        """The rule of a run, or None and the reason why its decisions cannot be recomputed."""
        policy, engine = history.run.manifest.get("policy"), history.run.manifest.get("engine") or {}
        if not isinstance(policy, Mapping) or policy.get("order") is None or policy.get("place") is None:
            return None, f"policy '{history.run.policy}' is not an order with a placement rule"
        order, place = str(policy["order"]), str(policy["place"])
        if order not in ORDERS:
            return None, f"the key of order '{order}' reads more than the tables hold"
        if place not in PLACES:
            return None, f"placement '{place}' is not known to this report"
        if engine.get("period_s"):
            return None, "decisions were taken at period boundaries, through queues"
        if _estimator(engine) == "ewma":
            return None, "the scheduler's estimates were learned during the run"
        tiered = bool(policy.get("feasible")) or engine.get("late", "last") == "last"
        bandwidth = engine.get("bandwidth_bytes_s")
        return cls(history, order, place, tiered, np.inf if bandwidth is None else float(bandwidth)), ""

    def left(self, rows: Ints) -> Floats:
        """(n, 3) least work, mean work and bytes of the layers not ended when each sub-job became ready."""
        for row in rows[np.isnan(self._left[rows, 0])].tolist():
            network = self.history.network(int(self.history.subjobs.request[row]))
            rest = ~self.history.ended_before_ready(row)
            sums = (network.best_s[rest].sum(), network.mean_s[rest].sum(), network.bytes_each[rest].sum())
            self._left[row] = sums
        return self._left[rows]

    def at(self, place: int) -> Candidates:
        """Recompute decision ``place`` of the history from what was recorded before it."""
        h = self.history
        now, rows, idle = float(h.decision_s[place]), h.candidates(place), h.idle[place]
        facts = Facts(self, rows)
        late = np.zeros(len(rows), np.bool_)
        if self.tiered:
            late = facts.deadline_s + GRACE_S < now + facts.path_best_s
        wanted = self._wanted(place, self.cost_row[rows], idle)
        return Candidates(
            rows=rows,
            key=self.order.key(facts, now),
            late=late,
            wanted=wanted,
            startable=(wanted >= 0) & idle[wanted],
            idle=idle,
        )

    def _wanted(self, place: int, cost_rows: Ints, idle: npt.NDArray[np.bool_]) -> Ints:
        """What the placement rule gives each sub-job: least cost, idle before busy, then least index; -1 = none."""
        cost = self._cost(place, cost_rows, idle)
        least = cost.min(axis=1)
        equal = cost == least[:, None]
        among = np.where((equal & idle).any(axis=1)[:, None], equal & idle, equal)
        return np.where(np.isfinite(least), among.argmax(axis=1), -1)

    def _cost(self, place: int, cost_rows: Ints, idle: npt.NDArray[np.bool_]) -> Floats:
        """(n, S) what the placement rule minimises; inf = never."""
        h, estimate = self.history, self._estimate_s[cost_rows]
        if self.place == "any_idle":
            return np.where(idle, estimate, np.inf)
        if self.place == "first_idle":
            return np.where(idle & np.isfinite(estimate), 0.0, np.inf)
        if self.place == "pref":
            return np.where(h.type_of == self._favourite[cost_rows][:, None], 0.0, np.inf)
        free, running = h.free_in_s[place], float(h.demand_bytes_s[place])
        slow = max(1.0, running / self.bandwidth_bytes_s)
        if self.place == "eft_ca":
            demand = self._demand_bytes_s[cost_rows]
            return np.asarray(
                free * slow + estimate * np.maximum(1.0, (running + demand) / self.bandwidth_bytes_s)
            )
        return np.asarray((free + estimate) * slow)


def _estimator(engine: Mapping[str, object]) -> str:
    estimator = engine.get("estimator")
    if isinstance(estimator, Mapping):
        return str(estimator.get("mode", "exact"))
    return str(estimator or "exact")
