"""Max batch plus timeout on the dispatcher, by hand: full batches start at once, others when their time is over."""

from __future__ import annotations

import heapq
import math

import numpy as np

from benchmarks.serving.fifo import LARGEST, TIMEOUT_S, Fifo
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import guarded
from tests.serving.test_dispatcher import Replay

WAKE = -7  # in place of a device


class Clocked(Replay):
    """Wakes the policy when it asks for it."""

    def wake(self, in_s: float) -> None:
        heapq.heappush(self.events, (self.clock.now_s() + in_s + 1e-9, WAKE, 0, 0))

    def _end(self, end_s: float, device: int, block: int, last: int) -> None:
        if device == WAKE:
            self.clock.time_s = end_s
            self.dispatcher.look_again()
        else:
            super()._end(end_s, device, block, last)


def _started(arrivals: list[tuple[float, int]]) -> list[tuple[float, int, int]]:
    """When, which request first, how many in its batch; two networks of one block of a millisecond."""
    replay = Clocked(Fifo(), np.full((2, 1), 0.001), [1, 1], DispatchOptions(max_batch=LARGEST))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    batches: list[tuple[float, int, int]] = []
    run = replay.run

    def watched(device: int, job: Job, first: int, last: int) -> None:
        batches.append((replay.clock.now_s(), job.payload, 1 + len(job.together)))
        run(device, job, first, last)

    replay.run = watched  # type: ignore[method-assign]
    jobs = [
        (at_s, Job(n, replay.networks[n], at_s, math.inf, payload=k, group=(n,)))
        for k, (at_s, n) in enumerate(arrivals)
    ]
    while jobs or replay.events:
        if jobs and (not replay.events or jobs[0][0] < replay.events[0][0]):
            at_s, job = jobs.pop(0)
            replay.clock.time_s = at_s
            replay.dispatcher.arrive(job)
        else:
            replay._end(*heapq.heappop(replay.events))
    return [(round(at_s, 6), who, size) for at_s, who, size in batches]


def test_a_full_batch_starts_at_once_and_the_rest_at_its_timeout() -> None:
    full = [(0.0, 0)] * LARGEST + [(0.004, 1)]
    assert _started(full) == [(0.0, 0, LARGEST), (0.004 + TIMEOUT_S, LARGEST, 1)]


def test_of_two_that_waited_long_enough_the_older_is_first() -> None:
    assert _started([(0.0, 1), (0.0002, 0), (0.005, 1)]) == [(TIMEOUT_S, 0, 2), (TIMEOUT_S + 0.001, 1, 1)]


def test_a_guard_passes_on_when_to_ask_again() -> None:
    policy = guarded("fcfs")
    assert policy.wake_s == math.inf
    policy.policy = fifo = Fifo()
    fifo.wake_s = 0.5
    assert policy.wake_s == 0.5
