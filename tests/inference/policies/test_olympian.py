"""Turns of tenants: those of the token scheduler of ``eunomia.sharing.slices``, and shares over a run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.olympian import olympian
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.neighbours import SAME, Neighbours
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.sharing.interference import CoRun
from eunomia.sharing.slices import CostProfile, TurnScheduler
from eunomia.sharing.slices.scheduler import Turn
from eunomia.workload.tenant import Agreement
from tests.inference.agreement import run_short
from tests.inference.policies.views import ask, guarded, job
from tests.inference.test_hand_worked import case, chain
from tests.serving.test_dispatcher import Pipelined, Replay, Watched


def _turns(share: str, quantum_s: float, jobs: list[Turn]) -> list[int]:
    """Whose node runs next, until all are through; jobs come one by one before the first node ends."""
    token, order, done = TurnScheduler(share, quantum_s), [], [0] * len(jobs)
    for turn in jobs:
        token.join(turn)
    for turn in jobs:
        token.want(turn.name)
    while token.holder is not None:
        n = jobs.index(token.holder)
        order.append(n)
        over = token.charge(token.holder.name, done[n])
        done[n] += 1
        if done[n] == len(jobs[n].profile.node_cost):
            token.leave(jobs[n].name)
        elif over:
            token.advance()
    return order


def _replayed(policy: str, jobs: list[Turn], kind: type[Replay] = Replay, lease_s: float = 0.0) -> Replay:
    """One request per tenant, each a network of its own."""
    latency_s = np.concatenate([turn.profile.node_cost for turn in jobs])[:, None]
    blocks = [len(turn.profile.node_cost) for turn in jobs]
    replay = kind(guarded(policy), latency_s, blocks, DispatchOptions(lease_s=lease_s))
    for n, turn in enumerate(jobs):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", None, float(turn.priority), turn.weight))
    replay.play([(0.0, n, math.inf, n) for n in range(len(jobs))])
    return replay


def _jobs(seed: int) -> list[Turn]:
    rng = np.random.default_rng(seed)
    found = []
    for n in range(int(rng.integers(2, 5))):
        costs = tuple(rng.uniform(0.05, 1.5, int(rng.integers(5, 30))).tolist())
        weight, priority = float(rng.choice([1.0, 2.0, 3.5])), int(rng.integers(0, 3))
        found.append(Turn(f"t{n}", CostProfile(costs, sum(costs)), weight, priority))
    return found


@pytest.mark.parametrize("share", ["fair", "weighted"])
@pytest.mark.parametrize("seed", range(6))
def test_turns_are_those_of_the_token_scheduler(share: str, seed: int) -> None:
    for quantum_s in (0.3, 2.0):
        replay = _replayed(f"olympian(quantum_s={quantum_s}, share={share})", _jobs(seed))
        assert [request for _, request, _, _ in replay.log] == _turns(share, quantum_s, _jobs(seed))


def test_only_the_highest_priority_has_turns() -> None:
    jobs = [job(tenant=0, priority=1.0), job(tenant=1, priority=3.0), job(tenant=2, priority=3.0)]
    assert ask(olympian(share="priority"), jobs, [[1.0]] * 3) == [(1, 0)]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 2.0, 3.0)])
def test_weights_become_time_within_five_percent(weights: tuple[float, ...]) -> None:
    """Also under long leases: charged is what ran, whenever the policy was asked."""
    rng = np.random.default_rng(0)
    costs = [tuple(rng.uniform(0.0005, 0.004, 2000).tolist()) for _ in weights]
    jobs = [
        Turn(f"t{n}", CostProfile(c, sum(c)), w) for n, (c, w) in enumerate(zip(costs, weights, strict=True))
    ]
    replay = _replayed("olympian(quantum_s=0.02)", jobs, Watched, lease_s=100.0)
    ends = [*[entry[0] for entry in replay.log[1:]], replay.clock.now_s()]
    got = np.zeros(len(weights))
    for (start_s, request, _, _), end_s in zip(replay.log, ends, strict=True):
        if end_s < 2.0:  # all are at work
            got[request] += end_s - start_s
    assert got / got.sum() == pytest.approx(np.array(weights) / sum(weights), rel=0.05)


@pytest.mark.parametrize("before", [4093, 4094, 4095, 4100])
def test_turns_are_the_same_whatever_the_numbers_of_the_tenants(before: int) -> None:
    """Memory tells 4,095 apart; as it was, number 4,095 was packed as nobody, and paid nothing."""
    assert _of_three(before) == pytest.approx(_of_three(0), abs=0.03)


def _of_three(before: int) -> np.ndarray:
    """Parts of tenants of weights 1, 2 and 3, with so many other tenants before them."""
    policy = guarded("olympian(quantum_s=0.02)")
    replay = Replay(policy, np.full((900, 1), 0.002), [300] * 3, DispatchOptions(lease_s=0.0))
    for n in range(before):
        replay.dispatcher.know(f"earlier{n}")
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", None, 1.0, 1.0 + n))
    replay.play([(0.0, n, math.inf, n) for n in range(3)])
    return _parts(replay, 3, 0.96)


def test_a_tenant_keeps_its_turn_from_one_request_to_the_next() -> None:
    replay = Replay(guarded("olympian(quantum_s=3)"), np.ones((2, 1)), [1, 1], DispatchOptions(lease_s=0.0))
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(12)])
    assert [request % 2 for _, request, _, _ in replay.log] == [0, 0, 0, 1, 1, 1] * 2


# Request 0 of tenant 0 has ten layers of 1 s and is given up at 1.5, in its second one: 2 s are charged, all of its
# first turn. Tenant 1 runs for 2 s and tenant 0 again. Charged in full it would owe 8 s, four turns of the other.
GIVEN_UP = [0, 0, *[1, 1, 2, 2] * 2]


def test_a_dropped_request_is_charged_for_what_ran() -> None:
    requests = [(0, 0.0, 1.5), (1, 0.0, math.inf), (2, 0.0, math.inf)]
    given = case([chain("a", 10), chain("b", 10), chain("c", 10)], [[1.0]] * 30, requests, [0],
                 late="drop", drop_when="expired")  # fmt: skip
    own = (Agreement("t", "a"), Agreement("u", "b"), Agreement("t", "c"))
    given = replace(given, requests=replace(given.requests, agreements=own))
    found = run_short("kernel", given, olympian(quantum_s=2.0, share="fair"))
    assert [row[0] for row in found.layers][:10] == GIVEN_UP


def _two_tenants(share: str = "fair") -> Replay:
    """Networks of ten blocks of 1 s: 0 and 2 of tenant ``t``, 1 of tenant ``u``."""
    replay = Replay(guarded(f"olympian(quantum_s=2, share={share})"), np.ones((30, 1)), [10] * 3,
                    DispatchOptions(lease_s=0.0))  # fmt: skip
    for n, tenant in enumerate("tut"):
        replay.dispatcher.add_pair(Agreement(tenant, f"m{n}"))
    return replay


def test_a_request_that_is_given_up_is_charged_for_what_ran() -> None:
    replay = _two_tenants()
    replay.dispatcher.arrive(Job(0, replay.networks[0], 0.0, hard_timeout_s=1.5, payload=0))
    for n in (1, 2):
        replay.dispatcher.arrive(Job(n, replay.networks[n], 0.0, payload=n))
    replay.play([])
    assert replay.gone == [(0, "expired")]
    assert [request for _, request, _, _ in replay.log][:10] == GIVEN_UP


def test_a_run_that_fails_is_charged() -> None:
    replay = _two_tenants()
    for n in range(3):
        replay.dispatcher.arrive(Job(n, replay.networks[n], 0.0, payload=n))
    replay.clock.time_s = 5.0  # of the first block
    replay.dispatcher.failed(0)
    replay.events.clear()
    replay.dispatcher.decide()
    replay.play([])
    # 3 s over its turn: it has its next one with 1 s of credit left after two of tenant 1.
    assert [request for _, request, _, _ in replay.log][:10] == [0, 1, 1, 1, 1, 2, 1, 1, 2, 2]


@pytest.mark.parametrize("accelerators", [6, 24, 30])
def test_weights_hold_on_many_accelerators(accelerators: int) -> None:
    """Also on more than there are tokens."""
    rng, weights = np.random.default_rng(1), np.array([1.0, 2.0, 3.0])
    count = 100 * accelerators
    pairs = tuple(Agreement(f"t{n}", f"m{n}", None, 1.0, w) for n, w in enumerate(weights))
    given = case([chain(f"m{n}", 3) for n in range(3)], rng.uniform(0.5, 1.5, (9, 1)).tolist(),
                 [(n % 3, 0.0, math.inf) for n in range(count)], [0] * accelerators)  # fmt: skip
    given = replace(given, requests=replace(given.requests, agreements=pairs))
    got = np.zeros(3)
    for request, _, _, start_s, end_s in run_short("kernel", given, olympian(quantum_s=1.0)).layers:
        if end_s < 100.0:  # all wait
            got[request % 3] += end_s - start_s
    assert got / got.sum() == pytest.approx(weights / weights.sum(), rel=0.05)


def test_weights_hold_where_requests_begin_elsewhere_than_chosen() -> None:
    replay = Replay(guarded("olympian(quantum_s=3)"), np.ones((2, 3)), [1, 1], DispatchOptions(lease_s=0.0))
    near = Neighbours([frozenset({0}), frozenset({0}), frozenset({1})], places=True)
    replay.dispatcher.neighbours = near
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}", None, 1.0, 1.0 + 2.0 * n))
        for _ in range(20):
            near.model.observe(CoRun(f"m{n}", (f"m{n}",), SAME, 1.5))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(300)])
    first = [request % 2 for _, request, _, _ in replay.log][:150]
    assert np.mean(first) == pytest.approx(0.75, rel=0.05)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"quantum_s is 0\.0; it must be positive seconds"):
        load_policy("olympian(quantum_s=0)")
    with pytest.raises(ConfigError, match="unknown share of time slices 'even'"):
        load_policy("olympian(share=even)")


class Unlike(Pipelined):
    """Tenant t0's runs take 1.5 times what is believed, and orders are given before the run ahead has ended."""

    def _seconds(self, job: Job, device: int, block: int) -> float:
        return super()._seconds(job, device, block) * (1.5, 1.0)[job.pair]


