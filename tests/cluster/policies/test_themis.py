"""Themis as an allocator: rho by hand, who sees an offer, leases, nothing idle that somebody could use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.policies.themis.agent import (
    FLOOR,
    App,
    Rest,
    Single,
    bid,
    ideal_time_s,
    rho,
    time_left_s,
)
from eunomia.cluster.policies.themis.allocator import Themis
from eunomia.cluster.policies.themis.arbiter import hand_out, stay_put, visible
from eunomia.cluster.policies.themis.division import LEVELS
from eunomia.cluster.policies.themis.proportional import Offer
from eunomia.cluster.policies.themis.tuner import SuccessiveHalving, tuned
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of


def _app(age_s: float = 100.0, ideal_s: float = 400.0) -> App:
    """One job, 200 steps left, n steps/s on n <= 4 GPUs, slowed 1 / 1.25 / 2 by spread."""
    speed = np.minimum(np.arange(6), 4.0)[None, :]
    return App(age_s, ideal_s, np.array([200.0]), speed, np.array([[1.0, 1.25, 2.0]]), np.array([4]))


def test_rho_by_hand() -> None:
    """4 GPUs on one machine: (100 + 200/4) / 400; spread over racks: (100 + 2 * 200/4) / 400."""
    table = rho(_app())
    assert table[4].tolist() == [150 / 400, 162.5 / 400, 200 / 400]
    assert table[5, 0] == table[4, 0]  # beyond what it can use
    assert np.isinf(table[0]).all()


def test_ideal_time_two_definitions() -> None:
    """An app for 1 GPU on 16 shared by 4: its own quarter holds it, or it is promised 4 times its time."""
    assert ideal_time_s(600.0, 1, 16, 4.0, "share") == 600.0
    assert ideal_time_s(600.0, 1, 16, 4.0, "contention") == 2400.0
    for definition in ("share", "contention"):  # equal where the demand is at least the share
        assert ideal_time_s(600.0, 16, 16, 4.0, definition) == 2400.0  # type: ignore[arg-type]


def test_several_jobs() -> None:
    """Two rigid gangs of 2 with 100 s and 300 s: on 2 GPUs 400 s for both, 100 s for the first; on 4, 300 s."""
    speed = np.where(np.arange(5) >= 2, 1.0, 0.0)[None, :].repeat(2, axis=0)
    app = App(0.0, 1.0, np.array([100.0, 300.0]), speed, np.ones((2, LEVELS)), np.array([2, 2]))
    every = time_left_s(app, "all")[:, 0]
    assert np.isinf(every[:2]).all() and every[2:].tolist() == [
        400.0,
        400.0,
        300.0,
    ]  # half a gang is worth nothing
    first = time_left_s(app, "first")[:, 0]
    assert np.isinf(first[:2]).all() and (first[2:] == 100.0).all()


def _searching(**change: object) -> App:
    """A search of three trials for 2 GPUs each, 100 s old, T_id 500 s: one has 100 s left on its lease, two wait, of
    100 s and 300 s. GPU work: 200 + 200 + 600 = 1000 s."""
    speed = np.where(np.arange(5) >= 2, 1.0, 0.0)[None, :].repeat(2, axis=0)
    rest = Rest(gpus=2, longest_s=100.0, work_s=200.0, soonest_s=100.0)
    left, flat, gang = np.array([100.0, 300.0]), np.ones((2, LEVELS)), np.array([2, 2])
    return replace(App(100.0, 500.0, left, speed, flat, gang, rest=rest), **change)  # type: ignore[arg-type]


def test_bids_count_what_is_held_by_hand() -> None:
    """With its 2 GPUs 1000 / 2 = 500 s: rho 600 / 500; with 2 more 1000 / 4 = 250 s, but the longest trial takes 300:
    rho 400 / 500; more gains nothing. Without the lease it would bid a floor for nothing, so more for a gain."""
    np.testing.assert_allclose(1.0 / bid(_searching(), 0, 4)[:, 0], [1.2, 1.2, 0.8, 0.8, 0.8])
    np.testing.assert_allclose(
        1.0 / bid(_searching(), 2, 2)[:, 0], [0.8, 0.8, 0.8]
    )  # 2 were given in this sale
    first = time_left_s(_searching(), "first")[:, 0]
    assert first.tolist() == [100.0] * 5  # what runs ends first, whatever comes
    bare = bid(_searching(rest=Rest()), 0, 4)[:, 0]
    assert bare[0] == FLOOR * bare.max() and bare[2] / bare[0] > 1.2 / 0.8


def test_the_last_trial_that_waits_looks_at_its_place() -> None:
    """One runs (2 GPUs, 100 s left), one of 300 s waits: (200 + 600) / 4 = 200 < 300 s; at S = 2 600 s, which is more
    than the 400 s of waiting for the lease: spread GPUs are worth no more than none."""
    app = _searching(
        left=np.array([300.0]), speed=np.array([[0.0, 0.0, 1.0]]), slowdown=np.array([[1.0, 1.5, 2.0]]),
        gang=np.array([2]),
    )  # fmt: skip
    assert time_left_s(app)[2].tolist() == [300.0, 450.0, 600.0]
    assert time_left_s(app)[0, 0] == 400.0


@pytest.mark.parametrize("mechanism", ["auction", "strawman"])
def test_an_app_that_holds_devices_is_not_taken_for_one_without(mechanism: str) -> None:
    """4 GPUs. App 0 has three trials of 2 GPUs and 1000 s; one got a lease at 0 s, as did app 1's long job, which ends
    at 600 s. Then app 2 (2 GPUs, 100 s) asks for the 2 GPUs that are free, against app 0: with its lease that one's
    rho is (600 + 4800 / 2) / T_id, app 2 has nothing, so app 2 gets them, though it would be better off than app 0
    if both were served (it says half of its true rho)."""
    cluster = Cluster.of({"gpu": 4})
    policy = Themis(lease_s=5000.0, mechanism=mechanism, aligned=False)  # type: ignore[arg-type]
    policy.reset(0)
    start = view_of(
        cluster, [[1.0]] * 4, [1000.0] * 3 + [600.0], scale=[2] * 4, app=[0, 0, 0, 1], key=[0, 1, 2, 3]
    )
    policy.leases.add(start, np.array([[2], [0], [0], [2]]), np.full(4, 5000.0))
    policy.book.see(start)
    later = view_of(
        cluster, [[1.0]] * 4, [400.0, 1000.0, 1000.0, 100.0], scale=[2] * 4, app=[0, 0, 0, 2], key=[0, 1, 2, 4],
        now_s=600.0, arrival_s=[0.0, 0.0, 0.0, 600.0], total=[1000.0] * 3 + [100.0],
        traits={"claims": [1.0, 1.0, 1.0, 0.5]},
    )  # fmt: skip
    assert _devices(policy, later) == [[2], [0], [0], [2]]
    ideal_s = policy.book.ideal_s(later, 0, "share")
    now, _ = policy.book.rho(later, [np.arange(3)], policy.leases.column(later), np.array([ideal_s]), "all")
    np.testing.assert_allclose(now, (600.0 + 2400.0) / ideal_s)


def test_bids_have_a_floor_that_scales() -> None:
    value = bid(_app(), 0, 5)
    assert value.min() == FLOOR * value.max() and value.max() == 400 / 150
    np.testing.assert_allclose(bid(_app(ideal_s=800.0), 0, 5), 2.0 * value)
    assert (
        bid(_app(), 4, 3) == value.max()[None]
    ).sum() > 0  # what runs counts: nothing more is to be gained
    assert np.ptp(bid(_app(), 4, 1)[:, 0]) == 0.0


@pytest.mark.parametrize("wait_s", [0.0, 600.0])
def test_two_numbers_say_the_bid_of_a_single_job(wait_s: float) -> None:
    """To the last bit, for 200 drawn jobs: V with the gang by spread, and V with less."""
    rng = np.random.default_rng(5)
    age_s, ideal_s, left, speed = np.exp(rng.uniform(0.0, 12.0, (4, 200)))
    slow, gang = np.cumsum(rng.uniform(1.0, 20.0, (200, LEVELS)), axis=1), rng.integers(1, 9, 200)
    single = Single.of(age_s, ideal_s, left[:, None] * slow / speed[:, None], wait_s)
    for a in range(200):
        by_gpus = np.where(np.arange(gang[a] + 1) >= gang[a], speed[a], 0.0)[None]
        app = App(age_s[a], ideal_s[a], left[[a]], by_gpus, slow[[a]], gang[[a]])
        assert (single.bid(a, int(gang[a]), 10) == bid(app, 0, 10, wait_s=wait_s)).all()


def test_a_lying_app_overstates_its_gain() -> None:
    honest, lying = bid(_app(), 0, 4), bid(_app(), 0, 4, lie=2.0)
    assert lying[4, 0] / lying[0, 0] > honest[4, 0] / honest[0, 0]


@pytest.mark.parametrize(("fairness", "number"), [(0.0, 10), (0.5, 5), (0.8, 2), (0.95, 1), (1.0, 1)])
def test_visibility(fairness: float, number: int) -> None:
    """The (1 - f) fraction with the worst rho, at least one."""
    worst = visible(np.arange(10.0), np.zeros(10), fairness)
    assert worst.tolist() == list(range(9, 9 - number, -1))


def test_visibility_ties() -> None:
    assert visible(np.array([np.inf, 1.0, np.inf]), np.array([1.0, 9.0, 2.0]), 0.5).tolist() == [2, 0]
    with pytest.raises(ConfigError, match="fairness is 1.5"):
        visible(np.zeros(2), np.zeros(2), 1.5)


def test_hand_out_conserves_work() -> None:
    """Linear in what it can use: the first takes its 3, the second the last 1, nobody takes what is idle."""
    value = (
        np.minimum(np.maximum(np.arange(5.0), 1e-3), 3.0)[None, :, None]
        .repeat(2, axis=0)
        .repeat(LEVELS, axis=2)
    )
    offer = Offer(np.array([2, 2], np.int64), np.array([0, 0], np.int64))
    grant = hand_out(value, np.array([1, 0]), offer)
    assert grant.sum(axis=1).tolist() == [1, 3]


def test_renewed_leases_stay() -> None:
    offer = Offer(np.array([4, 4], np.int64), np.array([0, 0], np.int64))
    grant = np.array([[4, 0], [0, 4]])
    before = np.array([[0, 4], [4, 0]])
    assert stay_put(grant, before, offer).tolist() == before.tolist()
    other = Offer(np.array([4, 4], np.int64), np.array([0, 1], np.int64))  # not interchangeable: other racks
    assert stay_put(grant, before, other).tolist() == grant.tolist()


def test_one_app_takes_what_it_can_use() -> None:
    view = view_of(Cluster.of({"gpu": 8}, 4), [[1.0]], [100.0], scale=[4])
    answer = Themis().allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None and answer.devices.tolist() == [[4]]
    assert answer.servers is not None and len(answer.servers.job) == 1  # one machine, not two halves


def test_leases_hold_until_they_end() -> None:
    """A long job has the only GPU; a newcomer waits for the lease, then is worst off and gets it. By default that is at
    600 s: with leases of 20 minutes its rho would be (1100 + 50) / 50 = 23 instead of 550 / 50 = 11."""
    cluster = Cluster.of({"gpu": 1})
    policy = Themis()
    alone = view_of(cluster, [[1.0]], [10_000.0])
    assert _devices(policy, alone) == [[1]]
    both = [[1.0], [1.0]]
    early = view_of(
        cluster, both, [9900.0, 50.0], now_s=100.0, arrival_s=[0.0, 100.0], total=[10_000.0, 50.0]
    )
    assert _devices(policy, early) == [[1], [0]]
    late = view_of(cluster, both, [9400.0, 50.0], now_s=600.0, arrival_s=[0.0, 100.0], total=[10_000.0, 50.0])
    assert _devices(policy, late) == [[0], [1]]


def _devices(policy: Themis, view: object) -> list[list[int]]:
    answer = policy.allocate(view)  # type: ignore[arg-type]
    assert answer.devices is not None
    return answer.devices.tolist()


def test_a_broken_server_ends_the_lease() -> None:
    cluster = Cluster.of({"gpu": 2}, 1)
    policy = Themis()
    _devices(policy, view_of(cluster, [[1.0], [1.0]], [50.0, 50.0]))
    view = view_of(cluster, [[1.0], [1.0]], [50.0, 50.0], now_s=1.0, up=[0, 1])
    answer = policy.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None and answer.devices.sum() == 1


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    mechanism=st.sampled_from(["auction", "strawman"]),
    paid=st.sampled_from(["lease", "none", "devices floor", "devices lottery"]),
    unserved=st.sampled_from(["wait", "floor"]),
)
def test_no_idle_gpu_that_an_app_could_use(seed: int, mechanism: str, paid: str, unserved: str) -> None:
    """Two types, random gangs and apps: legal, and no waiting job fits into what is free on a type it can use."""
    rng = np.random.default_rng(seed)
    kinds = (DeviceType("a", 6, 2, servers_per_rack=2), DeviceType("b", 4, 4))
    jobs = int(rng.integers(1, 9))
    speed = rng.uniform(0.5, 2.0, (jobs, 2)) * (rng.random((jobs, 2)) < 0.8)
    speed[:, 0] = np.maximum(speed[:, 0], 0.1)
    view = view_of(
        Cluster(kinds),
        speed.tolist(),
        rng.uniform(1.0, 100.0, jobs).tolist(),
        scale=rng.integers(1, 5, jobs).tolist(),
        app=np.sort(rng.integers(0, jobs, jobs)).tolist(),
        traits={"slowdown_rack": rng.uniform(1.0, 2.0, jobs).tolist()},
    )
    payment, _, rounding = paid.partition(" ")
    fairness = float(rng.choice([0.0, 0.5, 0.8]))
    given = {
        "mechanism": mechanism,
        "payment": payment,
        "rounding": rounding or "floor",
        "unserved": unserved,
    }
    policy = Themis(fairness=fairness, **given)  # type: ignore[arg-type]
    answer = policy.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None
    idle = view.cluster.counts - answer.devices.sum(axis=0)
    waits = ~answer.devices.any(axis=1)
    fits = view.runnable & (view.scale[:, None] <= idle[None, :])
    assert not (fits[waits]).any()


def test_leftovers_go_to_the_worst_or_to_anybody() -> None:
    """3 waiting apps, 2 GPUs, f = 0.8: the oldest sees the offer and takes one; the other goes to the next oldest, or
    by lot."""
    arrivals = {"now_s": 1000.0, "arrival_s": [0.0, 400.0, 800.0]}
    served = {"worst": set(), "random": set()}  # type: ignore[var-annotated]
    for leftovers, seen in served.items():
        for seed in range(12):
            policy = Themis(leftovers=leftovers)  # type: ignore[arg-type]
            policy.reset(seed)
            view = view_of(Cluster.of({"gpu": 2}), [[1.0]] * 3, [100.0] * 3, **arrivals)  # type: ignore[arg-type]
            seen.add(tuple(row[0] for row in _devices(policy, view)))
    assert served == {"worst": {(1, 1, 0)}, "random": {(1, 1, 0), (1, 0, 1)}}


def test_a_lie_about_rho_moves_an_app_up_the_queue() -> None:
    """Two equal apps, one GPU: the first gets it, unless the second claims a rho three times as bad."""
    for claims, served in (([1.0, 1.0], [[1], [0]]), ([1.0, 3.0], [[0], [1]])):
        view = view_of(Cluster.of({"gpu": 1}), [[1.0], [1.0]], [50.0, 50.0], traits={"claims": claims})
        assert _devices(Themis(mechanism="strawman"), view) == served


def test_aligned_leases_end_together() -> None:
    """Granted at 500 s with leases of 600 s: until 1100 s, or until 600 s if aligned."""
    for aligned, until_s in ((False, 1100.0), (True, 600.0)):
        policy = Themis(lease_s=600.0, aligned=aligned)
        policy.allocate(view_of(Cluster.of({"gpu": 1}), [[1.0]], [50.0], now_s=500.0))
        assert policy.leases.until_s == {0: until_s}


def test_same_seed_same_answer() -> None:
    rng = np.random.default_rng(3)
    view = view_of(
        Cluster.of({"gpu": 8}, 4), np.ones((9, 1)).tolist(), rng.uniform(1, 9, 9).tolist(), scale=[2] * 9
    )
    first, second = Themis(), Themis()
    first.reset(7)
    second.reset(7)
    assert _devices(first, view) == _devices(second, view)


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="fairness is 2"):
        Themis(fairness=2.0)
    with pytest.raises(ConfigError, match="lease_s is 0"):
        Themis(lease_s=0.0)
    with pytest.raises(ConfigError, match="rounding is 'up'"):
        Themis(rounding="up")  # type: ignore[arg-type]


def test_successive_halving_by_hand() -> None:
    """8 trials, eta 2: 4 end at 1/8, 2 at 1/4, 1 at 1/2, the best runs on."""
    ran = SuccessiveHalving().fractions(np.arange(8.0), np.zeros((8, 3)))
    assert ran.tolist() == [1.0, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125]


def test_a_slow_starter_is_ended() -> None:
    noise = np.zeros((2, 1))
    noise[0, 0] = 5.0  # looks bad at the first rung though it would win
    assert SuccessiveHalving().fractions(np.array([0.0, 1.0]), noise).tolist() == [0.5, 1.0]


def test_tuned_trials_keep_one_full_run() -> None:
    trials = [TrainingJob(f"t{i}", "m", 1000.0, app_id="a") for i in range(8)]
    cut = tuned(trials, SuccessiveHalving(), seed=1)
    steps = sorted(job.total_steps for job in cut)
    assert steps == [125.0, 125.0, 125.0, 125.0, 250.0, 250.0, 500.0, 1000.0]
    assert cut == tuned(trials, SuccessiveHalving(), seed=1)
    with pytest.raises(ConfigError, match="eta is 1"):
        SuccessiveHalving(eta=1)
