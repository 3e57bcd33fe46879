"""Rewards of a period by hand: what happened between ticks."""

from types import SimpleNamespace

import numpy as np
import pytest

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.inference.kernel.layout import DROPPED, HIT, LATE, RESULT, SUBJOB, UNFINISHED
from eunomia.inference.outcome import Outcome
from eunomia.inference.reference.indicators import Departure, read
from eunomia.learning.agents.ddpg.episode import (
    Exploration,
    Log,
    Replay,
    credited,
    discounted,
    explore,
)
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.ddpg.tally import overload_until, tallies
from eunomia.learning.episodes import Episode
from eunomia.learning.rewards import (
    ATTAINMENT,
    HITS,
    MISSES,
    OVERLOAD,
    SHORT_MISSES,
    SLOWDOWN,
    SPREAD,
    RewardSettings,
    r1,
    r5,
)
from eunomia.workload.tenant import SLI_KINDS, Slo
from tests.learning.agents.ddpg.actors import zero_actor
from tests.learning.deployment import episode


def outcome() -> SimpleNamespace:
    """Four requests of two tenants: a hit at 2, a drop at 3, a late one at 5, one unfinished. B = 2."""
    results = np.zeros(4, RESULT)
    results["arrival_s"], results["finish_s"] = [0.0, 1.0, 0.0, 4.0], [2.0, 3.0, 5.0, np.nan]
    results["outcome"] = [HIT, DROPPED, LATE, UNFINISHED]
    runs = np.zeros(3, SUBJOB)
    runs["request"], runs["layer"], runs["accelerator"] = [0, 2, 3], [0, 0, 0], [0, 1, 0]
    runs["start_s"], runs["end_s"] = [0.0, 1.0, 4.0], [2.0, 5.0, np.nan]
    jobs = SimpleNamespace(
        pair=np.array([0, 0, 1, 1]), model=np.zeros(4, int), model_of=np.array([0, 0]), tenant_of=np.array([0, 1]),
        slo_kind=np.array([0, -1]),
        slo_target=np.array([0.9, np.nan]), slo_window=np.array([100, 100]),
        slo_percentile=np.array([95.0, 95.0]), slo_window_s=np.array([10.0, 10.0]),
    )  # fmt: skip
    problem = SimpleNamespace(
        jobs=jobs, graph=SimpleNamespace(offset=np.array([0, 1]), iso_best_s=np.array([2.0])), bandwidth_bytes_s=2.0,
        costs=SimpleNamespace(demand_bytes_s=np.array([[3.0, 1.0]])), type_of=np.array([0, 1]),
    )  # fmt: skip
    return SimpleNamespace(results=results, subjobs=runs, problem=problem, end_s=6.0)


def test_tallies_by_hand() -> None:
    # Ticks at 0, 2 and 4. The hit at 2 falls into the period that ends with the tick at 2; request 1 was dropped at 3;
    # request 2, late at 5, was seen hopeless by the tick at 4; request 3 stays unfinished: a miss after the last tick.
    table = tallies(outcome(), np.array([0.0, 2.0, 4.0]), np.array([3, 3, 2, 3]))  # type: ignore[arg-type]
    assert table[:, HITS].tolist() == [0, 1, 1, 1]
    assert table[:, MISSES].tolist() == [0, 0, 2, 3]
    # When request 1 is dropped its pair has one hit: indicator 1, nothing lacks. The other pair has no target.
    assert table[:, SHORT_MISSES].tolist() == [0, 0, 0, 0]
    assert table[:, SLOWDOWN].tolist() == [0, 1.0, 1.0, 3.5]  # 2 / 2, and 5 / 2; dropped ones do not count
    assert table[:, ATTAINMENT].tolist() == [0, 1, 0, 0]  # 1 of 1, then 1 of 2 < 0.9
    assert table[:, SPREAD].tolist() == [0, 0, 0, 0.25]  # rates 0.5 and 0 at the end
    # Demand 3, 4, 1, 1 + 3, 3 in 0-1, 1-2, 2-4, 4-5, 5-6: excess over B 0.5, 1, 0, 1, 0.5.
    assert table[:, OVERLOAD].tolist() == [0, 1.5, 1.5, 3.0]
    assert overload_until(outcome(), np.array([0.5, 1.5, 4.5])).tolist() == [0.25, 1.0, 2.0]  # type: ignore[arg-type]
    assert r1(table[:-1], table[1:], RewardSettings()).tolist() == [0.25, -0.5, -0.25]
    tenants = r5(table[:-1], table[1:], RewardSettings(tenants=2.0))
    assert tenants.tolist() == [0.25 + 2.0, -0.5 - 2.0, -0.25]


