"""Recorded traffic before the server's own dispatcher: devices and time are made up, decisions are not.

Whatever the dispatcher does beside asking its policy (leases, orders sent ahead, runs without a boundary, requests that
change their device only where that gains) is done here by the same code. A request's blocks take what they took when
recorded; on a device on which it did not run alone, their means times a factor drawn from those of runs there. What is
lost before a run is drawn from what such starts lost (dispatch/overheads.py).

A request's way to the dispatcher and from its last block to its client takes what it took when recorded. Batches are
not formed. Does badly where the front end itself was busy, as another policy would find it busy at other times.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eunomia.contract.guard import Guarded
from eunomia.core.arrays import Floats, Records
from eunomia.inference.by_type import Draw
from eunomia.inference.kernel.layout import DROPPED, HIT, LATE
from eunomia.inference.policies import load_policy
from eunomia.serving.devices.execution import AFTER_S, LEAST_WAIT_S
from eunomia.serving.dispatch.calm import Calm
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.overheads import AGAIN, AHEAD, ASKED, FIRST, MOVED, Overheads
from eunomia.study.inference.policy import PolicyLike, resolve_policy
from eunomia.study.serving.twin_clients import Following, following
from eunomia.study.serving.twin_server import TwinServer

if TYPE_CHECKING:
    from eunomia.study.serving.twin import Twin

FALLBACK = "edf+f"
WATCH_S = 0.05  # the server looks so often at requests that have become hopeless
Event = Callable[[], None]


@dataclass(eq=False)
class Run:
    """Blocks ``first`` .. ``last - 1`` of a request; ``ends_s``: when it begins, and when each block ends."""

    job: Job
    first: int
    last: int
    revoked: bool = False
    ends_s: list[float] = field(default_factory=list)
    version: int = 0  # counts the times at which it was to end


class Replay:
    """One run of a recording; the dispatcher's executor."""

    def __init__(self, twin: Twin, policy: PolicyLike, seed: int = 0) -> None:
        assert twin.server is not None, "an older recording"
        self._twin, self._server, self._lot = twin, twin.server, random.Random(seed)
        self._clock = ManualClock()
        self._costs = CostBook(len(twin.table.types))
        self._networks = [
            _loaded(self._costs, twin.server, model) for model in range(len(twin.server.blocks))
        ]
        guard = Guarded(
            load_policy(resolve_policy(policy)),
            load_policy(FALLBACK),
            limit_s=math.inf,
            clock=self._clock.now_s,
        )
        guard.reset(seed)
        self._dispatcher = Dispatcher(
            self._clock, self, self._costs, len(twin.table.types), guard, twin.server.options
        )
        for device, kind in enumerate(twin.table.types):
            _measured(self._dispatcher.overheads[device], twin.turn[kind], twin.move[kind])
            self._dispatcher.lanes[device].free_s = -1.0  # it was idle before the first request
        for agreement in twin.requests.agreements:
            self._dispatcher.add_pair(agreement)
        _seen_before(self._dispatcher.calm, twin)
        self._queues: list[deque[Run]] = [deque() for _ in twin.table.types]
        self._events: list[tuple[float, int, Event]] = []
        self._count = self._wakes = 0
        self._watched = False
        self._clients = _clients(twin)
        self._next = {int(j): k for k, j in enumerate(self._clients.after) if j >= 0}
        self._model = twin.model
        self.arrival_s, self.finish_s = (np.full(len(twin.requests), math.nan) for _ in range(2))

    def play(self) -> tuple[npt.NDArray[np.bool_], Floats]:
        """(n,): whether each request was in time, and its response [s], nan = none."""
        twin, requests = self._twin, self._twin.requests
        for number in np.flatnonzero(self._clients.after < 0).tolist():
            self._at(float(requests.arrival_s[number]), lambda n=number: self._arrive(n))
        while self._events:
            self._clock.time_s, _, event = heapq.heappop(self._events)
            event()
        reached_s = self.finish_s - self.arrival_s + twin.answer_s
        hit = np.nan_to_num(reached_s, nan=math.inf) <= requests.relative_deadline_s + 1e-9
        return hit, reached_s + twin.reach_s

    def results(self) -> Records:
        """(n,): the same as the engine gives it, with the way in and out in the times."""
        hit, response_s = self.play()
        found = np.zeros(len(hit), [("outcome", "i8"), ("arrival_s", "f8"), ("finish_s", "f8")])
        found["arrival_s"] = self.arrival_s - self._twin.reach_s
        found["finish_s"] = found["arrival_s"] + response_s
        found["outcome"] = np.where(hit, HIT, np.where(np.isnan(response_s), DROPPED, LATE))
        return found

    # --- what the dispatcher wants -------------------------------------------------------------------

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """An idle device starts, once the order has reached it."""
        run = self._told(device, job, first, last)
        lane = self._dispatcher.lanes[device]
        waited, resumed = lane.free_s >= job.arrival_s, lane.last_request == job.number
        self._start(device, run, FIRST if not waited else AGAIN if resumed else ASKED)

    def stop(self, device: int) -> None:
        """What runs there ends at its next boundary."""
        run, now_s = self._queues[device][0], self._clock.time_s
        if run.job.whole:
            return
        count = next((n for n, end_s in enumerate(run.ends_s) if n and end_s > now_s), len(run.ends_s))
        if count + 1 < len(run.ends_s):
            del run.ends_s[count + 1 :]
            self._ends(device, run)

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        """A busy device knows what comes next."""
        self._told(device, job, first, last)

    def revoke(self, device: int) -> None:
        """It does not come."""
        self._queues[device][-1].revoked = True

    def wake(self, in_s: float) -> None:
        """The policy is asked again; the last wish counts."""
        self._wakes += 1
        wake = self._wakes
        self._after(
            max(in_s, LEAST_WAIT_S), lambda: self._dispatcher.look_again() if wake == self._wakes else None
        )

    def dropped(self, job: Job, why: str) -> None:
        """A request gets no answer but that."""
        self._dispatcher.leave(job, dropped=True)
        self._answered(job.payload)

    # --- what happens --------------------------------------------------------------------------------

    def _arrive(self, number: int) -> None:
        requests, now_s = self._twin.requests, self._clock.time_s
        self.arrival_s[number] = now_s
        due_s = now_s + float(requests.relative_deadline_s[number])
        job = Job(
            int(requests.pair[number]),
            self._networks[self._model[number]],
            now_s - float(self._twin.reach_s[number]),
            due_s,
            payload=number,
        )
        self._dispatcher.arrive(job)
        self._watch()

    def _answered(self, number: int) -> None:
        """Its client may send the next one."""
        follower = self._next.get(number)
        if follower is not None:
            wait_s = (
                self._twin.answer_s[number] + self._clients.think_s[follower] + self._twin.reach_s[follower]
            )
            self._after(float(wait_s), lambda: self._arrive(follower))

    def _start(self, device: int, run: Run, kind: str) -> None:
        """A device takes up a run now, and is about to lose some time before its first block."""
        job, now_s = run.job, self._clock.time_s
        where = device
        if run.first > 0 and job.device not in (device, -1):
            kind, where = MOVED, job.device
        lost_s = self._lot.choice(self._server.starts[kind][where])
        model = int(self._model[job.payload])
        times = self._server.blocks[model][run.first : run.last, device] * self._factor(job.payload, device)
        run.ends_s = list(accumulate(times.tolist(), initial=now_s + lost_s))
        self._ends(device, run)
        left_s = self._dispatcher.lanes[device].end_s(now_s) - now_s
        ahead_s = self._dispatcher.options.ahead_s
        if ahead_s > 0.0 and left_s > ahead_s:
            self._after(
                left_s - ahead_s, lambda: self._dispatcher.decide() if self._runs(device, run) else None
            )
        self._after(LEAST_WAIT_S, lambda: self._look(device, run))

    def _factor(self, number: int, device: int) -> float:
        """Of a request's blocks over their means: its own where it ran there, else one that runs there had."""
        if self._twin.worked_on[number] == device and self._twin.factor[number] > 0.0:
            return float(self._twin.factor[number])
        factors = self._server.runs[self._server.network[self._model[number]]][device]
        return self._lot.choice(factors) if factors else 1.0

    def _look(self, device: int, run: Run) -> None:
        """Between two boundaries."""
        if self._runs(device, run):
            next_s = self._dispatcher.look_at(device)
            if next_s is not None:
                wait_s = max(next_s - self._clock.time_s + AFTER_S, LEAST_WAIT_S)
                self._after(wait_s, lambda: self._look(device, run))

    def _ends(self, device: int, run: Run) -> None:
        run.version += 1
        version = run.version
        self._at(run.ends_s[-1], lambda: self._end(device, run) if version == run.version else None)

    def _end(self, device: int, run: Run) -> None:
        """A run is through or has stopped; the device goes on with what it knows."""
        queue, job = self._queues[device], run.job
        queue.popleft()
        for other in [other for other in queue if other.revoked]:
            queue.remove(other)
            self._dispatcher.released(device, other.job)
        follows = queue[0] if queue else None
        began_s, ended_s = run.ends_s[0], run.ends_s[-1]
        self._dispatcher.done(
            device,
            run.first + len(run.ends_s) - 1,
            follows.job if follows else None,
            span_s=(began_s, ended_s),
            work_s=ended_s - began_s,
        )
        if job.block == job.network.blocks:
            self.finish_s[job.payload] = ended_s
            self._dispatcher.leave(job)
            self._answered(job.payload)
        if follows is not None:
            self._start(device, follows, AHEAD)
        self._dispatcher.decide()
        seconds = [after - before for before, after in pairwise(run.ends_s)]
        self._costs.learn(job.network, device, run.first, seconds, 1)

    def _watch(self) -> None:
        """Look again and again while somebody waits."""
        if not self._watched:
            self._watched = True
            self._after(WATCH_S, self._watch_once)

    def _watch_once(self) -> None:
        self._watched = False
        self._dispatcher.look_again()
        if self._dispatcher.waiting.jobs():
            self._watch()

    # --- time ----------------------------------------------------------------------------------------

    def _told(self, device: int, job: Job, first: int, last: int) -> Run:
        run = Run(job, first, last)
        self._queues[device].append(run)
        return run

    def _runs(self, device: int, run: Run) -> bool:
        return bool(self._queues[device]) and self._queues[device][0] is run

    def _after(self, wait_s: float, event: Event) -> None:
        self._at(self._clock.time_s + wait_s, event)

    def _at(self, time_s: float, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_s, self._count, event))


