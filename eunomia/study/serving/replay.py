"""Recorded traffic before the server's own dispatcher: devices and time are made up, decisions are not.

Leases, orders sent ahead, runs without a boundary, requests that change their device only where that gains: the same
code does it here. A request's blocks take what they took when recorded, its way to the dispatcher and to its client as
well; the rest is drawn from what was recorded (replay_times.py). So under the policy that served, it is queueing and
decisions alone that are foretold.

Clients that waited for answers wait for those of the replay (replay_clients.py); those that left, leave after as long.
Batches are not formed, devices are never away, requests claim no priority, and the fallback is ``edf+f``. Does badly
where the front end itself was busy: another policy would find it busy at other times, and deciding takes no time here.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from eunomia.core.arrays import Ints
from eunomia.serving.devices.looking import AFTER_S, LEAST_WAIT_S, LOOK_SHARE
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.jobs import GONE, Job
from eunomia.serving.dispatch.overheads import AGAIN, AHEAD, ASKED, FIRST, LOOK, MOVED, WAKE
from eunomia.study.inference.policy import PolicyLike
from eunomia.study.serving.replay_clients import Clients, Next, Told
from eunomia.study.serving.replay_start import dispatcher_of
from eunomia.study.serving.replay_times import Times
from eunomia.study.serving.twin import Twin

WATCH_S = 0.05  # the server looks so often at those who wait
SLOWER = 0.05  # of the time in which nothing happened, where that is longer
IDLE_S = 30.0  # nothing has run for so long, and nothing comes: those who wait get no answer
Event = Callable[[], None]


@dataclass(eq=False)
class Run:
    """Blocks ``first`` .. ``last - 1`` of a request; ``ends_s``: when the first begins, and when each ends."""

    job: Job
    first: int
    last: int
    revoked: bool = False
    ends_s: list[float] = field(default_factory=list)
    version: int = 0  # counts the times at which it was to end
    over: bool = False
    looks: int = 0  # at its boundaries: only the one that was set last comes

    @property
    def next_block(self) -> int:
        """Where it stops."""
        return self.first + len(self.ends_s) - 1


class Replay:
    """One run of a recording; the dispatcher's executor."""

    def __init__(self, twin: Twin, policy: PolicyLike, seed: int = 0) -> None:
        self._twin, self._times, self._clock = twin, Times(twin, seed), ManualClock()
        self.dispatcher, self._networks, self._guard = dispatcher_of(twin, policy, self._clock, self)
        self._model = twin.model.tolist()
        self._clients = Clients(twin)
        self._told: list[deque[Run]] = [deque() for _ in twin.table.types]  # as the front end sees it
        self._busy: list[Run | None] = [None for _ in twin.table.types]  # as devices do
        self._hears_s = [0.0 for _ in twin.table.types]
        self._events: list[tuple[float, int, Event]] = []
        self._count = self._wakes = self._coming = 0
        self._active_s, self._watched = 0.0, False

    def play(self) -> Told:
        """All that was sent, and what became of it."""
        for number in self._clients.alone:
            self._comes(Next(float(self._twin.requests.arrival_s[number]), number))
        while self._events and self._clients.left and not self._stuck:
            self._clock.time_s, _, event = heapq.heappop(self._events)
            event()
        return self._clients.told()

    def places(self, told: Told) -> Ints:
        """(n,): for each recorded request, which of ``told`` stands for it."""
        return self._clients.places(told)

    @property
    def waiting(self) -> list[int]:
        """Pairs of the twin whose clients wait for their answers."""
        return self._clients.waiting

    @property
    def failed(self) -> int:
        """Decisions that the fallback took, as the policy raised, answered illegally or held for too long."""
        return sum(self._guard.counts[kind] for kind in ("raised", "illegal", "held"))

    @property
    def _stuck(self) -> bool:
        idle = not self._coming and not any(self._told)
        return idle and self._clock.time_s - self._active_s > IDLE_S

    # --- what the dispatcher wants -------------------------------------------------------------------

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """An idle device starts, once the order has reached it."""
        run = Run(job, first, last)
        self._told[device].append(run)
        lane = self.dispatcher.lanes[device]
        waited, resumed = lane.free_s >= job.arrival_s, lane.last_request == job.number
        self._start(device, run, FIRST if not waited else AGAIN if resumed else ASKED)
        self._begins(device, run)

    def stop(self, device: int) -> None:
        """What runs there ends at its next boundary, unless that has happened already."""
        run, now_s = self._told[device][0], self._clock.time_s
        if run.job.whole or run.over:
            return
        ends = next((n for n, end_s in enumerate(run.ends_s) if n and end_s > now_s), len(run.ends_s))
        if ends + 1 < len(run.ends_s):
            del run.ends_s[ends + 1 :]
            self._will_end(device, run)

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        """A busy device knows what comes next; one that has just become idle starts it."""
        run = Run(job, first, last)
        self._told[device].append(run)
        if self._busy[device] is None:
            self._start(device, run, AHEAD)

    def revoke(self, device: int) -> None:
        """It does not come, unless it has begun already."""
        self._told[device][-1].revoked = True

    def look(self, device: int) -> None:
        """Somebody waits by now."""
        run = self._told[device][0]
        next_s = self.dispatcher.lanes[device].boundary_s(self._clock.time_s, cut=True)
        self._look_after(max(next_s - self._clock.time_s + AFTER_S, LEAST_WAIT_S), device, run)

    def wake(self, in_s: float) -> None:
        """The policy is asked again; the last wish counts."""
        self._wakes += 1
        wake = self._wakes
        self._after(
            max(in_s, LEAST_WAIT_S), lambda: self.dispatcher.look_again() if wake == self._wakes else None
        )

    def dropped(self, job: Job, why: str) -> None:
        """A request gets no answer but that."""
        self.dispatcher.leave(job, dropped=True)
        self._answered(job)

    # --- requests ------------------------------------------------------------------------------------

    def _comes(self, following: Next) -> None:
        self._coming += 1
        self._at(following.at_s, lambda: self._arrive(following))

    def _arrive(self, what: Next) -> None:
        requests, now_s, twin, number = self._twin.requests, self._clock.time_s, self._twin, what.number
        self._coming -= 1
        self._active_s = now_s
        due_s = now_s + float(requests.relative_deadline_s[number])
        sent_s = now_s - float(twin.reach_s[number])
        network = self._networks[self._model[number]]
        job = Job(int(requests.pair[number]), network, sent_s, due_s, payload=number)
        self._clients.came(job, what)
        if twin.given_up[number] and math.isfinite(twin.gone_s[number]):
            self._at(sent_s + float(twin.gone_s[number]), lambda: self._given_up(job))
        self.dispatcher.arrive(job)
        self._watch()

    def _given_up(self, job: Job) -> None:
        """Its client has left: out of the queue now, or off the device at the next boundary."""
        if job.state == GONE:
            return
        job.cancelled = True
        if self.dispatcher.waiting.shown(job):
            self.dispatcher.withdraw(job)
            self.dispatcher.leave(job, dropped=True, by_client=True)
        for device, told in enumerate(self._told):
            if told and told[0].job is job:
                self.stop(device)
        self._answered(job)

    def _answered(self, job: Job) -> None:
        """Its client may send the next one."""
        following = self._clients.after(job, self._clock.time_s)
        if following is not None:
            self._comes(following)

    # --- devices -------------------------------------------------------------------------------------

    def _start(self, device: int, run: Run, kind: str) -> None:
        """A device takes up a run now, and is about to lose some time before its first block."""
        job, now_s, where = run.job, self._clock.time_s, device
        if run.first > 0 and job.device not in (device, -1):
            kind, where = MOVED, job.device
        lost_s = self._times.delay_s(kind, where, job.payload, run.first)
        blocks_s = self._times.blocks_s(device, job.payload, run.first, run.last)
        run.ends_s = list(accumulate(blocks_s, initial=now_s + lost_s))
        self._busy[device] = run
        self._will_end(device, run)

    def _will_end(self, device: int, run: Run) -> None:
        run.version += 1
        version = run.version
        self._at(run.ends_s[-1], lambda: self._end(device, run) if version == run.version else None)

    def _end(self, device: int, run: Run) -> None:
        """A run is through or has stopped; the device goes on with what it knows, and the front end will hear of it."""
        run.over, self._busy[device] = True, None
        follows = next((one for one in self._told[device] if not one.revoked and not one.ends_s), None)
        if follows is not None:
            self._start(device, follows, AHEAD)
        number, block = run.job.payload, run.next_block
        heard_s = self._times.heard_s(device, number, block, last=block == run.job.network.blocks)
        # Messages keep their order.
        self._hears_s[device] = max(self._hears_s[device], self._clock.time_s + heard_s)
        self._at(self._hears_s[device], lambda: self._heard(device, run))

    def _heard(self, device: int, run: Run) -> None:
        """The front end decides anew."""
        told, job = self._told[device], run.job
        told.popleft()
        for other in [other for other in told if other.revoked and not other.ends_s]:
            told.remove(other)
            self.dispatcher.released(device, other.job)
        follows = told[0] if told else None
        began_s, ended_s = run.ends_s[0], run.ends_s[-1]
        next_block, span_s = run.next_block, (began_s, ended_s)
        self.dispatcher.done(
            device, next_block, follows.job if follows else None, span_s=span_s, work_s=ended_s - began_s
        )
        if next_block == job.network.blocks:
            self._leaves(job)
        elif job.cancelled:
            self.dispatcher.withdraw(job)
            self.dispatcher.leave(job, dropped=True, by_client=True)
        if follows is not None:
            self._begins(device, follows)
        self._active_s = self._clock.time_s
        self.dispatcher.decide()
        seconds = [after - before for before, after in pairwise(run.ends_s)]
        self.dispatcher.costs.learn(job.network, device, run.first, seconds, 1)

    def _leaves(self, job: Job) -> None:
        """All its blocks have run."""
        self.dispatcher.leave(job, dropped=job.cancelled, by_client=job.cancelled)
        if not job.cancelled:
            self._clients.finished(job, self._clock.time_s)
            self._answered(job)

    def _begins(self, device: int, run: Run) -> None:
        """The front end knows that it runs: it looks at it at boundaries, and before its end."""
        now_s, ahead_s = self._clock.time_s, self.dispatcher.options.ahead_s
        left_s = self.dispatcher.lanes[device].end_s(now_s) - now_s
        if run.job.cancelled:
            self.stop(device)
        if ahead_s > 0.0 and left_s > ahead_s:
            late_s = self._late_s(device, run, left_s - ahead_s)
            self._after(late_s, lambda: self.dispatcher.decide() if self._works(device, run) else None)
        self._look_after(LEAST_WAIT_S, device, run)

    def _look_after(self, wait_s: float, device: int, run: Run) -> None:
        run.looks += 1
        look, late_s = run.looks, self._late_s(device, run, wait_s)
        self._after(late_s, lambda: self._look(device, run) if look == run.looks else None)

    def _late_s(self, device: int, run: Run, wait_s: float) -> float:
        """When the front end wakes up that wished to so soon."""
        return wait_s + self._times.delay_s(WAKE, device, run.job.payload, run.first + run.looks)

    def _look(self, device: int, run: Run) -> None:
        """Between two boundaries."""
        if self._works(device, run):
            next_s, now_s = self.dispatcher.look_at(device), self._clock.time_s
            if next_s is not None:
                boundary = self.dispatcher.lanes[device].boundary(now_s, cut=True)
                took_s = self._times.delay_s(LOOK, device, run.job.payload, boundary)
                wait_s = max(next_s - now_s - took_s + AFTER_S, LEAST_WAIT_S, LOOK_SHARE * took_s)
                self._look_after(took_s + wait_s, device, run)

    def _works(self, device: int, run: Run) -> bool:
        return bool(self._told[device]) and self._told[device][0] is run

    def _watch(self) -> None:
        """Look again and again while somebody waits."""
        if not self._watched:
            self._watched = True
            self._after(max(WATCH_S, SLOWER * (self._clock.time_s - self._active_s)), self._watch_once)

    def _watch_once(self) -> None:
        self._watched = False
        self.dispatcher.look_again()
        if self.dispatcher.waiting.jobs():
            self._watch()

    # --- time ----------------------------------------------------------------------------------------

    def _after(self, wait_s: float, event: Event) -> None:
        self._at(self._clock.time_s + wait_s, event)

    def _at(self, time_s: float, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_s, self._count, event))