def test_what_a_run_took_beyond_its_estimate_is_charged_to_its_own_tenant() -> None:
    """Not to the one whose order was given before it ended."""
    options = DispatchOptions(lease_s=0.0, ahead_s=0.003)
    replay = Unlike(guarded("olympian(quantum_s=0.008, share=fair)"), np.full((2, 1), 0.002), [1, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(400)])
    assert _parts(replay, 2, 0.5) == pytest.approx([0.5, 0.5], abs=0.02)


class GivesUp(Pipelined):
    """A client of tenant t0 goes away as soon as another order stands behind its request."""

    away: Job | None = None

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        super().queue(device, job, first, last)
        running = self.dispatcher.lanes[device].job
        if running is not None and running.pair == 0 and running.block == 0:
            self.away = running
            self.stops.add(device)

    def wake(self, device: int) -> None:
        if self.away is not None and self.away is not self.dispatcher.lanes[device].job:
            self.dispatcher.withdraw(self.away)
            self.away = None
        super().wake(device)


@pytest.mark.parametrize("blocks", [4, 20])
def test_a_cancelled_request_is_charged_for_what_ran_though_another_was_ordered_behind_it(
    blocks: int,
) -> None:
    """Runs of ``blocks`` ms are given up after one; when the next one was chosen, all were foreseen."""
    options = DispatchOptions(lease_s=9.0, ahead_s=0.001 * blocks)
    latency_s = np.full((blocks + 1, 1), 0.001)
    replay = GivesUp(guarded("olympian(quantum_s=0.002, share=fair)"), latency_s, [blocks, 1], options)
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(400)])
    assert _parts(replay, 2, 0.3) == pytest.approx([0.5, 0.5], abs=0.03)


def _parts(replay: Replay, tenants: int, until_s: float) -> np.ndarray:
    """Of device time, by tenant; request n is of tenant n modulo ``tenants``."""
    got, began_s = np.zeros(tenants), dict[int, tuple[float, int]]()
    for at_s, request, _, device in replay.log:
        if device in began_s and at_s < until_s:
            got[began_s[device][1] % tenants] += at_s - began_s[device][0]
        began_s[device] = at_s, request
    return np.asarray(got / got.sum())


def test_runs_of_several_blocks_are_charged_whole_on_twenty_devices() -> None:
    latency_s = np.concatenate([np.full((10, 20), 0.1), np.full((1, 20), 1.0)])
    replay = Replay(
        guarded("olympian(quantum_s=2, share=fair)"), latency_s, [10, 1], DispatchOptions(lease_s=9.0)
    )
    for n in range(2):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(0.0, n % 2, math.inf, n % 2) for n in range(400)])
    assert _parts(replay, 2, 15.0) == pytest.approx([0.5, 0.5], abs=0.05)
