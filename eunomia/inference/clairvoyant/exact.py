"""The best schedule of a tiny case, by trying every start at every event: depth first, with what rules a branch out.

Layers start at arrivals and ends, as the engine decides. A set of one request more than the best known must be on time
as a whole; sets of least work first. A branch ends where a request's critical path no longer fits. It also ends where
the work due by a deadline exceeds what all accelerators can do until then. The search ends when no set of that size
is left, or its number of states is spent.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Demand
from eunomia.inference.clairvoyant.timetable import Entry, Timetable
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem

SLACK_S = 1e-9  # the engine's grace; times that differ by less are one
MOST_REQUESTS, MOST_LAYERS = 10, 24  # beyond, trying everything is hopeless


class Running(NamedTuple):
    """A layer on an accelerator."""

    lane: int
    request: int
    layer: int
    left_s: float  # isolated work left
    demand: Demand


class State(NamedTuple):
    """What is begun and done, by request as bits of layers."""

    now_s: float
    begun: tuple[int, ...]
    done: tuple[int, ...]
    running: tuple[Running, ...]


def suits(problem: Problem, options: EngineOptions) -> bool:
    """Whether a case is tiny, and decided at events alone."""
    models = problem.jobs.model
    layers = int(np.diff(problem.graph.offset)[models].sum())
    free = options.period_s is None and not options.switches
    return free and 0 < len(models) <= MOST_REQUESTS and layers <= MOST_LAYERS


class Exact:
    """One tiny problem; ``beyond`` looks for a schedule with more hits than are known."""

    def __init__(self, problem: Problem, states: int) -> None:
        self.problem, self.left = problem, states
        jobs, offset = problem.jobs, problem.graph.offset
        models = jobs.model.tolist()
        self.arrival_s = jobs.arrival_s.tolist()
        self.deadline_s = (jobs.arrival_s + jobs.relative_deadline_s + SLACK_S).tolist()
        self.base = [int(offset[m]) for m in models]
        self.whole = [(1 << int(offset[m + 1] - offset[m])) - 1 for m in models]
        nets = [problem.table.models[m] for m in models]
        self.needs = [[sum(1 << b for b in before) for before in net.predecessors] for net in nets]
        self.best_s = problem.graph.best_s.tolist()
        self.path_s = problem.graph.path_best_s.tolist()
        self.kind = problem.type_of.tolist()
        self.rates = CONTENTION[problem.contention].plain
        self.points = sorted(set(self.arrival_s))
        self.wanted: tuple[int, ...] = ()
        self.seen: set[object] = set()
        self.trail: dict[tuple[int, int], Entry] = {}

    def beyond(self, hits: int) -> tuple[int, Timetable] | None:
        """The most hits above ``hits`` that a schedule was found for, and that schedule; None = none was found."""
        found = None
        count = len(self.base)
        work_s = [self._work_s(r, 0) for r in range(count)]
        while hits < count:
            sets = sorted(combinations(range(count), hits + 1), key=lambda s: sum(work_s[r] for r in s))
            one = next((made for wanted in sets if (made := self._on_time(wanted)) is not None), None)
            if one is None:
                return found
            hits += 1
            found = hits, one
        return found

    def _on_time(self, wanted: tuple[int, ...]) -> Timetable | None:
        """A schedule in which all these requests are on time."""
        self.wanted, self.seen, self.trail = wanted, set(), {}
        none = (0,) * len(self.base)
        end_s = self._go(State(0.0, none, none, ()))
        return None if end_s is None else Timetable(dict(self.trail), end_s)

    def _go(self, at: State) -> float | None:
        """Decide at a state; the end of the schedule, which then stands in ``trail``, or None."""
        if all(at.done[r] == self.whole[r] for r in self.wanted):
            return at.now_s
        self.left -= 1
        facts = tuple((job.lane, job.request, job.layer, round(job.left_s, 9)) for job in at.running)
        if self.left < 0 or (key := (round(at.now_s, 9), at.begun, at.done, facts)) in self.seen:
            return None
        self.seen.add(key)
        if self._lost(at):
            return None
        ready = [
            (self.deadline_s[r], r, layer)
            for r in self.wanted if self.arrival_s[r] <= at.now_s + SLACK_S
            for layer, needs in enumerate(self.needs[r])
            if not at.begun[r] >> layer & 1 and needs & at.done[r] == needs
        ]  # fmt: skip
        return self._start(at, sorted(ready), 0)

    def _start(self, at: State, ready: list[tuple[float, int, int]], first: int) -> float | None:
        """Start some of the ready layers from ``first`` on, in every way; then let time pass."""
        busy = {job.lane for job in at.running}
        for n in range(first, len(ready)):
            _, r, layer = ready[n]
            tried: set[int] = set()
            for lane, kind in enumerate(self.kind):
                latency_s = float(self.problem.costs.latency_s[self.base[r] + layer, kind])
                if lane in busy or kind in tried or not np.isfinite(latency_s):
                    continue
                tried.add(kind)
                job = Running(lane, r, layer, latency_s, self._demand(at, r, layer, kind))
                begun = list(at.begun)
                begun[r] |= 1 << layer
                self.trail[r, layer] = lane, at.now_s
                running = tuple(sorted((*at.running, job)))
                end_s = self._start(at._replace(begun=tuple(begun), running=running), ready, n + 1)
                if end_s is not None:
                    return end_s
                del self.trail[r, layer]
        return self._pass(at)

    def _pass(self, at: State) -> float | None:
        """On to the next arrival or end."""
        rates = self.rates([job.demand for job in at.running], self.problem.bandwidth_bytes_s, len(self.kind))
        waits = [a - at.now_s for a in self.points if a > at.now_s + SLACK_S][:1]
        waits += [job.left_s / rate for job, rate in zip(at.running, rates, strict=True)]
        if not waits:
            return None
        wait_s, done, running = min(waits), list(at.done), []
        for job, rate in zip(at.running, rates, strict=True):
            left_s = job.left_s - rate * wait_s
            if left_s <= 1e-12 * max(1.0, at.now_s + wait_s):
                done[job.request] |= 1 << job.layer
                if at.now_s + wait_s > self.deadline_s[job.request]:
                    return None
            else:
                running.append(job._replace(left_s=left_s))
        return self._go(State(at.now_s + wait_s, at.begun, tuple(done), tuple(running)))

    def _lost(self, at: State) -> bool:
        """Whether some wanted request, or all of them by some deadline, can no longer be on time."""
        left_s = {(job.request, job.layer): job.left_s for job in at.running}
        due = []
        for r in self.wanted:
            now_s, work_s = max(at.now_s, self.arrival_s[r]), 0.0
            for layer in range(len(self.needs[r])):
                if at.done[r] >> layer & 1:
                    continue
                own_s, row = self.best_s[self.base[r] + layer], self.base[r] + layer
                rest_s = self.path_s[row]
                if (r, layer) in left_s:
                    rest_s += left_s[r, layer] - own_s
                    own_s = left_s[r, layer]
                work_s += own_s
                if now_s + rest_s > self.deadline_s[r]:
                    return True
            if at.done[r] == self.whole[r]:
                continue
            due.append((self.deadline_s[r], work_s))
        total_s = 0.0
        for deadline_s, work_s in sorted(due):
            total_s += work_s
            if total_s > len(self.kind) * (deadline_s - at.now_s) + SLACK_S:
                return True
        return False

    def _work_s(self, r: int, done: int) -> float:
        """Isolated work left of a request, every layer on its fastest type."""
        open_ = (layer for layer in range(len(self.needs[r])) if not done >> layer & 1)
        return float(sum(self.best_s[self.base[r] + layer] for layer in open_))

    def _demand(self, at: State, r: int, layer: int, kind: int) -> Demand:
        """What a layer that starts now asks of the memory."""
        costs, row = self.problem.costs, self.base[r] + layer
        weight = (1.0 + float(self.problem.jobs.priority[r])) / 4.0
        if np.isfinite(self.deadline_s[r]):
            slack_s = max(self.deadline_s[r] - SLACK_S - at.now_s, 1e-9)
            weight += 10.0 * self._work_s(r, at.done[r]) / slack_s
        values = (costs.latency_s[row, kind], costs.floor_s[row, kind], costs.dram_bytes[row, kind])
        latency_s, floor_s, dram_bytes = map(float, values)
        network = int(self.problem.jobs.model[r])
        asked = Demand(float(costs.demand_bytes_s[row, kind]), weight, latency_s, floor_s, dram_bytes)
        return asked._replace(network=network, slowdowns=self.problem.slowdowns)