@pytest.mark.parametrize(
    "slo",
    [
        Slo(0.6, "hit_rate", window_requests=5),
        Slo(0.2, "drop_rate", window_requests=4),
        Slo(1.3, "latency_mean", window_requests=3),
        Slo(1.3, "latency_percentile", percentile=60.0, window_requests=6),
        Slo(0.9, "throughput", window_s=4.0),
    ],
    ids=lambda slo: slo.kind,
)
def test_the_attainment_of_a_promise_is_that_of_the_indicator_as_the_reference_engine_reads_it(
    slo: Slo,
) -> None:
    rng = np.random.default_rng(3)
    results = np.zeros(40, RESULT)
    results["arrival_s"] = np.sort(rng.uniform(0.0, 40.0, 40))
    results["finish_s"] = results["arrival_s"] + rng.uniform(0.1, 3.0, 40)
    results["outcome"] = rng.choice([HIT, LATE, DROPPED], 40)
    made = outcome()
    made.results, made.problem.jobs.pair = results, np.zeros(40, np.int64)
    made.problem.jobs.model = np.zeros(40, np.int64)
    made.problem.jobs.slo_kind = np.array([SLI_KINDS.index(slo.kind), -1])
    made.problem.jobs.slo_target = np.array([slo.target, np.nan])
    made.problem.jobs.slo_window = np.array([slo.window_requests, 100])
    made.problem.jobs.slo_percentile = np.array([slo.percentile, 95.0])
    made.problem.jobs.slo_window_s = np.array([slo.window_s, 10.0])
    times_s = np.arange(0.0, 45.0, 0.7)
    table = tallies(made, times_s, np.full(40, len(times_s)))
    met = []
    for time_s in times_s:
        gone = sorted((r for r in results if r["finish_s"] <= time_s), key=lambda r: float(r["finish_s"]))
        history = [
            Departure(
                r["finish_s"], r["finish_s"] - r["arrival_s"], r["outcome"] == HIT, r["outcome"] == DROPPED
            )
            for r in gone
        ]
        reading = read(slo, history, time_s, None)
        met.append(float(reading.samples > 0 and reading.gap <= 1e-12))
    assert 0.0 < np.mean(met) < 1.0
    assert table[:-1, ATTAINMENT].tolist() == met


@pytest.mark.parametrize("period_layers", [0.0, 0.3])
def test_rewards_of_an_episode_add_up(period_layers: float) -> None:
    made, policy = episode(5), RelmasPolicy(zero_actor(4, 2, True), period_layers=period_layers)
    how = Exploration(0.1, teacher=True)
    (seen,) = credited(
        made, [explore(policy, made, how, np.random.default_rng(1))], settings("R1", scale=120)
    )
    _, done = explore(policy, made, how, np.random.default_rng(1))
    hits = int((done.results["outcome"] == HIT).sum())
    assert seen.rewards.sum() == pytest.approx(hits - (120 - hits), abs=1e-3)
    assert seen.rows.shape == (seen.start[-1], inputs(4, True) + 6) and (seen.gaps >= 0.0).all()
    assert len(seen) == len(seen.start) - 1 == len(seen.gaps)
    (again,) = credited(
        made, [explore(policy, made, how, np.random.default_rng(1))], settings("R1", scale=120)
    )
    assert again.rows.tobytes() == seen.rows.tobytes() and again.rewards.tobytes() == seen.rewards.tobytes()


def settings(reward: str, **keys: float | str) -> RelmasAlgorithm:
    return RelmasAlgorithm(name="ddpg", reward=reward, **keys)  # type: ignore[arg-type]


def rollouts(made: Episode, sigmas: tuple[float, ...]) -> list[tuple[Log, Outcome]]:
    policy = RelmasPolicy(zero_actor(4, 2, False), period_layers=0.0)
    rng = np.random.default_rng(4)
    return [explore(policy, made, Exploration(sigma, coherent=True, every=3), rng) for sigma in sigmas]


