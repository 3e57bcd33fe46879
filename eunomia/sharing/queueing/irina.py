"""Irina's discipline: of all that could be done now, what promises the least sum of completion times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eunomia.sharing.queueing.device import TINY_S, Decision, Device, Kind, Unit, to_boundary_s
from eunomia.sharing.queueing.tables import ExecutionTables

WAIT = Decision("wait")
Work = list[tuple[float, int]]  # (seconds alone, tasks)


@dataclass(frozen=True)
class Irina:
    """Estimate the sum of completion times after each candidate, take the least (Wu et al., APNet 2020, inspired by).

    Candidates: start 1, 2, 4, ... or all waiting tasks of a network, or a paused unit, alone or beside the running
    unit; pause the running unit; leave things as they are. The estimate lets the rest run one after the other, least
    seconds per task first, in full batches. An idle device never waits. Does badly for long tasks under overload: the
    least sum lets them starve, unless ``patience_s`` bounds it: tasks that waited longer come first, oldest first.
    """

    batch: bool = True
    stack: bool = True
    preempt: bool = True
    patience_s: float = float("inf")

    def __call__(self, device: Device) -> Decision:
        """The best candidate; ties go to the first, which leaves things as they are."""
        if len(device.running) == 2 or device.stopping:
            return WAIT
        if overdue := self._overdue(device):
            return overdue
        rest = [self._rest(device, network) for network in range(len(device.waiting))]
        paused = [(unit.left_s, len(unit.tasks)) for unit in device.paused]
        best, least = WAIT, float("inf")
        for decision, running, work, free_s in self._candidates(device, rest, paused):
            found = _sum_of(running, device.tables, work, free_s)
            if found < least * (1.0 - 1e-9):
                best, least = decision, found
        return best

    def _overdue(self, device: Device) -> Decision | None:
        """The oldest task that has run out of patience, when the device is idle."""
        if device.running or self.patience_s == float("inf"):
            return None
        heads = [(queue[0].arrival_s, n, -1) for n, queue in enumerate(device.waiting) if queue]
        heads += [(u.tasks[0].arrival_s, u.network, p) for p, u in enumerate(device.paused)]
        arrival_s, network, place = min(heads, default=(device.now_s, -1, -1))
        if device.now_s - arrival_s < self.patience_s:
            return None
        if place >= 0:
            return Decision("run", paused=place)
        size = min(len(device.waiting[network]), len(device.tables.networks[network].batch_s))
        return Decision("batch" if size > 1 else "run", network, size if self.batch else 1)

    def _candidates(
        self, device: Device, rest: list[Work], paused: Work
    ) -> Iterator[tuple[Decision, list[Unit], Work, float]]:
        """Decision, what runs after it, what is left, and how long the device does neither."""
        everything = [*paused, *(one for work in rest for one in work)]
        running = device.running
        if running:
            yield WAIT, running, everything, 0.0
            if not everything:
                return
            if self.preempt:
                unit = running[0]
                stop_s = to_boundary_s(unit, device.tables)
                back = (unit.left_s - stop_s + device.resume_s, len(unit.tasks))
                if TINY_S < stop_s < unit.left_s - TINY_S:  # a unit that has just gone on is not paused
                    yield Decision("preempt"), [], [*everything, back], stop_s
            if not self.stack:
                return
        for place, unit in enumerate(device.paused):
            others = [*everything[:place], *everything[place + 1 :]]
            yield Decision("stack" if running else "run", paused=place), [*running, unit], others, 0.0
        for network, queue in enumerate(device.waiting):
            times = device.tables.networks[network].batch_s
            others = [*paused, *(one for n, work in enumerate(rest) if n != network for one in work)]
            for size in self._sizes(min(len(queue), len(times))):
                unit = Unit(network, tuple(queue[:size]), times[size - 1], times[size - 1])
                left = [*others, *_batches(len(queue) - size, times if self.batch else times[:1])]
                kind: Kind = "stack" if running else "batch" if size > 1 else "run"
                yield Decision(kind, network, size), [*running, unit], left, 0.0

    def _rest(self, device: Device, network: int) -> Work:
        times = device.tables.networks[network].batch_s
        return _batches(len(device.waiting[network]), times if self.batch else times[:1])

    def _sizes(self, most: int) -> list[int]:
        if most == 0 or not self.batch:
            return [1][:most]
        return sorted({most, *(2**k for k in range(most.bit_length()))})


def _batches(count: int, times: tuple[float, ...]) -> Work:
    """Tasks of one network in full batches, and what is left."""
    full, left = divmod(count, len(times))
    return [(times[-1], len(times))] * full + ([(times[left - 1], left)] if left else [])


def _sum_of(running: list[Unit], tables: ExecutionTables, work: Work, free_s: float) -> float:
    """Seconds from now to the end, summed over tasks: running units first, then the rest one by one."""
    total = 0.0
    if len(running) == 1:
        free_s = running[0].left_s
        total = free_s * len(running[0].tasks)
    elif running:
        a, b = running
        slow_a, slow_b = tables.slowdown[a.network][b.network], tables.slowdown[b.network][a.network]
        end_a, end_b = a.left_s * slow_a, b.left_s * slow_b
        if end_a <= end_b:
            end_b = end_a + b.left_s - end_a / slow_b
        else:
            end_a = end_b + a.left_s - end_b / slow_a
        total, free_s = end_a * len(a.tasks) + end_b * len(b.tasks), max(end_a, end_b)
    for seconds, tasks in sorted(work, key=lambda one: one[0] / one[1]):
        free_s += seconds
        total += free_s * tasks
    return total
