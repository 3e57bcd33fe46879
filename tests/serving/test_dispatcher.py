"""The dispatcher makes the simulator's decisions: one trace through both, block for block."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
import pytest

from eunomia.contract.guard import Guarded
from eunomia.contract.view import Assign, Policy, View
from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch import look_ahead
from eunomia.serving.dispatch.calm import Calm
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.lanes import Claim
from eunomia.serving.dispatch.notes import MOST
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.overheads import Mean, Overheads, lost_s, means_s
from eunomia.workload.tenant import Agreement, Slo


class Replay:
    """Devices that take exactly the time in the cost table."""

    def __init__(
        self, policy: Any, latency_s: np.ndarray, blocks: list[int], options: DispatchOptions
    ) -> None:
        self.clock = ManualClock()
        self.costs = CostBook(latency_s.shape[1])
        self.networks = [self.costs.add(f"m{n}", count, whole=True) for n, count in enumerate(blocks)]
        for network in self.networks:
            for device in range(latency_s.shape[1]):
                self.costs.measured(network, device, latency_s[self.costs.rows(network), device].tolist())
        self.dispatcher = Dispatcher(self.clock, self, self.costs, latency_s.shape[1], policy, options)
        self.events: list[tuple[float, int, int, int]] = []
        self.log: list[tuple[float, int, int, int]] = []  # time, request, block, device
        self.gone: list[tuple[int, str]] = []
        self.stops: set[int] = set()
        self.looks: list[int] = []

    def look(self, device: int) -> None:
        self.looks.append(device)

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        now_s = self.clock.now_s()
        self.stops.discard(device)
        self.log.append((now_s, job.payload, first, device))
        heapq.heappush(self.events, (now_s + self._seconds(job, device, first), device, first, last))

    def stop(self, device: int) -> None:
        self.stops.add(device)

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        raise AssertionError("nobody asked for it")

    def revoke(self, device: int) -> None:
        raise AssertionError("nobody asked for it")

    def dropped(self, job: Job, why: str) -> None:
        self.gone.append((job.payload, why))
        self.dispatcher.leave(job, dropped=True)

    def play(self, requests: list[tuple[float, int, float, int]]) -> None:
        """(arrival, network, deadline, pair)."""
        arrivals = list(enumerate(requests))
        while arrivals or self.events:
            if arrivals and (not self.events or arrivals[0][1][0] < self.events[0][0]):
                number, (arrival_s, network, deadline_s, pair) = arrivals.pop(0)
                self.clock.time_s = arrival_s
                self.dispatcher.arrive(
                    Job(pair, self.networks[network], arrival_s, deadline_s, payload=number)
                )
            else:
                self._end(*heapq.heappop(self.events))

    def _end(self, end_s: float, device: int, block: int, last: int) -> None:
        self.clock.time_s = end_s
        job = self.dispatcher.lanes[device].job
        assert job is not None
        if block + 1 < last and (device not in self.stops or job.whole):
            heapq.heappush(
                self.events, (end_s + self._seconds(job, device, block + 1), device, block + 1, last)
            )
            return
        self.dispatcher.done(device, block + 1)
        if job.block == job.network.blocks:
            self.dispatcher.leave(job)
        self.dispatcher.decide()

    def _seconds(self, job: Job, device: int, block: int) -> float:
        return float(self.costs.latency_s[job.network.first_row + block, device])


class Watched(Replay):
    """One device under long leases; between boundaries the policy is asked about the next one."""

    LOOK = -2  # in place of a block

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        super().run(device, job, first, last)
        heapq.heappush(self.events, (self.clock.now_s() + 1e-6, device, self.LOOK, last))

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        raise AssertionError("nothing is told ahead")

    def look(self, device: int) -> None:
        lane, now_s = self.dispatcher.lanes[device], self.clock.now_s()
        heapq.heappush(self.events, (lane.boundary_s(now_s, cut=True) + 1e-6, device, self.LOOK, lane.last))

    def _end(self, end_s: float, device: int, block: int, last: int) -> None:
        if block == self.LOOK:
            self.clock.time_s = end_s
            next_s = self.dispatcher.look_at(device)
            if next_s is not None:
                heapq.heappush(self.events, (next_s + 1e-6, device, self.LOOK, last))
        else:
            super()._end(end_s, device, block, last)


class Pipelined(Replay):
    """Devices that are told what to run next before they have ended what they run.

    ``slow_to_hear``: a revoked run is started all the same, as when the message comes too late.
    """

    slow_to_hear = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.queued: dict[int, list[tuple[Job, int, int, bool]]] = {0: [], 1: []}

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        self.queued[device].append((job, first, last, False))

    def revoke(self, device: int) -> None:
        job, first, last, _ = self.queued[device].pop()
        self.queued[device].append((job, first, last, True))

    def wake(self, device: int) -> None:
        """A run is nearly over."""
        heapq.heappush(
            self.events,
            (self.dispatcher.lanes[device].due_s[-1] - self.dispatcher.options.ahead_s, device, -1, -1),
        )

    def _end(self, end_s: float, device: int, block: int, last: int) -> None:
        self.clock.time_s = end_s
        if block == -1:
            self.dispatcher.look_again()
            return
        lane = self.dispatcher.lanes[device]
        job = lane.job
        assert job is not None
        if block + 1 < last and (device not in self.stops or job.whole):
            after_s = end_s + self._seconds(job, device, block + 1)
            heapq.heappush(self.events, (after_s, device, block + 1, last))
            return
        follows = None
        while self.queued[device] and follows is None:
            other, first, until, revoked = self.queued[device].pop(0)
            if revoked and not self.slow_to_hear:
                self.dispatcher.released(device, other)
            else:
                follows = other
        self.dispatcher.done(device, block + 1, follows)
        if job.block == job.network.blocks:
            self.dispatcher.leave(job)
        if follows is not None:
            super().run(device, follows, first, until)
            self.wake(device)
        self.dispatcher.decide()

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        super().run(device, job, first, last)
        self.wake(device)


def random_case(seed: int) -> tuple[np.ndarray, list[int], list[tuple[float, int, float, int]]]:
    rng = np.random.default_rng(seed)
    blocks = [int(b) for b in rng.integers(1, 6, 3)]
    latency_s = rng.uniform(0.5, 3.0, (sum(blocks), 2))
    times = np.cumsum(rng.exponential(2.2, 60))
    models = rng.integers(3, size=60)
    slack = rng.uniform(4.0, 25.0, 60)
    return (
        latency_s,
        blocks,
        [(float(t), int(m), float(t + s), int(m)) for t, m, s in zip(times, models, slack, strict=True)],
    )


def guarded(policy: str) -> Guarded:
    """A policy as a server asks it."""
    return Guarded(load_policy(policy), load_policy("fcfs"), limit_s=math.inf)


def by_simulator(policy: str, latency_s: np.ndarray, blocks: list[int], requests: list[Any]) -> list[Any]:
    from tests.serving.simulated import starts

    return starts(policy, latency_s, blocks, requests)


OFTEN = [
    (name, seed) for name in ("fcfs", "edf", "edf+f", "edf+f+eft", "sjf+f", "llf+f") for seed in range(3)
]
ONCE = [
    "blend", "deficit_edf+f", "dream", "dysta", "fair_edf", "gap_first", "herald", "irina", "moca", "olympian",
    "pledge", "prema", "shift", "triage", "veltair", "weighted_fair", "worst_first",
]  # fmt: skip


@pytest.mark.parametrize("policy, seed", OFTEN + [(name, 0) for name in ONCE])
def test_one_trace_through_simulator_and_dispatcher(policy: str, seed: int) -> None:
    latency_s, blocks, requests = random_case(seed)
    replay = Replay(guarded(policy), latency_s, blocks, DispatchOptions(lease_s=0.0))
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", Slo(0.9, window_requests=10)))
    replay.play(requests)
    simulated = by_simulator(policy, latency_s, blocks, requests)
    assert [(r, b, d) for _, r, b, d in replay.log] == [(r, b, d) for _, r, b, d in simulated]
    np.testing.assert_allclose([t for t, *_ in replay.log], [t for t, *_ in simulated], atol=1e-9)


@pytest.mark.parametrize("policy", ["round_robin", "random", "least_loaded", "throttled"])
def test_queueing_rules_serve_everybody_and_use_all_devices(policy: str) -> None:
    latency_s, blocks, requests = random_case(0)
    replay = Replay(guarded(policy), latency_s, blocks, DispatchOptions(lease_s=0.0))
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play(requests)
    device_of = {request: device for _, request, _, device in replay.log}
    assert len(replay.log) == sum(blocks[m] for _, m, _, _ in requests), "every block ran once"
    assert len(device_of) == 60 and all(device_of[r] == d for _, r, _, d in replay.log), "a request stays"
    on_one = sum(device == 1 for device in device_of.values())
    assert on_one == 30 if policy == "round_robin" else 10 < on_one < 50


def test_a_lease_ends_when_someone_more_urgent_arrives() -> None:
    # One device, blocks of 1 s. A long request (5 blocks, due at 100) runs; at 1.5 an urgent one arrives (due at 4).
    latency_s = np.ones((6, 1))
    replay = Replay(load_policy("edf"), latency_s, [5, 1], DispatchOptions(lease_s=100.0))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, 0, 100.0, 0), (1.5, 1, 4.0, 1)])
    assert replay.log == [(0.0, 0, 0, 0), (2.0, 1, 0, 0), (3.0, 0, 2, 0)]
    assert replay.dispatcher.preemptions == 1


LEAVES, STAYS = [(4.5, 1, 1, 0)], list[tuple[float, int, int, int]]()


@pytest.mark.parametrize("policy", ["edf", "fair_edf", "weighted_fair"])
@pytest.mark.parametrize(
    "turn_s, move_s, last",
    [(None, None, LEAVES), (2.8, None, LEAVES), (3.0, None, STAYS), (None, 5.7, LEAVES), (None, 5.9, STAYS),
     (2.0, 3.7, LEAVES), (2.0, 3.9, STAYS), (2.0, -9.0, LEAVES)],
)  # fmt: skip
def test_under_a_lease_a_request_goes_on_where_a_faster_device_idles(
    policy: str, turn_s: float | None, move_s: float | None, last: list[Any]
) -> None:
    """Blocks of 1 and 4 s. Request 0 leaves the fast device at 3; at 4.5 request 1 has 2 s left there, here 8.

    It gains 8 - 1.1 x 2 = 5.8 s less a turn there and a move, which counts as a turn while none was measured.
    """
    replay = Replay(
        guarded(policy), np.array([[1.0, 4.0]] * 3), [3], DispatchOptions(lease_s=100.0, calm_s=math.inf)
    )
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    fast, slow = replay.dispatcher.overheads
    for mean, value_s in ((fast.turn, turn_s), (slow.move, move_s)):
        for _ in range(0 if value_s is None else 1000):  # what the run itself measures says little beside it
            mean.learn(value_s)  # type: ignore[arg-type]
    replay.play([(0.0, 0, 50.0, 0), (0.5, 0, 60.0, 0)])
    assert replay.log == [(0.0, 0, 0, 0), (0.5, 1, 0, 1), *last]


@pytest.mark.parametrize("there_s, moves", [(0.5, True), (1.0, False), (2.0, False)])
def test_a_policy_that_names_another_device_for_what_runs_is_heard_where_that_gains(
    there_s: float, moves: bool
) -> None:
    """It serves one request at a time, on device 1 until 0.5 s and on device 0 later, while another one waits."""

    class Restless:
        def __call__(self, view: View) -> list[Assign]:
            rows = [n for n, number in enumerate(view.ready["request"]) if number == first.number]
            device = 1 if view.now_s < 0.5 else 0
            return [view.assign(row, device) for row in rows if device in view.idle]

    replay = Replay(
        Restless(), np.array([[there_s, 1.0]] * 3), [3], DispatchOptions(lease_s=100.0, calm_s=math.inf)
    )
    dispatcher = replay.dispatcher
    dispatcher.add_pair(Agreement("t", "m0"))
    first, second = (Job(0, replay.networks[0], at_s, 50.0, payload=n) for n, at_s in enumerate((0.0, 0.7)))
    dispatcher.arrive(first)
    replay.clock.time_s = 0.7
    dispatcher.arrive(second)
    replay.play([])
    assert replay.log == [(0.0, 0, 0, 1), *([(1.0, 0, 1, 0)] if moves else [])]


@pytest.mark.parametrize("policy", ["fcfs", "edf", "edf+f", "sjf+f", "weighted_fair"])
@pytest.mark.parametrize("seed", range(6))
def test_told_ahead_one_device_does_what_it_would_have_been_told_at_the_end(policy: str, seed: int) -> None:
    latency_s, blocks, requests = random_case(seed)
    latency_s = latency_s[:, :1] * 0.5
    logs = []
    for kind, ahead_s in ((Replay, 0.0), (Pipelined, 0.05)):
        replay = kind(load_policy(policy), latency_s, blocks, DispatchOptions(lease_s=0.0, ahead_s=ahead_s))
        for n in range(3):
            replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
        replay.play(requests)
        logs.append(replay.log)
    assert [entry[1:] for entry in logs[0]] == [entry[1:] for entry in logs[1]]
    assert [entry[0] for entry in logs[0]] == pytest.approx([entry[0] for entry in logs[1]])


@pytest.mark.parametrize("kind", [Replay, Pipelined])
def test_equals_take_turns_at_the_end_of_a_lease_told_ahead_or_not(kind: Any) -> None:
    # Two requests of two blocks, both due at 100 s; a lease ends after each block of 1 s.
    options = DispatchOptions(lease_s=0.0, ahead_s=0.05 if kind is Pipelined else 0.0)
    replay = kind(load_policy("edf"), np.ones((2, 1)), [2], options)
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.play([(0.0, 0, 100.0, 0), (0.1, 0, 100.0, 0)])
    assert replay.log == [(0.0, 0, 0, 0), (1.0, 1, 0, 0), (2.0, 0, 1, 0), (3.0, 1, 1, 0)]


@pytest.mark.parametrize("policy", ["edf+f", "llf+f", "laxity_ratio", "weighted_fair", "gap_first"])
@pytest.mark.parametrize("seed", range(4))
def test_a_lease_changes_nothing_when_a_policy_is_asked_whose_mind_changes_on_the_way(
    policy: str, seed: int
) -> None:
    latency_s, blocks, requests = random_case(seed)
    latency_s, runs = latency_s[:, :1] * 0.5, []
    for kind, lease_s in ((Replay, 0.0), (Watched, 100.0)):
        replay = kind(load_policy(policy), latency_s, blocks, DispatchOptions(lease_s=lease_s))
        for n in range(3):
            replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", Slo(0.9, window_requests=10)))
        replay.play(requests)
        log = replay.log
        runs.append(
            [entry for n, entry in enumerate(log) if n == 0 or entry[1] != log[n - 1][1] or entry[2] == 0]
        )
    assert runs[0] == runs[1]


@pytest.mark.parametrize("late", ["last", "drop"])
@pytest.mark.parametrize(
    "policy", ["edf+f", "fcfs", "llf+f+eft", "sjf+pref", "sjf_mean+eft_ca", "edf+first_idle"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_lone_request_need_not_be_asked_about(policy: str, seed: int, late: str) -> None:
    latency_s, blocks, requests = random_case(seed)
    rule, logs, rounds = load_policy(policy), [], []
    for asked in (rule, lambda view: rule(view)):
        replay = Replay(asked, latency_s[:, :1] * 0.5, blocks, DispatchOptions(lease_s=0.0, late=late))
        for n in range(3):
            replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
        replay.play(requests)
        logs.append((replay.log, replay.gone))
        rounds.append(replay.dispatcher.rounds)
    assert logs[0] == logs[1]
    assert rounds[0] < rounds[1]


class First:
    """A policy that is asked before anything starts: of its traits it has no more than what it notes and charges."""

    def __init__(self, rule: Any) -> None:
        self.rule, self.parameters, self.charge_run = rule, rule.parameters, rule.charge_run

    def __call__(self, view: View) -> list[Assign]:
        return list(self.rule(view))


@pytest.mark.parametrize("policy", ["fair_edf", "weighted_fair", "irina"])
@pytest.mark.parametrize("seed", range(3))
def test_a_lone_request_has_its_order_before_the_policy_is_asked_for_its_notes(
    policy: str, seed: int
) -> None:
    """Decisions and notes are those of the same policy asked first."""
    latency_s, blocks, requests = random_case(seed)
    rule, seen, rounds = load_policy(policy), [], []
    for one in (rule, First(rule)):
        guard = Guarded(one, load_policy("edf+f"))
        replay = Replay(guard, latency_s[:, :1] * 0.5, blocks, DispatchOptions(lease_s=0.0))
        for n in range(3):
            replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
        replay.play(requests)
        replay.dispatcher.tell()
        rounds.append(replay.dispatcher.rounds)
        seen.append((replay.log, replay.gone, replay.dispatcher.memory.tolist()))
    assert seen[0] == seen[1] and any(seen[0][2]) == (policy != "irina")
    assert rounds[0] < rounds[1]

    class Watched:
        starts_alone = True

        def __call__(self, view: View) -> list[Assign]:
            ordered.append(len(replay.log))
            return list(rule(view))

    ordered: list[int] = []
    replay = Replay(Watched(), np.ones((2, 1)), [1, 1], DispatchOptions())
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.play([(0.0, 0, 9.0, 0)])
    assert ordered[0] == 1


class Asked:
    """A policy in Python: how often it was asked."""

    starts_alone = True

    def __init__(self, rule: Policy) -> None:
        self.rule, self.times = rule, 0

    def __call__(self, view: View) -> list[Assign]:
        self.times += 1
        return list(self.rule(view))


@pytest.mark.parametrize("looks", [False, True])
def test_notes_of_the_last_boundary_are_taken_before_the_run_ends(looks: bool) -> None:
    """Between the end of a run and its answer nobody is asked: Python has been before, machine code is told later."""
    notes = []
    for asked in (rule := load_policy("fair_edf"), Asked(rule)):
        replay = Replay(asked, np.ones((3, 1)), [3], DispatchOptions(lease_s=9.0))
        dispatcher = replay.dispatcher
        dispatcher.add_pair(Agreement("t", "m0"))
        dispatcher.arrive(Job(0, replay.networks[0], 0.0, 99.0, payload=0))
        replay.clock.time_s = 2.5
        if looks:
            assert dispatcher.look_at(0) is None
        if isinstance(asked, Asked):
            assert asked.times == 1 + looks and not dispatcher.owed
        else:
            assert len(dispatcher.owed) == 1 + looks and not any(dispatcher.memory)
        dispatcher.done(0, 3, span_s=(0.0, 3.0))
        if isinstance(asked, Asked):
            assert asked.times == 2
        else:
            assert len(dispatcher.owed) == 2 and not any(dispatcher.memory)
            dispatcher.tell()
        notes.append(dispatcher.memory.tolist())
    assert notes[0] == notes[1] and any(notes[0])


def test_what_is_owed_to_a_policy_stays_little_and_is_nothing_to_the_next_one() -> None:
    guard = Guarded(load_policy("weighted_fair"), load_policy("edf+f"))
    replay = Replay(guard, np.ones((1, 1)), [1], DispatchOptions())
    dispatcher = replay.dispatcher
    dispatcher.add_pair(Agreement("t", "m0", weight=2.0))
    replay.play([(float(2 * n), 0, 99.0, 0) for n in range(MOST - 1)])
    assert len(dispatcher.owed) == MOST - 1 and not any(dispatcher.memory)
    replay.play([(100.0, 0, 199.0, 0)])
    assert not dispatcher.owed and dispatcher.memory[1] == MOST / 2.0, "a second each, per unit of weight"
    replay.play([(200.0, 0, 299.0, 0)])
    guard.replace(load_policy("fair_edf"))
    replay.play([(300.0, 0, 399.0, 0)])
    assert len(dispatcher.owed) == 1, "its own"
    dispatcher.tell()
    assert dispatcher.memory[1] == 0.5
    dispatcher.wait(Job(0, replay.networks[0], 400.0, 499.0, payload=9))
    view = dispatcher.view(400.0)
    guard(view)
    assert view.system["memory"][1] > 0.5, "its first decision goes on from there"


def test_deadlines_of_calls_that_differ_by_what_their_way_took_are_alike() -> None:
    calm = Calm(10.0, 100.0)
    for left_s in (29.9991, 29.9998, 29.9985, 29.9999):
        calm.arrived(left_s, 2.0, 1.0)
        assert calm.allows(left_s, 2.0, 1.0)
    assert not calm.allows(60.0, 2.0, 1.0)


def test_a_gated_rule_is_always_asked() -> None:
    assert not Guarded(load_policy("fair_edf+g0.9"), load_policy("edf+f")).starts_alone
    assert Guarded(load_policy("fair_edf"), load_policy("edf+f")).starts_alone
    assert not Guarded(load_policy("edf+f+g0.9"), load_policy("edf+f")).work_conserving
    assert not Guarded(load_policy("weighted_fair"), load_policy("edf+f")).work_conserving
    assert Guarded(load_policy("llf+f"), load_policy("edf+f")).work_conserving


def test_a_fallback_that_waits_is_asked_about_a_lone_request_while_the_policy_rests() -> None:
    asked: list[float] = []

    def waits(view: Any) -> list[Any]:
        asked.append(view.now_s)
        return []

    guard = Guarded(load_policy("edf+f"), waits, limit_s=-1.0, patience=1, rest_s=3600.0)
    replay = Replay(guard, np.ones((2, 1)), [1, 1], DispatchOptions())
    for n in range(2):
        replay.dispatcher.add_pair(Agreement("t", f"m{n}"))
    replay.play([(0.0, 0, 9.0, 0)])
    assert len(replay.log) == 1 and not asked, "the policy decided, and took too long"
    replay.play([(2.0, 1, 9.0, 1)])
    assert len(replay.log) == 1 and asked and guard.counts["resting"] >= 1


def test_what_was_noted_for_going_on_is_dropped_when_something_else_was_noted_since() -> None:
    replay = Replay(load_policy("weighted_fair"), np.ones((5, 2)), [5], DispatchOptions(lease_s=100.0))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, 50.0, payload=0))
    lane, memory = replay.dispatcher.lanes[0], replay.dispatcher.memory
    for since, kept in ((0.0, 7.0), (1.0, 5.0)):  # another device has started something in the second case
        memory[0] = 4.0
        lane.goes_on = 2, Claim(lane.job, memory.copy(), np.array([7.0, *memory[1:]]))  # type: ignore[arg-type]
        memory[0] += since
        replay.clock.time_s = 2.5  # between the boundaries 2 and 3
        look_ahead.reconsider(replay.dispatcher, 0)
        assert memory[0] == kept and (lane.goes_on is None or lane.goes_on[0] == 3)


def test_a_boundary_is_asked_about_once_and_only_while_somebody_waits() -> None:
    def urgent(view: Any) -> list[Any]:
        return [view.assign(int(np.argmin(view.ready["deadline_s"])), 0)]

    replay = Replay(urgent, np.ones((6, 1)), [5, 1], DispatchOptions(lease_s=100.0))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    dispatcher = replay.dispatcher
    dispatcher.arrive(Job(0, replay.networks[0], 0.0, 50.0, payload=0))
    replay.clock.time_s, asked = 1.25, dispatcher.rounds
    assert dispatcher.look_at(0) == 4.0 and dispatcher.rounds == asked, "nobody else waits until the last"
    assert not replay.looks
    dispatcher.arrive(Job(1, replay.networks[1], 1.5, 100.0, payload=1))
    assert replay.looks == [0], "now somebody does"
    replay.clock.time_s, asked = 2.25, dispatcher.rounds
    assert dispatcher.look_at(0) == 3.0 and dispatcher.rounds == asked + 1
    assert dispatcher.look_at(0) == 3.0 and dispatcher.rounds == asked + 1, "the same boundary"
    replay.clock.time_s = 4.25
    assert dispatcher.look_at(0) is None, "no boundary is left"
    assert Replay(load_policy("edf"), np.ones((1, 1)), [1], DispatchOptions()).dispatcher.look_at(0) is None


def test_of_a_run_in_one_piece_the_first_boundary_and_the_last_are_asked_about() -> None:
    options = DispatchOptions(lease_s=100.0, calm_s=0.0)
    replay = Replay(load_policy("fair_edf"), np.ones((6, 1)), [5, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    dispatcher = replay.dispatcher
    dispatcher.arrive(Job(0, replay.networks[0], 0.0, 50.0, payload=0))
    assert dispatcher.lanes[0].uncut
    dispatcher.arrive(Job(1, replay.networks[1], 0.0, 100.0, payload=1))
    replay.clock.time_s = 0.5
    assert dispatcher.look_at(0) == 3.0 and replay.looks == [0]
    replay.clock.time_s, asked = 3.5, dispatcher.rounds
    assert dispatcher.look_at(0) is None and dispatcher.rounds == asked + 1


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_policy_notes_when_it_starts_a_request_counts_once(seed: int, slow: bool) -> None:
    def counting(view: Any) -> list[Any]:
        row = int(np.argmin(view.ready["deadline_s"]))
        view.system["memory"][3] += view.ready["layer"][row] == 0
        return [view.assign(row, 0)]

    latency_s, blocks, requests = random_case(seed)
    replay = Pipelined(counting, latency_s[:, :1], blocks, DispatchOptions(lease_s=3.0, ahead_s=1.5))
    replay.slow_to_hear = slow
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play(requests)
    assert replay.dispatcher.finished == replay.dispatcher.memory[3] == len(requests)


@pytest.mark.parametrize("policy", ["edf", "edf+f", "llf+f"])
@pytest.mark.parametrize("slow, start_s", [(False, 1.0), (True, 2.0)])
def test_a_request_that_started_although_it_was_taken_back_is_stopped_at_its_first_boundary(
    policy: str, slow: bool, start_s: float
) -> None:
    # Told at 0.5 to run request 1 next; at 0.8 the urgent request 2 comes. If the device hears it too late, it starts
    # request 1 at 1.0 all the same, which has a boundary at 2.0 and would end at 6.0.
    replay = Pipelined(
        load_policy(policy), np.ones((6, 1)), [5, 1], DispatchOptions(lease_s=9.0, ahead_s=0.5)
    )
    replay.slow_to_hear = slow
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, 1, 3.0, 1), (0.1, 0, 100.0, 0), (0.8, 1, 5.0, 1)])
    assert [(time_s, request) for time_s, request, _, _ in replay.log if request == 2] == [(start_s, 2)]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("policy", ["edf", "llf+f", "weighted_fair"])
@pytest.mark.parametrize("seed", range(4))
def test_two_devices_told_ahead_run_every_block_once(policy: str, seed: int, slow: bool) -> None:
    latency_s, blocks, requests = random_case(seed)
    replay = Pipelined(load_policy(policy), latency_s, blocks, DispatchOptions(lease_s=3.0, ahead_s=1.5))
    replay.slow_to_hear = slow
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", Slo(0.9, window_requests=10)))
    replay.play(requests)
    assert replay.dispatcher.finished == len(requests) and not replay.dispatcher.waiting.jobs()
    assert all(lane.next is None and lane.revoked is None for lane in replay.dispatcher.lanes)
    by_request: dict[int, list[int]] = {}
    for _, request, first, _ in replay.log:
        by_request.setdefault(request, []).append(first)
    assert all(firsts[0] == 0 and firsts == sorted(set(firsts)) for firsts in by_request.values())


def whole_runs(policy: str, requests: list[tuple[float, int, float, int]], kind: Any = Replay) -> list[Any]:
    """One device, blocks of 1 s, a long network of 5 blocks and a short one; (time, request, block) of every start."""
    options = DispatchOptions(lease_s=100.0, calm_s=10.0, ahead_s=0.5 if kind is Pipelined else 0.0)
    replay = kind(load_policy(policy), np.ones((6, 1)), [5, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play(requests)
    return [(time_s, request, block) for time_s, request, block, _ in replay.log]


@pytest.mark.parametrize("kind", [Replay, Pipelined])
def test_networks_run_whole_until_somebody_is_preferred_and_again_after_a_calm(kind: Any) -> None:
    # All have 500 s: nobody is more urgent, but the shortest goes first. The first long run has no boundaries, so that
    # the short request of 1.5 s starts at 5 s. The next long one (begun at 6.5 s) is stopped at 9.5 s. At 30 s nobody
    # has been preferred for more than 10 s: it runs whole again.
    at_s = [(0.0, 0), (1.5, 1), (6.5, 0), (8.5, 1), (30.0, 0), (31.5, 1)]
    starts = whole_runs("sjf", [(t, network, t + 500.0, network) for t, network in at_s], kind)
    assert starts == [
        (0.0, 0, 0),
        (5.0, 1, 0),
        (6.5, 2, 0),
        (9.5, 3, 0),
        (10.5, 2, 3),
        (30.0, 4, 0),
        (35.0, 5, 0),
    ]


def test_a_more_urgent_request_seen_in_ten_minutes_keeps_networks_in_blocks() -> None:
    # An urgent request every 100 s: only the first one meets a network in one piece.
    long = [(t, 0, t + 900.0, 0) for t in (0.0, 100.0, 200.0, 2000.0)]
    urgent = [(t + 1.5, 1, t + 91.5, 1) for t in (0.0, 100.0, 200.0, 2000.0)]
    starts = whole_runs("edf", sorted(long + urgent))
    waits = [time_s % 100.0 - 1.5 for time_s, request, _ in starts if request % 2]
    assert waits == [3.5, 0.5, 0.5, 3.5]


def test_the_tightest_deadline_of_a_pair_counts_and_whole_batches_count() -> None:
    # One pair asks for 8 s once and for 500 s ever after: 5 s without a boundary would be too long.
    mixed = [(0.0, 1, 9.0, 1), (2.0, 1, 500.0, 1), (5.0, 0, 500.0, 0), (6.5, 1, 15.5, 1)]
    assert whole_runs("edf", mixed)[2:] == [(5.0, 2, 0), (7.0, 3, 0), (8.0, 2, 2)]
    calm = Calm(10.0, 100.0)
    calm.arrived(deadline_s=50.0, own_s=40.0, now_s=0.0)
    assert calm.allows(50.0, 5.0, 1.0) and not calm.allows(50.0, 5.1, 1.0) and not calm.allows(51.0, 3.0, 1.0)
    assert not Calm(math.inf, 100.0).allows(1.0, 1.0, 0.0)


def test_a_call_that_may_take_a_minute_is_not_urgent() -> None:
    """As it was, one call by gRPC with a client's usual timeout had all networks of others cut for ten minutes."""
    calm = Calm(0.0, 1.0)
    calm.arrived(60.0, 0.01, 0.0)
    assert calm.allows(math.inf, 0.077, 1.0) and calm.allows(60.0, 0.077, 1.0)
    calm.arrived(1.5, 0.01, 0.0)
    assert not calm.allows(math.inf, 0.077, 1.0)


