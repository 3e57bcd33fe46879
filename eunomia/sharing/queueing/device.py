"""One simulated device that runs up to two batches at once and can pause a batch between its blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from eunomia.core.errors import PolicyError
from eunomia.sharing.queueing.tables import ExecutionTables

SLOTS = 2
TINY_S = 1e-12
Kind = Literal["run", "batch", "stack", "preempt", "wait"]


@dataclass(frozen=True, slots=True)
class Task:
    """One request: whose, for which network of the tables, since when."""

    tenant: int
    network: int
    arrival_s: float


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks of one network that were started together. ``whole_s``, ``left_s``: seconds alone."""

    network: int
    tasks: tuple[Task, ...]
    whole_s: float
    left_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """``run`` one task, ``batch`` or ``stack`` ``size`` tasks of ``network``; or go on with a ``paused`` unit.

    ``stack``: beside the running unit. ``preempt``: pause the running unit at its next block boundary. ``wait``: ask
    again at the next event, or at ``until_s``.
    """

    kind: Kind
    network: int = -1
    size: int = 1
    paused: int = -1
    until_s: float = math.inf


@dataclass
class Device:
    """What runs, what is paused, what waits (by network, in order of arrival). Seconds of the virtual clock."""

    tables: ExecutionTables
    resume_s: float = 0.0  # what going on with a paused unit costs
    now_s: float = 0.0
    running: list[Unit] = field(default_factory=list)
    paused: list[Unit] = field(default_factory=list)
    waiting: list[list[Task]] = field(default_factory=list)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.waiting = self.waiting or [[] for _ in self.tables.networks]

    def copy(self) -> Device:
        """A state of its own."""
        return replace(
            self, running=[*self.running], paused=[*self.paused], waiting=[[*w] for w in self.waiting]
        )

    def slowdowns(self) -> list[float]:
        """By how much each running unit is slowed now."""
        if len(self.running) < 2:
            return [1.0] * len(self.running)
        a, b = (unit.network for unit in self.running)
        return [self.tables.slowdown[a][b], self.tables.slowdown[b][a]]

    def next_s(self) -> float:
        """When the next unit ends or stops; inf if none runs."""
        ends = [u.left_s * slow for u, slow in zip(self.running, self.slowdowns(), strict=True)]
        if self.stopping:
            ends.append(to_boundary_s(self.running[0], self.tables) * self.slowdowns()[0])
        return self.now_s + min(ends, default=math.inf)

    def advance(self, until_s: float) -> list[Unit]:
        """Let time pass, at most to :meth:`next_s`; units that ended."""
        passed_s = until_s - self.now_s
        stops = self.stopping and to_boundary_s(self.running[0], self.tables) <= passed_s + TINY_S
        self.running = [
            replace(u, left_s=max(0.0, u.left_s - passed_s / slow))
            for u, slow in zip(self.running, self.slowdowns(), strict=True)
        ]
        self.now_s = until_s
        ended = [u for u in self.running if u.left_s <= TINY_S]
        self.running = [u for u in self.running if u.left_s > TINY_S]
        if self.stopping and (stops or ended):
            self.paused += [replace(u, left_s=u.left_s + self.resume_s) for u in self.running]
            self.running, self.stopping = [], False
        return ended

    def apply(self, decision: Decision) -> None:
        """Start or stop something; PolicyError for what cannot be."""
        if decision.kind == "preempt":
            if len(self.running) != 1 or self.stopping:
                raise PolicyError(
                    f"preempt with {len(self.running)} units running; exactly one can be paused"
                )
            self.stopping = True
            return
        room = 1 if decision.kind == "stack" else 0
        if len(self.running) != room or self.stopping:
            raise PolicyError(f"'{decision.kind}' with {len(self.running)} units running; it needs {room}")
        if decision.paused >= 0:
            self.running.append(self.paused.pop(decision.paused))
            return
        queue, times = self.waiting[decision.network], self.tables.networks[decision.network].batch_s
        if not 1 <= decision.size <= min(len(queue), len(times)):
            raise PolicyError(
                f"a batch of {decision.size} where {len(queue)} wait and {len(times)} is the largest"
            )
        whole_s = times[decision.size - 1]
        self.running.append(Unit(decision.network, tuple(queue[: decision.size]), whole_s, whole_s))
        del queue[: decision.size]


def to_boundary_s(unit: Unit, tables: ExecutionTables) -> float:
    """Seconds alone until the unit can be paused; a unit at a boundary can be paused at once."""
    part_s = unit.whole_s / tables.networks[unit.network].blocks
    done = (unit.whole_s - unit.left_s) / part_s
    return max(0.0, min(unit.left_s, (math.ceil(done - 1e-9) - done) * part_s))


@dataclass(frozen=True)
class Served:
    """Seconds from arrival to end per task, in order of arrival; how often each kind of decision was taken."""

    tasks: tuple[Task, ...]
    completion_s: tuple[float, ...]
    decisions: Counter[str]


def serve(
    tasks: Sequence[Task],
    tables: ExecutionTables,
    decide: Callable[[Device], Decision],
    resume_s: float = 0.0,
) -> Served:
    """Run all tasks under a policy, which is asked after every event until it waits."""
    ordered = sorted(tasks, key=lambda task: task.arrival_s)
    device, count = Device(tables, resume_s), Counter[str]()
    done: dict[int, float] = {}
    at = 0
    while len(done) < len(ordered):
        while at < len(ordered) and ordered[at].arrival_s <= device.now_s:
            device.waiting[ordered[at].network].append(ordered[at])
            at += 1
        while (decision := decide(device)).kind != "wait":
            device.apply(decision)
            count[decision.kind] += 1
        arrival_s = ordered[at].arrival_s if at < len(ordered) else math.inf
        until_s = min(arrival_s, device.next_s(), max(decision.until_s, device.now_s + TINY_S))
        if until_s == math.inf:
            raise PolicyError("the policy waits, but nothing runs and nothing will arrive")
        for unit in device.advance(until_s):
            done.update((id(task), device.now_s - task.arrival_s) for task in unit.tasks)
    return Served(tuple(ordered), tuple(done[id(task)] for task in ordered), count)
