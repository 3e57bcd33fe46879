"""The least sum of completion times of a few tasks, by trying every decision at every event."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from eunomia.core.errors import ConfigError
from eunomia.sharing.queueing.device import TINY_S, Decision, Device, Kind, Task, to_boundary_s
from eunomia.sharing.queueing.tables import ExecutionTables

MOST_TASKS = 6
State = tuple[object, ...]


def least_sum(tasks: Sequence[Task], tables: ExecutionTables, pauses: bool = True) -> float:
    """Least sum over tasks of end - arrival, arrivals foreseen; decisions at arrivals, ends and block boundaries.

    The sum is the number of tasks in the system, integrated over time. Pauses are free. ConfigError for more than 6
    tasks.
    """
    if len(tasks) > MOST_TASKS:
        raise ConfigError(f"{len(tasks)} tasks; the search over all decisions takes at most {MOST_TASKS}")
    ordered = tuple(sorted(tasks, key=lambda task: task.arrival_s))
    known: dict[State, float] = {}
    return _least(Device(tables), 0, ordered, pauses, known)


def _least(device: Device, at: int, tasks: Sequence[Task], pauses: bool, known: dict[State, float]) -> float:
    while at < len(tasks) and tasks[at].arrival_s <= device.now_s:
        device.waiting[tasks[at].network].append(tasks[at])
        at += 1
    state = _state(device, at, len(tasks))
    if state not in known:
        known[state] = min(
            _after(device.copy(), decision, at, tasks, pauses, known) for decision in _legal(device, pauses)
        )
    return known[state]


def _after(
    device: Device,
    decision: Decision,
    at: int,
    tasks: Sequence[Task],
    pauses: bool,
    known: dict[State, float],
) -> float:
    if decision.kind != "wait":
        device.apply(decision)
        return _least(device, at, tasks, pauses, known)
    arrival_s = tasks[at].arrival_s if at < len(tasks) else math.inf
    until_s = min(arrival_s, device.next_s())
    if until_s == math.inf:
        return math.inf if any(device.waiting) or device.paused else 0.0
    present = sum(len(unit.tasks) for unit in [*device.running, *device.paused])
    present += sum(len(queue) for queue in device.waiting)
    cost = present * (until_s - device.now_s)
    device.advance(until_s)
    return cost + _least(device, at, tasks, pauses, known)


def _legal(device: Device, pauses: bool) -> Iterator[Decision]:
    yield Decision("wait")
    if len(device.running) == 2 or device.stopping:
        return
    if device.running and pauses and to_boundary_s(device.running[0], device.tables) > TINY_S:
        yield Decision("preempt")
    for place in range(len(device.paused)):
        yield Decision("stack" if device.running else "run", paused=place)
    for network, queue in enumerate(device.waiting):
        for size in range(1, min(len(queue), len(device.tables.networks[network].batch_s)) + 1):
            kind: Kind = "stack" if device.running else "batch" if size > 1 else "run"
            yield Decision(kind, network, size)


def _state(device: Device, at: int, total: int) -> State:
    units = [
        tuple(sorted((u.network, len(u.tasks), round(u.left_s, 9), round(u.whole_s, 9)) for u in group))
        for group in (device.running, device.paused)
    ]
    now = round(device.now_s, 9) if at < total else -1.0
    return (*units, tuple(map(len, device.waiting)), device.stopping, at, now)