def test_a_network_of_about_a_lease_is_not_cut_for_good_because_cutting_makes_it_longer() -> None:
    calm = Calm(0.0, 1.0)
    assert calm.allows(math.inf, 1.1, 0.0) and not calm.allows(math.inf, 1.2, 0.0)


@pytest.mark.parametrize("seen_s", [0.0, 150.0, 299.0])
def test_the_urgent_are_remembered_for_five_to_ten_minutes_however_rarely_somebody_comes(
    seen_s: float,
) -> None:
    calm = Calm(0.0, 100.0)
    calm.arrived(deadline_s=0.1, own_s=0.01, now_s=seen_s)
    assert not calm.allows(50.0, 0.02, seen_s + 299.0)
    calm.allows(50.0, 0.02, 599.0)  # the end of a spell may be noticed late
    calm.arrived(deadline_s=50.0, own_s=1.0, now_s=600.0)
    assert calm.allows(50.0, 0.02, seen_s + 601.0)


@pytest.mark.parametrize("seen_s, looks_s, allowed", [
    (550.0, [610.0], False),  # remembered for 300 s at the least, though a spell ended meanwhile
    (550.0, [849.0], False), (550.0, [610.0, 901.0], True),
    (0.0, [601.0], True),  # two spells have ended unnoticed
    (0.0, [299.0, 300.0, 599.0], False), (0.0, [300.0, 600.0], True),
])  # fmt: skip
def test_spells_of_remembering_end_at_multiples_of_five_minutes(
    seen_s: float, looks_s: list[float], allowed: bool
) -> None:
    calm = Calm(0.0, 100.0)
    calm.arrived(deadline_s=0.1, own_s=0.01, now_s=seen_s)
    assert [calm.allows(50.0, 0.02, now_s) for now_s in looks_s][-1] == allowed