def _loaded(costs: CostBook, server: TwinServer, model: int) -> Network:
    """A network for each size that requests had: its times are known from the start."""
    blocks_s, name = server.blocks[model], server.network[model]
    network = costs.add(f"{name} {model}", len(blocks_s), whole=name in server.whole)
    for device in range(blocks_s.shape[1]):
        if np.isfinite(blocks_s[:, device]).all():
            costs.measured(network, device, blocks_s[:, device].tolist())
    return network


def _measured(overheads: Overheads, turn: Draw, move: Draw) -> None:
    """What a device loses is known from the start."""
    for mean, draw in ((overheads.turn, turn), (overheads.move, move)):
        for value_s in draw if isinstance(draw, tuple) else [draw] * (draw > 0.0):
            mean.learn(value_s)


def _seen_before(calm: Calm, twin: Twin) -> None:
    """Requests like these came before, too, and not in peace: none of the first runs goes without boundaries."""
    calm.disturbed(0.0)
    assert twin.server is not None
    own_s = np.array([blocks_s.min(axis=1).sum() for blocks_s in twin.server.blocks])[twin.model]
    due_s = twin.requests.relative_deadline_s + twin.reach_s
    for most in (int(due_s.argmin()), int((due_s - own_s).argmin())):
        calm.arrived(float(due_s[most]), float(own_s[most]), 0.0)


def _clients(twin: Twin) -> Following:
    sent_s = twin.requests.arrival_s - twin.reach_s
    return following(twin.requests.pair, sent_s, sent_s + twin.gone_s)