def test_each_request_is_credited_against_itself_in_the_other_rollouts() -> None:
    made = episode(5, requests=60)
    played = rollouts(made, (0.0, 0.6, 0.0))
    hits = np.array([outcome.results["outcome"] == HIT for _, outcome in played], float)
    found = credited(made, played, settings("R1", scale=30))
    assert np.abs(hits[0] - hits[1]).sum() > 0
    for one, own, others in zip(found, hits, (hits[[1, 2]], hits[[0, 2]], hits[[0, 1]]), strict=True):
        assert one.rewards.sum() == pytest.approx((own - others.mean(axis=0)).sum(), abs=1e-5)
    alike = credited(made, [played[0], played[2]], settings("R1"))
    assert not any(one.rewards.any() for one in alike)  # what happens anyway is nobody's merit
    changed = np.flatnonzero(hits[1] != hits[0])
    last_s = float(np.nan_to_num(played[1][1].results["finish_s"][changed], nan=np.inf).max())
    log = played[1][0]
    assert not found[1].returns[log.times_s[: len(found[1])] > last_s].any()


def test_a_period_is_credited_against_the_other_rollouts_at_its_time() -> None:
    made = episode(5, requests=60)
    played = rollouts(made, (0.0, 0.0, 0.6))
    found = credited(made, played, settings("R1", scale=60, credit="period"))
    alone = [credited(made, [one], settings("R1", scale=60, credit="period"))[0] for one in played]
    for k, one in enumerate(found):
        np.testing.assert_array_equal(one.rewards, alone[k].rewards)
    base = np.interp(played[2][0].times_s, played[0][0].times_s, alone[0].returns)
    np.testing.assert_allclose(found[2].returns, alone[2].returns - base, atol=1e-3)


def test_the_discount_is_one_per_second_and_spans_the_longest_deadline() -> None:
    made = episode(5, requests=30)
    ((log, outcome),) = rollouts(made, (0.0,))
    (one,) = credited(made, [(log, outcome)], settings("R1", scale=1, horizon=2))
    unit_s = 2.0 * made.problem.jobs.relative_deadline_s.max()
    ends_s = np.append(log.times_s, outcome.end_s)
    weights = np.exp((ends_s[0] - log.times_s) / unit_s)
    assert one.returns[0] == pytest.approx(float((weights * one.rewards).sum()), rel=1e-4)
    for ahead in (0.0, 0.3, 1e9):
        after, earned, factor = one.later(ahead)
        for t in (0, len(one) // 2, len(one) - 1):
            u = max(t + 1, int(np.searchsorted(ends_s[:-1], log.times_s[t] + ahead * unit_s)))
            assert after[t] == u
            assert factor[t] == pytest.approx(np.exp((log.times_s[t] - ends_s[u]) / unit_s), rel=1e-4)
            worth = np.exp((log.times_s[t] - log.times_s[t:u]) / unit_s) * one.rewards[t:u]
            assert earned[t] == pytest.approx(float(worth.sum()), abs=1e-5)


def test_replay_samples_what_happened() -> None:
    made, policy = episode(5, requests=30), RelmasPolicy(zero_actor(4, 2, False), period_layers=0.0)
    width, rng = inputs(4, False), np.random.default_rng(2)
    how = Exploration(0.3, teacher=True)
    episodes = [credited(made, [explore(policy, made, how, rng)], settings("R2"))[0] for _ in range(3)]
    replay = Replay(len(episodes[1]) + len(episodes[2]), width, 0.0)
    for number, one in enumerate(episodes):
        replay.add(number, one)
    assert [number for number, _, _ in replay.episodes] == [1, 2]  # the oldest one no longer fits
    batch = replay.sample(64, rng)
    kept = {one.rows[one.start[t]].tobytes(): (one, t) for one in episodes[1:] for t in range(len(one))}
    for n in range(64):
        one, t = kept[np.concatenate([batch.seen[n, 0], batch.action[n, 0]]).tobytes()]
        assert batch.reward[n] == pytest.approx(one.rewards[t], abs=1e-5)
        assert batch.factor[n] == pytest.approx(np.exp(-one.gaps[t]), rel=1e-4)
        assert batch.count[n] == one.start[t + 1] - one.start[t]
        assert (batch.then_count[n] == 0) == (t == len(one) - 1)
        assert not batch.seen[n, batch.count[n] :].any()


def test_returns_by_hand() -> None:
    rewards, factors = np.array([1.0, 0.0, 2.0], np.float32), np.array([0.5, 0.1, 0.9], np.float32)
    np.testing.assert_allclose(discounted(rewards, factors), [1.0 + 0.5 * 0.2, 0.2, 2.0], rtol=1e-6)