def test_a_lease_goes_on_when_the_newcomer_can_wait() -> None:
    replay = Replay(load_policy("edf"), np.ones((6, 1)), [5, 1], DispatchOptions(lease_s=100.0))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, 0, 10.0, 0), (1.5, 1, 40.0, 1)])
    assert replay.log == [(0.0, 0, 0, 0), (5.0, 1, 0, 0)]


@pytest.mark.parametrize("starve_s, order", [(math.inf, [0, 2, 3, 4, 1]), (2.5, [0, 2, 3, 1, 4])])
def test_a_late_tenant_is_served_now_and_then_whatever_the_others_send(
    starve_s: float, order: list[int]
) -> None:
    options = DispatchOptions(lease_s=0.0, starve_s=starve_s)
    replay = Replay(load_policy("edf+f"), np.ones((2, 1)), [1, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    # Request 1 is hopeless from the start. It has waited for 2.5 s when the device is free at 3 s (begun at 0.3 s).
    replay.play([(0.0, 0, 9.0, 0), (0.3, 1, 0.9, 1), (0.4, 0, 9.1, 0), (0.5, 0, 9.2, 0), (0.6, 0, 9.3, 0)])
    assert [entry[1] for entry in replay.log] == order


def test_hopeless_requests_are_dropped_when_asked() -> None:
    replay = Replay(load_policy("edf"), np.ones((2, 1)), [2], DispatchOptions(late="drop", lease_s=0.0))
    replay.dispatcher.add_pair(Agreement("t", "m0", Slo(0.5)))
    replay.play([(0.0, 0, 2.5, 0), (0.1, 0, 2.4, 0), (0.2, 0, 50.0, 0)])
    # The first block of request 0 ends at 1; request 1 (due at 2.4) still needs 2 s then: hopeless.
    assert replay.gone == [(1, "hopeless")]
    assert replay.dispatcher.indicators[0].sli == pytest.approx(2 / 3)


def test_a_batch_runs_together_and_is_counted_as_many() -> None:
    replay = Replay(load_policy("edf"), np.ones((2, 1)), [1, 1], DispatchOptions(max_batch=4))
    pair = replay.dispatcher.add_pair(Agreement("t", "m0"))
    network, loaded_anew = replay.networks
    jobs = [
        Job(pair, network, 0.0, 10.0 + n, batch=b, group="g", payload=n)
        for n, b in enumerate([1, 1, 2, 3, 1])
    ]
    jobs.append(Job(pair, loaded_anew, 0.0, 11.5, group="g", payload=5))
    uneven = (("a", (1, 4)), ("b", (2, 4)))  # rows of others' would come to lie beside its own
    jobs.append(Job(pair, network, 0.0, 11.7, batch=1, group="g", payload=6, shapes=uneven))
    for job in jobs:
        replay.dispatcher.arrive(job)
    # The first starts alone at once; then the earliest deadline takes those that fit into four rows with it.
    assert jobs[0].together == []
    end_s, device, *_ = replay.events[0]
    replay.clock.time_s = end_s
    replay.dispatcher.done(device, 1)
    replay.dispatcher.decide()
    assert [j.payload for j in jobs[1].together] == [2, 4], (
        "neither what came for another file nor what is uneven"
    )
    assert jobs[3].row >= 0 and math.isnan(jobs[3].start_s)


@pytest.mark.parametrize(
    ("patience_s", "evident", "together"), [(9.0, True, 3), (2.5, True, 1), (9.0, False, 0)]
)
def test_a_batch_keeps_nobody_waiting_for_longer_than_a_request_may(
    patience_s: float, evident: bool, together: int
) -> None:
    """Eight requests of which each was short enough held the device eight times as long, and were ended there."""
    replay = Replay(load_policy("edf"), np.ones((2, 1)), [2], DispatchOptions(max_batch=4, lease_s=9.0))
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.dispatcher.patience_s = lambda job: patience_s
    if not evident:
        replay.dispatcher.costs._evident.clear()
    jobs = [Job(0, replay.networks[0], 0.0, 90.0, group="g", payload=n) for n in range(4)]
    for job in jobs:
        replay.dispatcher.enter(job)
    replay.dispatcher.decide()
    assert len(jobs[0].together) == together


def test_a_policy_finds_its_own_constants_in_the_view_and_nothing_of_its_predecessor() -> None:
    seen: list[tuple[str, list[float], float]] = []

    class Noting:
        def __init__(self, name: str, *parameters: float) -> None:
            self.name, self.parameters = name, parameters

        def __call__(self, view: Any) -> list[Any]:
            seen.append((self.name, view.system["parameters"][:2].tolist(), float(view.system["memory"][0])))
            view.system["memory"][0] = 7.0
            return [view.assign(0, 0)]

    def bad(view: Any) -> list[Any]:
        raise RuntimeError("no idea")

    guard = Guarded(Noting("one", 1.0, 2.0), Noting("fallback", 3.0))
    replay = Replay(guard, np.ones((1, 1)), [1], DispatchOptions())
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    replay.play([(0.0, 0, 9.0, 0), (2.0, 0, 9.0, 0)])
    guard.replace(Noting("two"))
    replay.play([(4.0, 0, 9.0, 0)])
    guard.replace(bad)
    replay.play([(6.0, 0, 9.0, 0)])
    assert seen == [
        ("one", [1.0, 2.0], 0.0),
        ("one", [1.0, 2.0], 7.0),
        ("two", [0.0, 0.0], 0.0),
        ("fallback", [3.0, 0.0], 0.0),
    ]


def test_what_serving_costs_beside_the_blocks() -> None:
    told = Overheads()
    told.turned(lost_s(could_s=1.0, began_s=1.0625, beside_s=0.0))
    told.turned(lost_s(could_s=2.0, began_s=2.015625, beside_s=0.015625))
    told.turned(lost_s(could_s=3.0, began_s=7.0, beside_s=0.0))  # the device was away
    assert told.turn.mean_s == pytest.approx(0.046875)
    for _ in range(4000):
        told.turned(0.09375)
    assert told.turn.mean_s == pytest.approx(0.09375, abs=0.002), "single ones do not weigh much"


def test_what_a_move_costs_on_top_counts_for_the_device_that_holds_the_tensors() -> None:
    here, holder = Overheads(), Overheads()
    here.turned(0.25 * 0.0625)
    for lost in (0.0625, 0.03125):
        here.turned(lost, holder)
    here.turned(0.5)  # a hold
    assert here.turn.count == 1 and holder.turn.count == here.move.count == 0
    assert holder.move.mean_s == pytest.approx((0.0625 + 0.03125) / 2 - 0.25 * 0.0625)
    here.turned(1.0, holder)  # over a slow network
    here.turned(60.0, holder)  # the device was away
    assert holder.move.count == 3 and holder.move.mean_s > 0.3


def test_a_device_that_seldom_turned_counts_as_like_the_others() -> None:
    often, once, never = Mean(), Mean(), Mean()
    for _ in range(950):
        often.learn(0.001)
    once.learn(0.096)
    of_all_s = (950 * 0.001 + 0.096) / 951
    told = means_s([often, once, never])
    assert told == pytest.approx(
        [(950 * 0.001 + 50 * of_all_s) / 1000, (0.096 + 50 * of_all_s) / 51, of_all_s]
    )
    assert means_s([Mean()]) == [0.0]


def test_the_twin_is_told_long_means_and_the_spread_of_block_times() -> None:
    costs = CostBook(1)
    network = costs.add("m", 2)
    costs.measured(network, 0, [1.0, 9.0])
    for n in range(400):
        costs.learn(network, 0, 0, [2.0 * math.exp(0.1 if n % 2 else -0.1), 4.0 if n == 7 else 2.0], 1)
    assert costs.mean_s[:, 0] == pytest.approx([2.0 * math.cosh(0.1), 2.0], rel=0.02)
    assert costs.scatter.spread[0] == pytest.approx(0.1 / math.sqrt(2.0), rel=0.2), (
        "one interruption does not count"
    )
    costs.learn(network, 0, 0, [0.5, 0.5], 1)
    assert costs.mean_s[1, 0] > 1.95 > costs.latency_s[1, 0] and costs.scatter.spread[0] < 0.09


def test_the_devices_watch_counts_when_a_run_began_and_ended() -> None:
    replay = Replay(load_policy("edf"), np.ones((2, 1)), [2], DispatchOptions())
    replay.dispatcher.add_pair(Agreement("t", "m0"))
    job = Job(0, replay.networks[0], 0.0, 9.0, payload=0)
    replay.dispatcher.arrive(job)
    replay.clock.time_s = 2.5
    replay.dispatcher.done(0, 2, span_s=(0.0625, 2.25))
    assert (job.start_s, job.attained_s, replay.dispatcher.lanes[0].busy_s) == (0.0625, 2.1875, 2.1875)
    assert replay.dispatcher.leave(job)
    (told,) = replay.dispatcher.overheads
    assert (told.turn.mean_s, job.answer_s) == (0.0625, 0.25)
    # The next one waits already: what passes from the end of the first run until it begins is lost too.
    second = Job(0, replay.networks[0], 2.0, 99.0, payload=1)
    replay.dispatcher.arrive(second)
    replay.dispatcher.done(0, 2, span_s=(2.28125, 4.0), work_s=1.6875)
    assert told.turn.mean_s == pytest.approx((0.0625 + 0.03125 + 0.03125) / 2)


def test_a_policy_that_fails_while_a_choice_is_supposed_leaves_the_state_as_it_was() -> None:
    """The running job is laid among the waiting ones only for the length of the question."""

    class Failing:
        steady = False

        def __call__(self, view: View) -> list[Assign]:
            if view.accelerators["request"][0] == -1 and len(view) == 2:
                raise RuntimeError("a policy of a user")
            return [view.assign(0, 0)]

    replay = Replay(Failing(), np.full((3, 1), 1.0), [3], DispatchOptions(lease_s=9.0))
    dispatcher = replay.dispatcher
    dispatcher.add_pair(Agreement("t", "m0"))
    dispatcher.arrive(Job(0, replay.networks[0], 0.0, 5.0, payload=0))
    lane = dispatcher.lanes[0]
    running = lane.job
    assert running is not None
    dispatcher.enter(Job(0, replay.networks[0], 0.0, 4.0, payload=1))
    before = (lane.job, lane.busy_s, lane.last_request, running.block, running.state, running.row)
    with pytest.raises(RuntimeError, match="a policy of a user"):
        dispatcher.decide()
    assert before == (lane.job, lane.busy_s, lane.last_request, running.block, running.state, running.row)
    assert [job.payload for job in dispatcher.waiting.jobs()] == [1]
