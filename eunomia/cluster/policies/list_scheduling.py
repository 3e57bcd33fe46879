"""Classical rules for independent tasks on given machines, offline: who goes where, in which order.

All take ``time_s`` (tasks, machines), inf = cannot run there, and return a :class:`Plan`. Sources: Graham 1966 and
1969 (list scheduling, LPT); Ibarra and Kim 1977, Maheswaran et al. 1999 (the others).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PlatformError


@dataclass(frozen=True)
class Plan:
    """Machine and finish time of each task (tasks,); machines run their tasks back to back."""

    machine: Ints
    finish_s: Floats

    @property
    def makespan_s(self) -> float:
        """Last finish; 0 of nothing."""
        return float(self.finish_s.max(initial=0.0))


def in_order(time_s: Floats, ready_s: Floats, order: Ints, pick: Callable[[Floats, Floats], int]) -> Plan:
    """Tasks one after the other, each on the machine ``pick(times, ready)`` chooses among those that can run it."""
    _runnable(time_s)
    ready = np.array(ready_s, float)
    machine, finish = np.full(len(time_s), -1, np.int64), np.zeros(len(time_s))
    for task in order.tolist():
        chosen = pick(time_s[task], ready)
        ready[chosen] += time_s[task, chosen]
        machine[task], finish[task] = chosen, ready[chosen]
    return Plan(machine, finish)


def met(time_s: Floats, ready_s: Floats) -> int:
    """Minimum execution time: the fastest machine, however long its queue. Piles up where one machine is best."""
    return int(np.argmin(time_s))


def mct(time_s: Floats, ready_s: Floats) -> int:
    """Minimum completion time: the earliest finish."""
    return int(np.argmin(ready_s + time_s))


def olb(time_s: Floats, ready_s: Floats) -> int:
    """Opportunistic load balancing: the first machine that is free, however slow it is for the task."""
    return int(np.argmin(np.where(np.isfinite(time_s), ready_s, np.inf)))


def list_schedule(length_s: Floats, machines: int) -> Plan:
    """Tasks as listed on the first free of identical machines: makespan <= (2 - 1/m) of the optimum."""
    time_s = np.repeat(length_s[:, None], machines, axis=1)
    return in_order(time_s, np.zeros(machines), np.arange(len(length_s)), olb)


def longest_first(length_s: Floats, machines: int) -> Plan:
    """LPT: list scheduling, longest first: makespan <= (4/3 - 1/(3m)) of the optimum."""
    time_s = np.repeat(length_s[:, None], machines, axis=1)
    return in_order(time_s, np.zeros(machines), np.argsort(-length_s, kind="stable"), olb)


def min_min(time_s: Floats, ready_s: Floats) -> Plan:
    """The task that can finish first goes first. Long tasks come last and may run alone at the end."""
    return _batch(time_s, ready_s, lambda best, second: -best)


def max_min(time_s: Floats, ready_s: Floats) -> Plan:
    """The task whose earliest finish is latest goes first: long ones early. Mean completion time suffers."""
    return _batch(time_s, ready_s, lambda best, second: best)


def sufferage(time_s: Floats, ready_s: Floats) -> Plan:
    """The task that would lose most by its second-best machine goes first. One machine: as Min-Min."""
    return _batch(time_s, ready_s, lambda best, second: np.where(np.isfinite(second), second - best, 0.0))


def _batch(time_s: Floats, ready_s: Floats, urgency: Callable[[Floats, Floats], Floats]) -> Plan:
    _runnable(time_s)
    ready = np.array(ready_s, float)
    machine, finish = np.full(len(time_s), -1, np.int64), np.zeros(len(time_s))
    waits = np.arange(len(time_s))
    while len(waits):
        done = ready[None, :] + time_s[waits]
        ordered = np.sort(done, axis=1)
        second = ordered[:, 1] if done.shape[1] > 1 else np.full(len(waits), np.inf)
        at = int(np.argmax(urgency(ordered[:, 0], second)))
        task, chosen = int(waits[at]), int(np.argmin(done[at]))
        ready[chosen] = done[at, chosen]
        machine[task], finish[task] = chosen, ready[chosen]
        waits = np.delete(waits, at)
    return Plan(machine, finish)


def best_makespan_s(time_s: Floats) -> float:
    """The optimum by trying every assignment: machines^tasks, for tests."""
    _runnable(time_s)
    tasks, machines = time_s.shape
    best = np.inf
    for assignment in itertools.product(range(machines), repeat=tasks):
        load = np.bincount(assignment, time_s[np.arange(tasks), assignment], machines)
        best = min(best, float(load.max()))
    return best


def _runnable(time_s: Floats) -> None:
    nowhere = np.flatnonzero(~np.isfinite(time_s).any(axis=1))
    if len(nowhere):
        raise PlatformError(f"task {nowhere[0]} can run on no machine")
