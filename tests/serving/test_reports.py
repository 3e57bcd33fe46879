"""What devices report beside plain ends, worked by hand: runs that never began, dead devices, failed networks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.workload.tenant import Agreement, Slo
from tests.serving.test_dispatcher import Replay
from tests.serving.test_rows import Told, told_ahead


def batch_of_two(blocks: int, lease_s: float = 9.0) -> tuple[Told, Job, Job]:
    """Blocks of 1 s; a batch of two runs on the only device from 0 s."""
    options = DispatchOptions(max_batch=2, lease_s=lease_s)
    replay = Told(load_policy("edf"), np.ones((blocks, 1)), [blocks], options)
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    first, second = (Job(0, replay.networks[0], 0.0, 9.0 + n, group="g", payload=n) for n in range(2))
    for job in (first, second):
        replay.dispatcher.enter(job)
    replay.dispatcher.decide()
    assert replay.dispatcher.lanes[0].job is first and first.together == [second]
    return replay, first, second


def test_a_batch_that_never_began_waits_again_member_by_member() -> None:
    replay, first, second = batch_of_two(blocks=2)
    replay.dispatcher.unstarted(0)
    assert replay.dispatcher.waiting.jobs() == [first, second] and replay.dispatcher.lanes[0].job is None
    assert first.together == [] and math.isnan(first.start_s)
    replay.dispatcher.decide()
    assert replay.told == [("run", 0), ("run", 0)] and first.together == [second]


def test_who_was_cancelled_leaves_when_its_run_never_began() -> None:
    replay, first, second = batch_of_two(blocks=2)
    second.cancelled = True
    replay.dispatcher.unstarted(0)
    assert replay.gone == [(1, "cancelled")] and replay.dispatcher.waiting.jobs() == [first]


def test_a_batch_that_was_not_resumed_stays_one_batch() -> None:
    """Its first block has run: the tensors of both stand together on the device."""
    replay, first, second = batch_of_two(blocks=3, lease_s=0.0)
    replay.clock.time_s = 2.0
    replay.dispatcher.done(0, 1)
    replay.dispatcher.decide()
    assert replay.dispatcher.lanes[0].job is first and first.block == 1
    replay.dispatcher.unstarted(0)
    assert replay.dispatcher.waiting.jobs() == [first] and first.together == [second]
    assert (first.block, first.start_s) == (1, 0.0)


def test_what_a_dead_device_was_to_run_next_is_offered_to_the_others() -> None:
    replay, (short, long) = told_ahead()
    dispatcher = replay.dispatcher
    assert not dispatcher.waiting.shown(long)
    assert dispatcher.lost(0) is short
    lane = dispatcher.lanes[0]
    assert (lane.job, lane.next, lane.revoked, lane.alive) == (None, None, None, False)
    assert dispatcher.waiting.shown(long) and not dispatcher.idle
    assert np.isinf(dispatcher.costs.latency_s).all(), "nothing can start there"
    assert dispatcher.costs.rest_s(long.network)[0][0] == 5.0, "the device will be back"
    assert dispatcher.view(1.0).accelerators["request"][0] == 0, "a policy sees a device that is not free"


@pytest.mark.parametrize("revoked", [False, True])
def test_who_was_cancelled_while_promised_to_a_dead_device_is_not_offered_again(revoked: bool) -> None:
    replay, (_, long) = told_ahead()
    if revoked:
        replay.clock.time_s = 0.7
        replay.dispatcher.arrive(Job(0, replay.networks[0], 0.7, 50.0, payload="sooner"))
        assert replay.dispatcher.lanes[0].revoked is not None
    long.cancelled = True
    replay.dispatcher.lost(0)
    assert replay.gone == [("long", "cancelled")] and long.row == -1


def test_a_run_that_was_lost_starts_again_from_its_first_block() -> None:
    replay, (short, _) = told_ahead()
    dispatcher = replay.dispatcher
    dispatcher.lost(0)
    short.block, short.device = 1, 0
    dispatcher.wait_again(short)
    row = dispatcher.waiting.records[short.row]
    assert (short.block, short.device) == (0, -1)
    assert (row["layer"], row["accelerator"], row["work_best_s"]) == (0, -1, 1.0)


def test_a_network_that_fails_leaves_its_device_to_what_was_queued() -> None:
    replay, (short, long) = told_ahead()
    replay.clock.time_s = 0.9
    assert replay.dispatcher.failed(0, long) is short
    lane = replay.dispatcher.lanes[0]
    assert lane.job is long and lane.start_s == 0.9 and lane.next is None
    assert short.row == -1 and not replay.dispatcher.waiting.jobs()


def test_who_fails_pays_for_the_time_that_its_device_says() -> None:
    replay, (short, _) = told_ahead()
    replay.clock.time_s = 0.9
    busy_s = replay.dispatcher.lanes[0].busy_s
    replay.dispatcher.failed(0, span_s=(0.25, 0.75))
    assert short.attained_s == replay.dispatcher.lanes[0].busy_s - busy_s == 0.5


@pytest.mark.parametrize(("blame", "paid_s"), [(True, 0.9), (False, 0.0)])
def test_nobody_pays_for_a_machine_that_goes_away(blame: bool, paid_s: float) -> None:
    replay, (short, _) = told_ahead()
    replay.clock.time_s = 0.9
    assert replay.dispatcher.lost(0, blame=blame) is short
    assert short.attained_s == paid_s and replay.dispatcher.lanes[0].busy_s >= 0.9


def test_a_promise_that_changes_forgets_what_was_seen_and_one_that_stays_does_not() -> None:
    replay, _, _ = batch_of_two(blocks=1)
    dispatcher = replay.dispatcher
    dispatcher.change_pair(0, Agreement("t", "m0", Slo(0.9)))
    gone = Job(0, replay.networks[0], 0.0, 0.5, payload="gone")
    dispatcher.leave(gone, dropped=True)
    assert dispatcher.table.columns(0.0).tolist() == [[0.0], [0.9], [1.0]]
    dispatcher.change_pair(0, Agreement("t", "m0", Slo(0.9), priority=3.0))
    assert dispatcher.indicators[0].count == 1
    dispatcher.change_pair(0, Agreement("t", "m0", Slo(0.8), priority=3.0))
    sli, gap, count = dispatcher.table.columns(0.0)[:, 0].tolist()
    assert math.isnan(sli) and (gap, count) == (0.0, 0.0)
    later = Job(0, replay.networks[0], 0.0, 9.0, urgency=0.5, payload="later")
    dispatcher.wait(later)
    row = dispatcher.waiting.records[later.row]
    assert (row["slo"], row["priority"]) == (0.8, 1.5)


def test_devices_as_a_policy_sees_them() -> None:
    """At 2.25 s one device is in the third of four blocks of 1 s, and the other has served that request before."""
    replay = Told(load_policy("edf"), np.ones((4, 2)), [4], DispatchOptions(lease_s=9.0))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    job = Job(0, replay.networks[0], 0.0, 9.0, payload=0)
    replay.dispatcher.arrive(job)
    lanes = replay.dispatcher.lanes
    device = next(n for n, lane in enumerate(lanes) if lane.job is job)
    lanes[1 - device].last_request, lanes[1 - device].busy_s = job.number, 5.0
    seen = replay.dispatcher.view(2.25).accelerators
    assert seen[device].tolist() == (device, job.number, 2, 0.75, 0.0, -1, 0, 0.0, 0.0)
    assert seen[1 - device].tolist() == (1 - device, -1, 0, 0.0, 0.0, job.number, 0, 0.0, 5.0)


@pytest.mark.parametrize(("rows", "whole"), [(1, True), (4, False)])
def test_a_large_request_leaves_little_slack_for_runs_without_boundaries(rows: int, whole: bool) -> None:
    """A row takes 2 s of 10 s: one leaves 8 s of slack, and 2 s is within half of it; four leave 2 s."""
    options = DispatchOptions(lease_s=100.0, calm_s=0.0)
    replay = Told(load_policy("edf"), np.ones((2, 1)), [2], options)
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, 10.0, batch=rows, payload=0))
    replay.clock.time_s = 9.0
    replay.dispatcher.leave(replay.dispatcher.done(0, 2))
    later = Job(0, replay.networks[0], 9.0, 19.0, payload=1)
    replay.dispatcher.arrive(later)
    assert replay.dispatcher.lanes[0].job is later and later.whole == whole


def test_a_run_that_stops_before_its_lease_ends_was_preempted_once() -> None:
    replay, first, _ = batch_of_two(blocks=3)
    for at_s, block in ((1.0, 1), (2.0, 2), (3.0, 3)):
        replay.clock.time_s = at_s
        replay.dispatcher.done(0, block)
        if block < 3:
            replay.dispatcher.decide()
    assert (first.preemptions, replay.dispatcher.preemptions) == (2, 2), "the last run came to its end"


def test_a_late_tenant_waits_anew_after_each_of_its_runs() -> None:
    """Each run takes 1 s. Requests 1 and 2 are late from the start: one goes at 3 s, the next 2.5 s after at 6 s."""
    options = DispatchOptions(lease_s=0.0, starve_s=2.5)
    replay = Replay(load_policy("edf+f"), np.ones((2, 1)), [1, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    late = [(0.3, 1, 0.9, 1), (0.35, 1, 0.95, 1)]
    replay.play([(0.0, 0, 29.0, 0), *late, *((0.4 + n / 10, 0, 29.1 + n / 10, 0) for n in range(5))])
    assert [entry[1] for entry in replay.log] == [0, 3, 4, 1, 5, 6, 2, 7]
    assert replay.dispatcher.view(9.0).system["starts"] == 8
