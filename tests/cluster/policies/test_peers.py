"""Each peer on a case worked by hand; what all of them must keep, on random views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.allox import match
from eunomia.cluster.policies.attained_service import Tiresias
from eunomia.cluster.policies.balancing import RULES, Balancing
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.elastic import Elastic, _greedy
from eunomia.cluster.policies.gandiva import Gandiva
from eunomia.cluster.policies.gittins import Gittins, gittins_index
from eunomia.cluster.policies.goodput import efficiency
from eunomia.cluster.policies.list_scheduling import in_order, mct
from eunomia.cluster.policies.loss_curves import LossCurve, fit_loss, fit_speed
from eunomia.cluster.policies.slaq import Slaq
from eunomia.cluster.policies.themis.book import Leases
from eunomia.contract.allocation import Allocator, ClusterView
from eunomia.contract.allocation import Elastic as Offered
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.errors import ConfigError, PolicyError
from tests.cluster.policies.peer_views import check_legal, view_of

ONE = Cluster.of({"gpu": 1})
FOUR = Cluster.of({"gpu": 4}, 2)
TWO_KINDS = Cluster.of({"fast": 2, "slow": 2}, 2)


def _runs(policy: Allocator, view: ClusterView) -> list[int]:
    """Rows that get devices."""
    answer = policy.allocate(view)
    assert answer.devices is not None
    return np.flatnonzero(answer.devices.any(axis=1)).tolist()


def _ones(jobs: int) -> list[list[float]]:
    return [[1.0]] * jobs


# --- orders


def test_shortest_time_and_shortest_service() -> None:
    """30 s on 4 devices or 100 s on 1: by time the first, by service (120 against 100) the second."""
    view = view_of(Cluster.of({"gpu": 4}), _ones(2), [30.0, 100.0], scale=[4, 1])
    assert _runs(allocator("srtf"), view) == [0]
    assert _runs(allocator("srsf"), view) == [1]


def test_stays_on_its_type_or_goes_to_the_fastest() -> None:
    cluster = Cluster.of({"slow": 1, "fast": 1})
    view = view_of(cluster, [[1.0, 2.0]], [10.0], holdings=[(0, 0, 1)])
    assert allocator("srtf").allocate(view).devices.tolist() == [[1, 0]]  # type: ignore[union-attr]
    assert allocator("srtf", types="fastest").allocate(view).devices.tolist() == [[0, 1]]  # type: ignore[union-attr]


def test_least_attained_service() -> None:
    view = view_of(ONE, _ones(3), [9.0, 9.0, 9.0], attained_s=[[5.0], [2.0], [4.0]])
    assert _runs(allocator("least_attained_service"), view) == [1]


def test_tiresias_queues() -> None:
    """Service 10, 90 and 250 with thresholds 50 and 100: queues 0, 1, 2; in a queue the first started leads."""
    policy = Tiresias(thresholds_s=(50.0, 100.0))
    attained = [[250.0], [90.0], [10.0], [0.0]]
    view = view_of(
        ONE, _ones(4), [9.0] * 4, attained_s=attained, first_start_s=[1.0, 2.0, 30.0, np.nan], now_s=40.0
    )
    assert policy.queues(view).tolist() == [2.0, 1.0, 0.0, 0.0]
    assert _runs(policy, view) == [2]


def test_tiresias_promotes_the_starved() -> None:
    """Ran 100 s, promote = 2: after 200 s of waiting it is in the first queue, and its service counts anew."""
    policy = Tiresias(thresholds_s=(50.0,), promote=2.0)
    held = view_of(ONE, _ones(1), [900.0], attained_s=[[100.0]], holdings=[(0, 0, 1)], now_s=100.0)
    assert policy.queues(held).tolist() == [1.0]
    waits = [
        view_of(ONE, _ones(1), [900.0], attained_s=[[100.0]], now_s=now_s) for now_s in (299.0, 300.0, 301.0)
    ]
    assert [policy.queues(view).tolist() for view in waits] == [[1.0], [0.0], [0.0]]
    never = Tiresias(thresholds_s=(50.0,), promote=0.0)
    assert never.queues(waits[2]).tolist() == [1.0]


@pytest.mark.parametrize(
    ("up", "gangs", "skew", "expected"),
    [  # job -> {server: devices}
        ([1, 2, 2], [2], [0.9], [{1: 2}]),  # the fullest server that holds all of it
        ([1, 2, 2], [2], [0.1], [{0: 1, 1: 1}]),  # the smallest gaps first
        ([1, 2, 2], [2], [0.5], [{1: 2}]),  # at the border it counts as skewed
        ([1, 2, 2], [3], [0.9], [{1: 2, 2: 1}]),  # no server holds it: as few as possible
        ([1, 2, 2], [3, 2], [0.1, 0.9], [{0: 1, 2: 2}, {1: 2}]),  # skewed jobs choose first
        ([2, 2, 0], [1, 2], [0.9, 0.9], [{1: 1}, {0: 2}]),  # and of them the largest
        ([2, 2, 0], [1, 2], [0.1, 0.1], [{1: 1}, {0: 2}]),
    ],
)
def test_tiresias_consolidates_only_skewed_jobs(
    up: list[int], gangs: list[int], skew: list[float], expected: list[dict[int, int]]
) -> None:
    policy, jobs = Tiresias(consolidate_skew=0.5), len(gangs)
    view = view_of(
        Cluster.of({"gpu": 6}, 2), _ones(jobs), [9.0] * jobs, scale=gangs, traits={"skew": skew}, up=up,
        first_start_s=[float(m) for m in range(jobs)],
    )  # fmt: skip
    answer = policy.allocate(view)
    assert answer.servers is not None
    rows = zip(
        answer.servers.job.tolist(),
        answer.servers.server.tolist(),
        answer.servers.count.tolist(),
        strict=True,
    )
    placed: list[dict[int, int]] = [{} for _ in gangs]
    for job, server, count in rows:
        placed[job][server] = count
    assert placed == expected


def test_gittins_index_by_hand() -> None:
    """S in {1, 10} equally: age 0 -> max(1/2 / 1, 1 / 5.5) = 0.5; age 1 -> 1 / 9; age 10 -> 0."""
    samples = np.array([1.0, 10.0])
    assert gittins_index(samples, 0.0) == 0.5
    assert gittins_index(samples, 1.0) == pytest.approx(1 / 9)
    assert gittins_index(samples, 10.0) == 0.0


def test_gittins_prefers_who_may_end_soon() -> None:
    """Sizes 1 or 100: a fresh job (0.5 a second) goes before one that is past 1 (1 / 98)."""
    policy = Gittins(samples_s=(1.0, 100.0) * 5)
    policy.reset(0)
    assert _runs(policy, view_of(ONE, _ones(2), [98.0, 1.0], attained_s=[[2.0], [0.0]])) == [1]


def test_gittins_learns_from_jobs_that_end() -> None:
    policy = Gittins(enough=1)
    policy.reset(0)
    policy.allocate(view_of(ONE, _ones(1), [7.0]))
    policy.allocate(view_of(ONE, _ones(1), [7.0], key=[1]))
    assert policy._known == [7.0]


# --- fairness of devices


def test_drf_lowest_share_first_and_nothing_is_taken() -> None:
    """Tenant 0 holds 2 of 4; tenant 1 asks twice, tenant 0 once more: both free devices go to tenant 1."""
    view = view_of(FOUR, _ones(4), [9.0] * 4, scale=[2, 1, 1, 1], tenant=[0, 0, 1, 1], holdings=[(0, 0, 2)])
    assert _runs(allocator("drf", users="tenant"), view) == [0, 2, 3]


def test_gandiva_takes_turns() -> None:
    policy = Gandiva(slice_s=60.0, pack=False)
    policy.reset(0)
    start = view_of(ONE, _ones(2), [900.0, 900.0])
    assert _runs(policy, start) == [0]
    early = view_of(ONE, _ones(2), [870.0, 900.0], holdings=[(0, 0, 1)], now_s=30.0)
    assert _runs(policy, early) == [0]  # the slice goes on
    over = view_of(ONE, _ones(2), [840.0, 900.0], holdings=[(0, 0, 1)], now_s=60.0)
    assert _runs(policy, over) == [1]


def test_gandiva_packs_when_it_pays() -> None:
    """Together 0.8 + 0.7 of their own speed: more than 1.1, so they share; 0.5 + 0.5 does not pay."""
    for together, shared in (([0.8, 0.7], True), ([0.5, 0.5], False)):
        beside = np.zeros((2, 2, 1))
        beside[0, 1, 0], beside[1, 0, 0] = together
        policy = Gandiva()
        policy.reset(0)
        answer = policy.allocate(view_of(ONE, _ones(2), [9.0, 9.0], row=[0, 1], beside=beside))
        assert answer.devices is not None
        assert (answer.pairs is not None) == shared
        assert answer.devices.sum() == (0 if shared else 1)
        if answer.pairs is not None:
            assert answer.pairs.shares.tolist() == [[1.0]]


def test_gandiva_migrates_to_one_server() -> None:
    view = view_of(FOUR, _ones(1), [9.0], scale=[2], holdings=[(0, 0, 1), (0, 1, 1)])
    answer = Gandiva(pack=False).allocate(view)
    assert answer.servers is not None and answer.servers.count.tolist() == [2]


# --- marginal gains


def _elastic(speed: list[list[float]]) -> Offered:
    """One type, scale factors 1, 2, 4."""
    return Offered(np.array([1, 2, 4]), np.array(speed)[:, :, None])


def test_optimus_by_hand() -> None:
    """Both start on 1. Job 0 (800 s) saves 400 s by its second device, 100 s each by 3 and 4; job 1 (300 s, no
    speed-up) saves nothing: 0 gets 2, and 4 would need 2 more while 1 is left."""
    view = view_of(FOUR, _ones(2), [800.0, 300.0], elastic=_elastic([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]]))
    answer = allocator("optimus").allocate(view)
    check_legal(view, answer)
    assert answer.scale is not None and answer.scale.tolist() == [2, 1]


def test_slaq_prefers_the_steep_part() -> None:
    """Equal jobs, one near its end: l = 1 / (k + 1) drops by 1/2 at k = 0, by 1/110 at k = 9."""
    view = view_of(
        ONE, _ones(2), [1.0, 10.0], total=[10.0, 10.0], traits={"loss_a": [1.0, 1.0], "loss_b": [1.0, 1.0]}
    )
    policy = Slaq(horizon_s=1.0)
    drops = policy.drops(view, np.ones((2, 1, 1)))[:, 0, 0]
    np.testing.assert_allclose(drops, [1 / 10 - 1 / 11, 1 / 2])
    assert _runs(policy, view) == [1]


def test_fits_find_the_curve() -> None:
    steps = np.arange(0.0, 100.0, 5.0)
    curve = LossCurve(np.asarray(0.05), np.asarray(0.5), np.asarray(0.0))
    found = fit_loss(steps, curve.at(steps))
    np.testing.assert_allclose(found.at(np.array([150.0])), curve.at(np.array([150.0])), rtol=0.02)
    workers = np.array([1.0, 2.0, 4.0, 8.0])
    theta = fit_speed(workers, 1.0 / (8.0 / workers + 0.5 + 0.1 * workers))
    np.testing.assert_allclose(theta, [8.0, 0.5, 0.1], rtol=1e-6)
    with pytest.raises(ConfigError, match="2 points"):
        fit_loss(steps[:2], steps[:2])


def test_efficiency_by_hand() -> None:
    """phi = 3: twice the batch is worth (3 + 1) / (3 + 2) per sample."""
    assert efficiency(np.array(2), np.array(1), np.array(3.0)) == 0.8
    assert efficiency(np.array(64), np.array(1), np.array(np.inf)) == 1.0


def test_elastic_chooses_the_best_configurations() -> None:
    """4 devices, one job scales and one does not: 2 + 1 with sqrt gains 1.41 + 1 is beaten by nothing but 4 + 0,
    which leaves one job without (2 + 0 against 2.41 + penalty)."""
    view = view_of(FOUR, _ones(2), [9.0, 9.0], elastic=_elastic([[1.0, 2.0, 4.0], [1.0, 0.0, 0.0]]))
    answer = Elastic(power=0.5).allocate(view)
    check_legal(view, answer)
    assert answer.scale is not None and answer.scale.tolist() == [2, 1]
    assert answer.devices is not None and answer.devices.sum() == 3


def test_sia_below_zero_lifts_the_worst_off() -> None:
    """Speeds 1, 3, 6 and 1, 1.4, 1.5 at 1, 2, 4 workers. p = 1: 3 + 1.4 at 2 + 2 against 6 alone, which pays
    lam = 1.1 for the other: 4.9 > 4.4 of 2 + 2. p = -1 costs 1/3 + 1/1.4 = 1.05 at 2 + 2, 1/6 + 1.1 = 1.27 alone."""
    view = view_of(FOUR, _ones(2), [9.0, 9.0], elastic=_elastic([[1.0, 3.0, 6.0], [1.0, 1.4, 1.5]]))
    found = {power: allocator("sia", power=power).allocate(view).devices for power in (1.0, -1.0)}
    assert found[1.0].sum(axis=1).tolist() == [4, 0]  # type: ignore[union-attr]
    assert found[-1.0].sum(axis=1).tolist() == [2, 2]  # type: ignore[union-attr]


def test_elastic_dislikes_restarts() -> None:
    """A young job keeps its 2 devices though 4 are free: r = (30 - 0) / (30 + 30) = 0.5 of sqrt(4)."""
    view = view_of(
        FOUR,
        _ones(1),
        [9.0],
        now_s=30.0,
        scale=[2],
        holdings=[(0, 0, 2)],
        elastic=_elastic([[1.0, 2.0, 4.0]]),
    )
    assert Elastic(restart_s=30.0).allocate(view).scale.tolist() == [2]  # type: ignore[union-attr]
    assert Elastic(restart_s=0.001).allocate(view).scale.tolist() == [4]  # type: ignore[union-attr]


# --- matching and balancing


def test_allox_matching_is_optimal() -> None:
    """Against every order on two unrelated machines: least sum of completion times."""
    import itertools

    rng = np.random.default_rng(1)
    for _ in range(5):
        time_s = rng.uniform(1.0, 10.0, (4, 2))
        device, place = match(time_s, rng.uniform(0.0, 9.0, 4))
        total = (time_s[np.arange(4), device] * place).sum()
        best = np.inf
        for order in itertools.permutations(range(4)):
            for split in itertools.product(range(2), repeat=4):
                clock = np.zeros(2)
                value = 0.0
                for m in order:
                    clock[split[m]] += time_s[m, split[m]]
                    value += clock[split[m]]
                best = min(best, value)
        assert total == pytest.approx(best)


def test_allox_keeps_running_jobs_and_refuses_gangs() -> None:
    view = view_of(TWO_KINDS, [[2.0, 1.5]] * 3, [9.0, 4.0, 5.0], holdings=[(0, 0, 1)])
    answer = allocator("allox").allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None and answer.devices[0].tolist() == [1, 0]
    assert answer.devices.sum() == 3
    with pytest.raises(PolicyError, match="row 0 of the view needs 2"):
        allocator("allox").allocate(view_of(FOUR, _ones(1), [9.0], scale=[2]))


def test_allox_looks_at_the_oldest_only() -> None:
    """10 wait for one device, the 9th is the shortest: of the oldest 3 the second, of all the 9th."""
    view = view_of(ONE, _ones(10), [9.0, 5.0, 7.0, 8.0, 4.0, 8.0, 8.0, 8.0, 1.0, 8.0])
    assert _runs(allocator("allox"), view) == [1]
    assert _runs(allocator("allox", alpha=1.0), view) == [8]
    assert _runs(allocator("allox", alpha=0.0), view) == [0]
    assert _runs(allocator("allox", alpha=1.0, window=5), view) == [4]


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [("met", [0, 0, 0]), ("mct", [0, 0, 1]), ("olb", [0, 1, 0]), ("round_robin", [0, 1, 0])],
)
def test_rules_on_arrival(rule: str, kinds: list[int]) -> None:
    """Three equal jobs, 1 s on the fast device and 2.5 s on the slow: MCT finishes at 1, 2, 2.5."""
    cluster = Cluster.of({"fast": 1, "slow": 1})
    policy = Balancing(rule)
    policy.reset(0)
    policy.allocate(view_of(cluster, [[2.5, 1.0]] * 3, [2.5] * 3))
    assert policy._queue.values[:3].tolist() == kinds


def test_jsq_and_power_of_two() -> None:
    """A queue of three on one type sends the next job to the other; both choices drawn are both types."""
    cluster = Cluster.of({"a": 1, "b": 1})
    for rule in ("jsq", "power_of_d"):
        policy = Balancing(rule)
        policy.reset(0)
        policy.allocate(view_of(cluster, [[1.0, 1.0]] * 4, [9.0] * 4))
        assert sorted(policy._queue.values[:4].tolist()) == [0.0, 0.0, 1.0, 1.0]


def test_easy_lets_short_jobs_pass_and_protects_the_head() -> None:
    """4 devices: 3 busy for 10 s, a gang of 4 waits; 1 device for 9 s may pass, for 11 s it may not."""
    for left, passes in ((9.0, True), (11.0, False)):
        view = view_of(FOUR, _ones(3), [10.0, 5.0, left], scale=[3, 4, 1], holdings=[(0, 0, 2), (0, 1, 1)])
        for kind in ("easy", "conservative"):
            assert _runs(allocator("backfill", reservations=kind), view) == ([0, 2] if passes else [0])


def test_conservative_protects_all() -> None:
    """2 of 4 free until 10 s; 3 are reserved from 10 to 15 s, then 4. One device for 20 s delays only the second:
    EASY lets it pass, conservative does not."""
    cluster = Cluster.of({"gpu": 4})
    view = view_of(cluster, _ones(4), [10.0, 5.0, 10.0, 20.0], scale=[2, 3, 4, 1], holdings=[(0, 0, 2)])
    assert _runs(allocator("backfill"), view) == [0, 3]
    assert _runs(allocator("backfill", reservations="conservative"), view) == [0]


def test_mct_equals_the_plan_of_its_rule() -> None:
    plan = in_order(np.array([[1.0, 2.5]] * 3), np.zeros(2), np.arange(3), mct)
    assert plan.machine.tolist() == [0, 0, 1] and plan.makespan_s == 2.5


# --- all of them

PREEMPTIVE = ("srtf", "srsf", "least_attained_service", "tiresias", "gittins", "optimus", "slaq", "elastic")
OTHERS = ("themis", "themis_strawman", "drf", "gandiva", "sia", "shockwave")


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_answers_are_legal_and_conserve_work(seed: int) -> None:
    """No devices beyond what works, gangs on one type, and nobody waits who would fit into what is free."""
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 10))
    speed = rng.uniform(0.5, 2.0, (jobs, 2)) * (rng.random((jobs, 2)) < 0.8)
    speed[:, 0] = np.maximum(speed[:, 0], 0.1)
    view = view_of(
        Cluster((DeviceType("a", 6, 2), DeviceType("b", 4, 4))),
        speed.tolist(),
        rng.uniform(1.0, 100.0, jobs).tolist(),
        scale=rng.integers(1, 5, jobs).tolist(),
        attained_s=rng.uniform(0.0, 1e4, (jobs, 2)).tolist(),
        now_s=50.0,
    )
    for name in (*PREEMPTIVE, *OTHERS):
        policy = allocator(name)
        policy.reset(seed)
        answer = policy.allocate(view)
        check_legal(view, answer)
        assert answer.devices is not None
        idle = view.cluster.counts - answer.devices.sum(axis=0)
        fits = view.runnable & (view.scale[:, None] <= idle[None, :])
        assert not fits[~answer.devices.any(axis=1)].any(), name
    for rule in RULES:
        balancing = Balancing(rule)
        balancing.reset(seed)
        check_legal(view, balancing.allocate(view))


@pytest.mark.parametrize("name", [*PREEMPTIVE, *OTHERS, "balancing", "backfill", "allox"])
def test_an_empty_view_gets_an_empty_answer(name: str) -> None:
    policy = allocator(name)
    policy.reset(0)
    answer = policy.allocate(view_of(TWO_KINDS, [], []))
    assert answer.devices is not None and answer.devices.shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("tiresias", {"thresholds_s": (5.0, 3.0)}, "must rise"),
        ("tiresias", {"promote": -1.0}, "promote is -1"),
        ("balancing", {"rule": "jqs"}, "choose one of: random"),
        ("balancing", {"choices": 0}, "choices is 0"),
        ("pollux", {"idle": 1.0}, "idle is 1"),
        ("backfill", {"reservations": "all"}, "easy, conservative"),
        ("allox", {"alpha": 2.0}, "alpha is 2"),
        ("allox", {"window": 0}, "window is 0"),
        ("drf", {"users": "job"}, "tenant, app"),
        ("slaq", {"horizon_s": 0.0}, "horizon_s is 0"),
        ("elastic", {"power": 0.0}, "power is 0"),
        ("gandiva", {"pack_gain": 0.5}, "pack_gain is 0.5"),
        ("gandiva", {"slice_s": 0.0}, "slice_s is 0"),
        ("srtf", {"order": 1}, "unknown setting 'order'"),
    ],
)
def test_bad_settings(name: str, given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        allocator(name, **given)


# --- small rules of single policies


def test_slaq_ranks_by_types_that_a_job_can_use_and_by_slow_ones_too() -> None:
    """As above at half a step a second, beside a type on which neither runs."""
    view = view_of(
        TWO_KINDS, [[0.5, 0.0]] * 2, [1.0, 10.0], total=[10.0, 10.0], scale=[2, 2],
        traits={"loss_a": [1.0, 1.0], "loss_b": [1.0, 1.0]},
    )  # fmt: skip
    assert _runs(Slaq(horizon_s=2.0), view) == [1]


def test_the_shortest_queue_is_sought_among_all_types_and_one_draw_is_chance() -> None:
    view = view_of(Cluster.of({"a": 1, "b": 1, "c": 1}), [[1.0] * 3] * 6, [9.0] * 6)
    uneven = 0
    for seed in range(10):
        for rule, choices in (("jsq", 1), ("power_of_d", 1)):
            policy = Balancing(rule, choices=choices)
            policy.reset(seed)
            policy.allocate(view)
            even = sorted(policy._queue.values[:6].tolist()) == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
            assert even or rule == "power_of_d"
            uneven += not even
    assert uneven > 0


def test_taking_turns_does_not_look_at_queues() -> None:
    """After a gang of 4 on the first type and one job on the second, the first type has its turn again."""
    policy = Balancing("round_robin")
    policy.reset(0)
    policy.allocate(view_of(Cluster.of({"a": 4, "b": 4}), [[1.0, 1.0]] * 3, [9.0] * 3, scale=[4, 1, 1]))
    assert policy._queue.values[:3].tolist() == [0.0, 1.0, 0.0]


def test_greedy_packing_takes_one_configuration_a_job_while_devices_last() -> None:
    """Gains fall from left to right: job 0 with 2 of 3 devices, then job 1 with the last one; job 2 finds none."""
    job, option = np.array([0, 0, 1, 1, 2]), np.array([1, 0, 1, 0, 0])
    scales = np.array([[1, 2]] * 3)
    chosen = _greedy(np.arange(5), job, option, np.zeros(5, np.int64), scales, np.array([3]))
    assert chosen == [(0, 1, 0), (1, 0, 0)]


def test_leases_end_only_on_the_server_that_fails() -> None:
    view = view_of(FOUR, _ones(2), [9.0, 9.0], up=[2, 0])
    leases = Leases({0: 60.0, 1: 60.0}, {0: np.array([1, 0]), 1: np.array([0, 2])})
    free, before = leases.expire(view)
    assert list(leases.until_s) == [0] and free.tolist() == [1, 0]
    assert before.tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "themis",
            {"knob": ""},
            "unknown setting 'knob' of cluster policy 'themis'; choose one of: aligned, fair",
        ),
        ("themis", {"fairness": ""}, "cluster policy 'themis': fairness is ''; it must be a number"),
        ("themis", {"lease_s": True}, "lease_s is True; it must be a number"),
        ("themis", {"aligned": "maybe"}, "aligned is 'maybe'; it must be true or false"),
        ("themis", {"payment": "gold"}, "themis: payment is 'gold'; choose one of: lease, devices, none"),
        ("balancing", {"rule": "jsq", "seed_": 3}, "unknown setting 'seed_'"),
        ("isolated", {"knob": 1}, "cluster policy 'isolated' takes no settings; leave out knob=1"),
    ],
)
def test_a_wrong_setting_is_one_sentence(name: str, settings: dict[str, object], message: str) -> None:
    """Before, the words of Python's TypeError came through."""
    with pytest.raises(ConfigError) as no:
        allocator(name, **settings)
    assert message in str(no.value) and "__init__" not in str(no.value) and "\n" not in str(no.value)
