"""Requests with many rows, batches of requests, and requests that are given up: what policies and indicators see."""

from __future__ import annotations

import heapq
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.inference.policies import load_policy
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.limits import Limits
from eunomia.workload.tenant import Agreement, Slo
from tests.serving.test_dispatcher import Replay


class Rows(Replay):
    """A request of many rows takes as much longer."""

    def _seconds(self, job: Job, device: int, block: int) -> float:
        return super()._seconds(job, device, block) * job.rows


def shares(policy: str, rows: int) -> list[float]:
    """Device time of two tenants of equal weight who always wait; the second packs ``rows`` into each request."""
    replay = Rows(load_policy(policy), np.full((4, 1), 0.0025), [4], DispatchOptions())
    dispatcher = replay.dispatcher
    for tenant in ("single", "packed"):
        dispatcher.add_pair(Agreement(tenant, "m0"))
    used, gone = [0.0, 0.0], []
    leave = dispatcher.leave

    def left(job: Job, **more: Any) -> bool:
        used[job.pair] += job.attained_s
        gone.append(job.pair)
        return leave(job, **more)

    dispatcher.leave = left  # type: ignore[method-assign]

    def send(pair: int) -> None:
        now_s = replay.clock.now_s()
        dispatcher.arrive(
            Job(pair, replay.networks[0], now_s, now_s + 99.0, batch=rows if pair else 1, payload=0)
        )

    for pair in (0, 1) * 20:
        send(pair)
    while replay.clock.now_s() < 30.0:
        replay._end(*heapq.heappop(replay.events))
        while gone:
            send(gone.pop())
    return [u / sum(used) for u in used]


@pytest.mark.parametrize("rows", [1, 8, 32])
def test_rows_packed_into_one_request_buy_no_device_time(rows: int) -> None:
    assert shares("weighted_fair", rows) == pytest.approx([0.5, 0.5], abs=0.03)


def test_work_latency_and_lateness_of_a_request_are_those_of_all_its_rows() -> None:
    def idle(view: Any) -> list[Any]:
        seen.append(view)
        return []

    seen: list[Any] = []
    replay = Replay(idle, np.array([[0.01], [0.03]]), [2], DispatchOptions())
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, 0.3, batch=10, payload=0))
    ready = seen[-1].ready[0]
    assert ready["work_best_s"] == ready["path_best_s"] == ready["iso_best_s"] == pytest.approx(0.4)
    assert ready["work_mean_s"] == ready["path_mean_s"] == ready["iso_mean_s"] == pytest.approx(0.4)
    assert seen[-1].latency_s[0, 0] == pytest.approx(0.1) and ready["late"] == 1


def test_what_its_last_rows_cannot_make_is_dropped_at_once() -> None:
    replay = Replay(load_policy("edf"), np.array([[0.01]]), [1], DispatchOptions(late="drop"))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, 1.0, payload=0))
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, 0.05, batch=6, payload=1))
    assert replay.gone == [(1, "hopeless")]


def test_the_rate_of_a_tenant_counts_rows() -> None:
    clock = ManualClock()
    limits, grant = Limits(clock), Grant("t", rate_per_s=10.0, burst=10.0)
    limits.enter(grant, 8)
    with pytest.raises(Refused) as refusal:
        limits.enter(grant, 8)
    assert refusal.value.retry_after_s == pytest.approx(0.6)
    clock.time_s = 0.8
    limits.enter(grant, 32)  # more than the burst: the bucket is full, and owes 22 now
    clock.time_s = 2.9
    with pytest.raises(Refused):
        limits.enter(grant)
    clock.time_s = 3.2
    limits.enter(grant)


