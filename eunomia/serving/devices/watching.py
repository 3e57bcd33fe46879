"""Runs that hold a device for too long are ended in their midst, and where that does not help, with its process.

Too long is ``LONGER`` times the run's estimate and ``FAR`` times what its tenant may hold a device for
(``patience_s``). That follows from what the others were promised. Processor time counts: a core that somebody else took
is not the run's fault. Of a size that never ran the estimate counts ``UNSURE`` times, and each block for what its
tenant may hold a device at most. Of others each boundary counts for that at least: values may make all blocks long. A
run that nobody's promise bounds, or that only waits, may last as long as ``Execution`` says, on the clock.

A node that goes on costs its process: after ``GRACE_S``, or after ``SHORT_GRACE_S`` where another stands by.

Every run is looked at now and then. One that takes ``run.SUSPECT`` times its estimate is from then on, often. If
another tenant waits meanwhile, it is to stop at its next boundary. Where none comes for as long as its tenant may hold
a device, it is ended: after ``WELL`` times the longest that runs of this network took of late, at least.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eunomia.serving.devices.device import Device
from eunomia.serving.devices.execution import Execution
from eunomia.serving.devices.ladder import Ladder
from eunomia.serving.devices.run import CLOSELY_S, OFTEN_S, SUSPECT_S, Run
from eunomia.serving.dispatch.jobs import Job

log = logging.getLogger("eunomia.serving")
LONGER, FAR, WELL, UNSURE = 10.0, 4.0, 3.0, 2.0
LEAST_S, LEAST_HELD_S = 0.1, 0.02  # of processor time: what is shorter may be a hiccup
GRACE_S, GRACE_WALL_S = 0.2, 2.0  # of processor time, and on the clock, for a node that goes on
SHORT_GRACE_S = 1.5e-3  # of processor time since it heard of its end, where another process stands by


@dataclass
class _Seen:
    """A run, and its device's processor time when it was first seen; both clocks when it was to end.

    ``looked_s``: that when it was last suspected. ``well_s``: so much may be its own time; ``held_s``: so much more may
    it hold up others, of whom one waited from ``wanted_s`` on.
    """

    ticket: int
    most_s: float
    used_s: float
    looked_s: float
    well_s: float = math.inf
    held_s: float = math.inf
    wanted_s: float = math.inf
    ended_used_s: float = math.inf
    ended_s: float = math.inf
    number: int = 0  # of what was to end
    heard_used_s: float = math.inf
    killed: bool = False
    waits: bool = False  # behind a trial of sizes: its own time has not begun


class Watching:
    """Looks at what runs, every few hundredths of a second."""

    def __init__(self, devices: Sequence[Device], execution: Execution, ladder: Ladder) -> None:
        self._devices, self._execution, self._ladder = devices, execution, ladder
        self._seen: dict[int, _Seen] = {}
        self.patience_s: Callable[[Job], float] = lambda job: math.inf
        execution.looking.suspects = self.suspects

    def look(self, now_s: float) -> None:
        """At every device."""
        for device, queue in zip(self._devices, self._execution.queues, strict=True):
            if not queue:
                continue
            if device.place.far:  # the way there may be at fault, and its process is elsewhere
                if now_s > queue[0].limit_s:
                    queue[0].ended = queue[0].job.retries > 0  # a second time, it is the input
                    self._kill(device, queue[0])
            else:
                self._look(device, queue[0], now_s)

    def suspects(self, device: int) -> float:
        """Look at what runs there; after how long to look again, as it may have to be ended. 0 = not."""
        queue = self._execution.queues[device]
        if not queue or self._devices[device].place.far:
            return 0.0
        run, dispatcher = queue[0], self._execution.dispatcher
        lane, now_s = dispatcher.lanes[device], dispatcher.clock.now_s()
        used_s = self._look(self._devices[device], run, now_s)
        seen, first_s = self._seen[device], self._first_other_s(run.job)
        if seen.wanted_s == math.inf and seen.held_s < math.inf and first_s < math.inf:
            seen.wanted_s = max(seen.looked_s, used_s - (now_s - first_s))
            if not lane.stopping:
                lane.stopping = True
                self._execution.stop(device)
        seen.looked_s = used_s
        over = seen.ended_s < math.inf and not self._devices[device].stands_by
        if seen.most_s == math.inf or over:
            return 0.0
        return OFTEN_S if seen.wanted_s == seen.ended_s == math.inf else CLOSELY_S

    def _first_other_s(self, job: Job) -> float:
        """When the first request of another tenant that waits came; inf = none."""
        state = self._execution.dispatcher
        tenant = state.agreements[job.pair].tenant
        others = (o for o in state.waiting.jobs() if state.agreements[o.pair].tenant != tenant)
        return min((other.arrival_s for other in others), default=math.inf)

    def _look(self, device: Device, run: Run, now_s: float) -> float:
        """The device's processor time."""
        used_s, seen = device.used_s, self._seen.get(device.index)
        if seen is None or seen.ticket != run.ticket or (seen.waits and not self._waits(device, run)):
            seen = self._seen[device.index] = self._first(device, run, used_s)
        if seen.ended_s == math.inf:
            held = used_s - seen.wanted_s > seen.held_s and used_s - seen.used_s > seen.well_s
            if held or used_s - seen.used_s > seen.most_s or now_s > run.limit_s:
                seen.ended_used_s, seen.ended_s = used_s, now_s
                seen.number = self._end(device, run)
        elif not seen.killed and self._goes_on(device, run, seen, used_s, now_s):
            device.blameless, seen.killed = self._waits(device, run) or device.stopped, True
            self._kill(device, run)
        return used_s

    def _goes_on(self, device: Device, run: Run, seen: _Seen, used_s: float, now_s: float) -> bool:
        """Whether a run that was to end had time for that: as much as another process would cost the others.

        Where one stands by, half-done requests are lost all the same: the longest block that is known has its time.
        """
        if device.stands_by and device.heard(seen.number):
            seen.heard_used_s = min(seen.heard_used_s, device.all_used_s)
            block_s = (
                self._execution.dispatcher.costs.longest_s(run.job.network, run.job.cost_row) * run.job.rows
            )
            if device.all_used_s - seen.heard_used_s >= max(SHORT_GRACE_S, block_s):
                return True
        return used_s - seen.ended_used_s > GRACE_S or now_s - seen.ended_s > GRACE_WALL_S

    def _first(self, device: Device, run: Run, used_s: float) -> _Seen:
        """What is foreseen of it, by processor time."""
        seen = _Seen(run.ticket, math.inf, used_s, used_s, waits=self._waits(device, run))
        if device.spec.kind != "cpu":  # others compile for each new size
            return seen
        dispatcher, job = self._execution.dispatcher, run.job
        sure = dispatcher.sure(job) and not job.unsure  # it may have begun before that was known
        lane, patience_s = dispatcher.lanes[device.index], self.patience_s(job)
        foreseen_s = lane.due_s[-1] - lane.start_s if lane.due_s else 0.0
        likely_s = 0.0 if job.network.untried else min(UNSURE * foreseen_s, patience_s * len(lane.due_s))
        known_s = LONGER * foreseen_s
        if patience_s < math.inf and not job.whole:
            known_s = max(known_s, patience_s * (len(lane.due_s) - 1))
        seen.most_s = (known_s if sure else likely_s) + max(FAR * patience_s, LEAST_S)
        if sure and patience_s < math.inf:
            factors = dispatcher.costs.scatter.runs.get(job.network.index)
            longest = max(1.0, factors[device.index].most) if factors else 1.0
            most_s = patience_s * len(lane.due_s) * (1 + len(job.together))
            seen.well_s = min(WELL * foreseen_s * longest, most_s)  # its tenant's runs teach what is foreseen
            seen.held_s = max(patience_s - SUSPECT_S, LEAST_HELD_S)
        return seen

    def _waits(self, device: Device, run: Run) -> bool:
        """Whether the run stands behind a trial of sizes."""
        return run.behind is not None and run.behind == self._ladder.tries_on(device.index)

    def _end(self, device: Device, run: Run) -> int:
        """The run, or a trial of sizes that it waits behind: its number."""
        if run.behind is not None and self._waits(device, run):
            device.end(-run.behind)
            return -run.behind
        log.warning("network '%s' is ended on device '%s'", run.job.network.name, device.spec.name)
        run.ended = True
        device.end(run.ticket)
        return run.ticket

    def _kill(self, device: Device, run: Run) -> None:
        log.warning("device '%s' hangs in network '%s'", device.spec.name, run.job.network.name)
        device.kill()
