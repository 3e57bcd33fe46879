"""A group of jobs on accelerators that share bandwidth, and what a mapping of it is predicted to give. Compiled.

A *genome* has two rows over the group's jobs: an accelerator and a priority in [0, 1), least first. It is
evaluated by list scheduling in time: an idle accelerator starts, among its own jobs whose predecessors have
ended, the one of least priority; all running layers progress at 1 / max(1, D / B). Times in s, demands in
bytes/s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import jitted


class Group(NamedTuple):
    """Jobs to map. The first ``genes`` are free; those behind them run already, and cannot be moved."""

    latency_s: Floats  # (n, S) isolated; inf = cannot run
    demand_bytes_s: Floats  # (n, S)
    indegree: Ints  # (n,) predecessors within the group
    successor_start: Ints  # (n + 1,)
    successor: Ints  # (edges,)
    request: Ints  # (n,)
    deadline_s: Floats  # (R,) from now on, less what follows after the group; inf = none
    running: Ints  # (S,) job that runs there; -1 = none of the group
    free_in_s: Floats  # (S,) isolated time left of what runs there; 0 = idle
    running_demand: Floats  # (S,)
    bandwidth_bytes_s: float
    hold_bytes_s: float  # nothing starts while running layers ask for more; inf = no gate
    genes: int


def independent(latency_s: Floats, demand_bytes_s: Floats, bandwidth_bytes_s: float) -> Group:
    """A group of jobs without order or deadlines on idle accelerators: the published setting."""
    count, lanes = latency_s.shape
    none = np.empty(0, np.int64)
    return Group(
        np.ascontiguousarray(latency_s, np.float64),
        np.ascontiguousarray(demand_bytes_s, np.float64),
        np.zeros(count, np.int64),
        np.zeros(count + 1, np.int64),
        none,
        np.zeros(count, np.int64),
        np.empty(0),
        np.full(lanes, -1, np.int64),
        np.zeros(lanes),
        np.zeros(lanes),
        float(bandwidth_bytes_s),
        np.inf,
        count,
    )


@jitted
def evaluate(group: Group, accelerator: Ints, priority: Floats) -> tuple[int, float]:
    """(predicted hits, makespan [s]) of one genome."""
    lanes, genes = len(group.running), group.genes
    order = np.argsort(priority)
    start = np.zeros(lanes + 1, np.int64)  # jobs of each accelerator, by priority
    for j in range(genes):
        start[accelerator[j] + 1] += 1
    for s in range(lanes):
        start[s + 1] += start[s]
    listed, fill = np.empty(genes, np.int64), start.copy()
    for j in order:
        listed[fill[accelerator[j]]] = j
        fill[accelerator[j]] += 1
    head = start.copy()
    pending, left_s, demand = group.indegree.copy(), group.free_in_s.copy(), group.running_demand.copy()
    running = group.running.copy()
    busy = left_s > 0.0
    end_s = np.zeros(len(group.deadline_s))
    now_s, todo = 0.0, genes
    for s in range(lanes):
        if busy[s] and running[s] >= 0:
            todo += 1
    while True:
        total = 0.0
        for s in range(lanes):
            if busy[s]:
                total += demand[s]
        for s in range(lanes):
            while head[s] < start[s + 1] and pending[listed[head[s]]] < 0:
                head[s] += 1
            if busy[s] or total > group.hold_bytes_s:
                continue
            for place in range(head[s], start[s + 1]):
                j = listed[place]
                if pending[j] == 0:
                    pending[j], busy[s], running[s] = -1, True, j
                    left_s[s], demand[s] = group.latency_s[j, s], group.demand_bytes_s[j, s]
                    total += demand[s]
                    break
        if todo == 0:
            break
        slow = max(1.0, total / group.bandwidth_bytes_s)
        step = np.inf
        for s in range(lanes):
            if busy[s]:
                step = min(step, left_s[s])
        now_s += step * slow
        for s in range(lanes):
            if not busy[s]:
                continue
            left_s[s] -= step
            if left_s[s] <= 1e-12 * step:
                busy[s] = False
                j = running[s]
                if j < 0:
                    continue
                todo -= 1
                running[s] = -1
                for edge in range(group.successor_start[j], group.successor_start[j + 1]):
                    pending[group.successor[edge]] -= 1
                if len(end_s):
                    end_s[group.request[j]] = now_s
    hits = 0
    for r in range(len(end_s)):
        if end_s[r] <= group.deadline_s[r]:
            hits += 1
    return hits, now_s


@jitted
def list_schedule(group: Group) -> tuple[Ints, Floats]:
    """The genome of list scheduling in order of the jobs: the first ready one, on its fastest idle accelerator."""
    lanes, genes = len(group.running), group.genes
    accelerator, priority = np.zeros(genes, np.int64), np.ones(genes)
    pending, left_s, demand = group.indegree.copy(), group.free_in_s.copy(), group.running_demand.copy()
    running, busy = group.running.copy(), group.free_in_s > 0.0
    started = 0
    while True:
        total, idle = 0.0, 0
        for s in range(lanes):
            if busy[s]:
                total += demand[s]
            else:
                idle += 1
        for j in range(genes):
            if idle == 0 or total > group.hold_bytes_s:
                break
            if pending[j] != 0:
                continue
            best = -1
            for s in range(lanes):
                if not busy[s] and (best < 0 or group.latency_s[j, s] < group.latency_s[j, best]):
                    best = s
            if group.latency_s[j, best] == np.inf:
                continue
            pending[j], busy[best], running[best] = -1, True, j
            left_s[best], demand[best] = group.latency_s[j, best], group.demand_bytes_s[j, best]
            total += demand[best]
            idle -= 1
            accelerator[j], priority[j] = best, (started + 0.5) / genes
            started += 1
        if started == genes:
            return accelerator, priority
        step = np.inf
        for s in range(lanes):
            if busy[s]:
                step = min(step, left_s[s])
        for s in range(lanes):
            if not busy[s]:
                continue
            left_s[s] -= step
            if left_s[s] <= 1e-12 * step:
                busy[s] = False
                if running[s] >= 0:
                    for edge in range(
                        group.successor_start[running[s]], group.successor_start[running[s] + 1]
                    ):
                        pending[group.successor[edge]] -= 1
                running[s] = -1