class Told(Replay):
    """Writes down what devices are told."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.told: list[Any] = []

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        self.told.append(("queue", job.payload))

    def revoke(self, device: int) -> None:
        self.told.append(("revoke", None))

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        self.told.append(("run", job.payload))


def test_who_stands_in_a_batch_that_was_taken_back_is_not_promised_again_before_the_device_has_answered() -> (
    None
):
    # L is promised with M in its batch, turns hopeless, and is taken back too late: both run, once.
    options = DispatchOptions(max_batch=4, ahead_s=0.05)
    replay = Told(load_policy("edf+f"), np.array([[1.0]]), [1], options)
    dispatcher, network = replay.dispatcher, replay.networks[0]
    dispatcher.add_pair(Agreement("t", "m0", Slo(0.9)))
    first = Job(0, network, 0.0, 5.0, payload="A", group="x")
    dispatcher.arrive(first)
    replay.clock.time_s = 0.1
    batch = [Job(0, network, 0.1, due_s, payload=name, group="g") for name, due_s in (("L", 2.0), ("M", 9.0))]
    for job in batch:
        dispatcher.arrive(job)
    for time_s in (0.96, 1.02):
        replay.clock.time_s = time_s
        dispatcher.look_again()
    assert replay.told == [("run", "A"), ("queue", "L"), ("revoke", None)]
    replay.clock.time_s = 1.03
    dispatcher.leave(dispatcher.done(0, 1, batch[0]))
    dispatcher.decide()
    assert [j.state for j in batch] == ["running", "running"] and not len(dispatcher.waiting)
    replay.clock.time_s = 3.0
    leader = dispatcher.done(0, 1)
    for job in (leader, *leader.together):
        dispatcher.leave(job)
    dispatcher.decide()
    assert (
        dispatcher.finished == 3 and dispatcher.indicators[0].count == 3 and dispatcher.lanes[0].job is None
    )


def test_of_equals_the_one_that_waits_is_told_ahead_at_the_end_of_a_lease() -> None:
    # Both are due at 9 s; the lease ends with the first block at 1 s, and then it is the other's turn.
    replay = Told(load_policy("edf"), np.ones((2, 1)), [2], DispatchOptions(lease_s=0.0, ahead_s=0.05))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    for name, arrival_s in (("A", 0.0), ("B", 0.1)):
        replay.clock.time_s = arrival_s
        replay.dispatcher.arrive(Job(0, replay.networks[0], arrival_s, 9.0, payload=name))
    replay.clock.time_s = 0.96
    replay.dispatcher.look_again()
    assert replay.told == [("run", "A"), ("queue", "B")]


def told_ahead() -> tuple[Told, list[Job]]:
    """A short request runs until 1 s, and a long one of 5 s has been promised the device."""
    replay = Told(load_policy("edf+f"), np.ones((6, 1)), [5, 1], DispatchOptions(lease_s=9.0, ahead_s=0.5))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    jobs = [
        Job(1, replay.networks[1], 0.0, 3.0, payload="short"),
        Job(0, replay.networks[0], 0.1, 99.0, payload="long"),
    ]
    for job in jobs:
        replay.clock.time_s = job.arrival_s
        replay.dispatcher.arrive(job)
    replay.clock.time_s = 0.6
    replay.dispatcher.decide()
    assert replay.told == [("run", "short"), ("queue", "long")]
    return replay, jobs


def test_who_came_since_a_promise_was_made_may_stop_what_was_promised() -> None:
    # The urgent one has come, but the policy has not been asked yet when the device reports that it has gone on.
    replay, (_, long) = told_ahead()
    replay.clock.time_s = 0.999
    replay.dispatcher.enter(Job(1, replay.networks[1], 0.999, 9.0, payload="urgent"))
    replay.clock.time_s = 1.001
    replay.dispatcher.done(0, 1, long)
    replay.dispatcher.decide()
    assert (
        replay.dispatcher.lanes[0].stopping and 0 in replay.stops and replay.told[-1] == ("queue", "urgent")
    )


def test_a_promise_that_could_not_be_taken_back_in_time_is_stopped_at_its_first_boundary() -> None:
    # "long" is being taken back for "sooner", which is promised; then "urgent" comes; one order is taken back at a time
    replay, _ = told_ahead()
    dispatcher = replay.dispatcher
    sooner = Job(0, replay.networks[0], 0.7, 50.0, payload="sooner")
    for job in (sooner, Job(1, replay.networks[1], 0.8, 9.0, payload="urgent")):
        replay.clock.time_s = job.arrival_s
        dispatcher.arrive(job)
    assert replay.told[2:] == [("revoke", None), ("queue", "sooner")]
    replay.clock.time_s = 1.0
    assert dispatcher.lanes[0].revoked is not None
    dispatcher.released(0, dispatcher.lanes[0].revoked.job)
    dispatcher.done(0, 1, sooner)
    dispatcher.decide()
    assert dispatcher.lanes[0].stopping and 0 in replay.stops and replay.told[-1] == ("queue", "urgent")


def test_two_answers_of_one_batch_start_one_run() -> None:
    def both(view: Any) -> list[Any]:
        return [view.assign(n, n) for n in range(len(view.ready))]

    replay = Replay(both, np.ones((1, 2)), [1], DispatchOptions(max_batch=4))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    jobs = [Job(0, replay.networks[0], 0.0, 9.0, group="g", payload=n) for n in range(2)]
    for job in jobs:
        replay.dispatcher.wait(job)
    replay.dispatcher.decide()
    assert [entry[1] for entry in replay.log] == [0] and jobs[0].together == [jobs[1]]


def test_a_client_that_leaves_while_its_request_is_promised_is_not_offered_again() -> None:
    replay = Told(load_policy("edf"), np.array([[1.0]]), [1], DispatchOptions(ahead_s=0.05))
    dispatcher, network = replay.dispatcher, replay.networks[0]
    dispatcher.add_pair(Agreement("t", "m0", Slo(0.9)))

    def request(arrival_s: float, due_s: float) -> Job:
        return Job(0, network, arrival_s, due_s, payload=SimpleNamespace(over=False))

    dispatcher.arrive(request(0.0, 5.0))
    replay.clock.time_s = 0.1
    promised = request(0.1, 2.5)
    dispatcher.arrive(promised)
    replay.clock.time_s = 0.96
    dispatcher.look_again()
    execution = SimpleNamespace(
        queues=[[SimpleNamespace(job=dispatcher.lanes[0].job)]], stop=lambda device: None
    )
    pool: Any = SimpleNamespace(dispatcher=dispatcher, execution=execution, unsized=set())
    DevicePool.cancel(pool, promised)
    replay.clock.time_s = 0.97
    dispatcher.arrive(request(0.97, 2.3))
    dispatcher.released(0, promised)
    assert replay.gone == [(promised.payload, "cancelled")] and promised.row == -1


@pytest.mark.parametrize("waited_s, judged", [(0.05, False), (0.15, True), (0.195, True)])
def test_a_request_that_its_client_gave_up_late_counts_against_the_server(
    waited_s: float, judged: bool
) -> None:
    # Promised 0.2 s. Given up at once, it says nothing; after 0.15 s without an answer it was the server's doing.
    replay = Replay(load_policy("edf"), np.array([[0.01]]), [1], DispatchOptions())
    replay.dispatcher.add_pair(Agreement("t", "m0", Slo(0.9)))
    job = Job(0, replay.networks[0], 0.0, 0.2, payload=0)
    replay.clock.time_s = waited_s
    replay.dispatcher.leave(job, dropped=True, by_client=True)
    sli = replay.dispatcher.indicators[0].sli
    assert sli == 0.0 if judged else math.isnan(sli)
