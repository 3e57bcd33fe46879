"""Greedy decisions recomputed from the records: keys, lateness and placement of every candidate.

An independent reading of docs/engine.md, on purpose: the report does not ask the engine that it
checks. Policies that are not Greedy, keys that read running indicators, learned estimates and
periodic runs cannot be recomputed from the tables; ``Rule.of`` says so in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.report.history import Floats, History, Ints

GRACE_S = 1e-9


@dataclass(frozen=True)
class Facts:
    """What the scheduler knew of one sub-job when it became ready (READY in the policy's view)."""

    arrival_s: float
    deadline_s: float
    work_best_s: float
    work_mean_s: float
    path_best_s: float
    path_mean_s: float
    bytes_left: float
    priority: float
    bandwidth_bytes_s: float


@dataclass(frozen=True)
class Order:
    """An ordering rule: its key (least first) and how to say it.

    ``tells``: "at" = the key is an instant, "left" = an instant told as time left until it,
    "span" = seconds, "number" = neither.
    """

    key: Callable[[Facts, float], float]  # facts of a waiting sub-job, now_s
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
        return int(min(able, key=lambda i: (bool(self.late[i]), float(self.key[i]), int(i))))


class Rule:
    """A Greedy policy (order, place, feasible, gate) over a run's history."""

    def __init__(  # noqa: D107
        self, history: History, order: str, place: str, tiered: bool, bandwidth_bytes_s: float
    ) -> None:
        self.history, self.order, self.place, self.tiered = history, ORDERS[order], place, tiered
        self.bandwidth_bytes_s = bandwidth_bytes_s
        self._facts: dict[int, Facts] = {}

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

    @cached_property
    def _paths(self) -> dict[str, tuple[Floats, Floats]]:
        return {n.name: (n.longest(n.best_s), n.longest(n.mean_s)) for n in self.history.networks.values()}

    def facts(self, row: int) -> Facts:
        """Facts of sub-job ``row`` at the moment it became ready."""
        if row not in self._facts:
            h, s = self.history, self.history.subjobs
            request, layer = int(s.request[row]), int(s.layer[row])
            network, left = h.network(request), ~h.ended_before_ready(row)
            path_best, path_mean = self._paths[network.name]
            job = h.row_of[request]
            self._facts[row] = Facts(
                arrival_s=float(h.arrival_s[job]),
                deadline_s=float(h.deadline_s[job]),
                work_best_s=float(network.best_s[left].sum()),
                work_mean_s=float(network.mean_s[left].sum()),
                path_best_s=float(path_best[layer]),
                path_mean_s=float(path_mean[layer]),
                bytes_left=float(network.bytes_each[left].sum()),
                priority=float(h.priority[job]),
                bandwidth_bytes_s=self.bandwidth_bytes_s,
            )
        return self._facts[row]

    def at(self, place: int) -> Candidates:
        """Recompute decision ``place`` of the history from what was recorded before it."""
        h = self.history
        now, rows = float(h.decision_s[place]), h.candidates(place)
        facts = [self.facts(int(row)) for row in rows]
        idle = h.running(place) < 0
        wanted = np.array([self._wanted(place, int(row), idle) for row in rows], np.int64)
        return Candidates(
            rows=rows,
            key=np.array([self.order.key(f, now) for f in facts], np.float64),
            late=np.array([self.tiered and _hopeless(f, now) for f in facts], np.bool_),
            wanted=wanted,
            startable=np.array([w >= 0 and bool(idle[w]) for w in wanted], np.bool_),
            idle=idle,
        )

    def _wanted(self, place: int, row: int, idle: npt.NDArray[np.bool_]) -> int:
        """What the placement rule gives a sub-job: least cost, idle before busy, then least index."""
        h, s = self.history, self.history.subjobs
        network, layer = h.network(int(s.request[row])), int(s.layer[row])
        estimate = network.estimate_s[layer][h.type_of]
        cost = self._cost(place, network.demand_bytes_s[layer][h.type_of], estimate, idle)
        if not np.isfinite(cost).any():
            return -1
        return int(min(range(len(cost)), key=lambda a: (cost[a], not idle[a], a)))

    def _cost(self, place: int, demand: Floats, estimate: Floats, idle: npt.NDArray[np.bool_]) -> Floats:
        """(S,) what the placement rule minimises; inf = never."""
        h = self.history
        if self.place == "any_idle":
            return np.where(idle, estimate, np.inf)
        if self.place == "first_idle":
            return np.where(idle & np.isfinite(estimate), 0.0, np.inf)
        if self.place == "pref":
            kinds = [estimate[h.type_of == kind][0] for kind in range(len(h.types))]
            return np.where((h.type_of == int(np.argmin(kinds))) & np.isfinite(estimate), 0.0, np.inf)
        free, running = h.free_in_s(place), float(h.demand_bytes_s[place])
        slow = max(1.0, running / self.bandwidth_bytes_s)
        if self.place == "eft_ca":
            own = np.maximum(1.0, (running + demand) / self.bandwidth_bytes_s)
            return np.asarray(free * slow + estimate * own)
        return np.asarray((free + estimate) * slow)


def _hopeless(facts: Facts, now_s: float) -> bool:
    return facts.deadline_s + GRACE_S < now_s + facts.path_best_s


def _estimator(engine: Mapping[str, Any]) -> str:
    estimator = engine.get("estimator")
    if isinstance(estimator, Mapping):
        return str(estimator.get("mode", "exact"))
    return str(estimator or "exact")
