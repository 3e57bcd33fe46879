"""Arrival processes against theory: rates, dispersion, distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.workload.arrivals import Diurnal, Mmpp, Periodic, Poisson, Profile, Replay, bursty
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.processes import ARRIVALS, arrivals

PROCESSES = (
    Poisson(40.0),
    bursty(40.0, 4.0, 0.5),
    Mmpp(0.0, 60.0, 1.0, 1.0),
    Diurnal(40.0, 0.8, 10.0, 2.0),
    Profile(40.0, (1, 0, 3), 6.0),
    Periodic(0.025, 0.04, 0.5),
    Replay(np.array([0.0, 0.5, 0.7]), speedup=2.0, loop=True, skip_s=0.1),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def dispersion(times: np.ndarray, duration_s: float, window_s: float) -> float:
    counts = np.bincount((times / window_s).astype(int), minlength=int(duration_s / window_s))
    return float(counts.var() / counts.mean())


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
@given(duration_s=st.floats(0.01, 50.0), seed=st.integers(0, 100))
def test_times_are_sorted_inside_the_run_and_repeatable(process, duration_s, seed):
    times = process.times(rng(seed), duration_s)
    assert times.dtype == np.float64
    assert (np.diff(times) >= 0.0).all()
    assert not len(times) or (times[0] >= 0.0 and times[-1] < duration_s)
    assert np.array_equal(times, process.times(rng(seed), duration_s))


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_a_longer_run_begins_with_the_same_arrivals(process):
    short, long = process.times(rng(), 20.0), process.times(rng(), 45.0)
    np.testing.assert_allclose(long[: len(short)], short, rtol=0, atol=1e-9)
    assert (long[len(short) :] >= 20.0 - 1e-9).all() or isinstance(process, Periodic)


@pytest.mark.parametrize(
    "process", [p for p in PROCESSES if not isinstance(p, Periodic | Replay)], ids=lambda p: type(p).__name__
)
def test_the_mean_rate_is_kept(process):
    duration_s = 30_000.0  # whole periods of all; 1.2 million arrivals
    count = len(process.times(rng(1), duration_s))
    assert count / duration_s == pytest.approx(process.mean_rate_per_s, rel=0.01)


def test_poisson_gaps_are_exponential():
    gaps = np.sort(np.diff(Poisson(50.0).times(rng(3), 1000.0)))
    empirical = np.arange(1, len(gaps) + 1) / len(gaps)
    distance = np.abs(empirical - (1.0 - np.exp(-50.0 * gaps))).max()
    assert distance * math.sqrt(len(gaps)) < 1.63  # Kolmogorov-Smirnov, 1 % level


def test_poisson_counts_have_variance_equal_to_mean():
    times = Poisson(50.0).times(rng(4), 20_000.0)
    assert dispersion(times, 20_000.0, 1.0) == pytest.approx(1.0, abs=0.03)  # sd of the estimate: 0.01


@pytest.mark.parametrize("window_s", [0.2, 1.0, 10.0])
def test_mmpp_dispersion_has_its_closed_form(window_s):
    process = Mmpp(10.0, 100.0, 2.0, 0.5)
    duration_s = 100_000.0
    measured = dispersion(process.times(rng(5), duration_s), duration_s, window_s)
    assert process.index_of_dispersion(window_s) > 5.0
    assert measured == pytest.approx(process.index_of_dispersion(window_s), rel=0.06)


def test_mmpp_with_equal_rates_is_poisson():
    process = Mmpp(30.0, 30.0, 1.0, 2.0)
    assert process.index_of_dispersion(1.0) == 1.0
    assert dispersion(process.times(rng(6), 20_000.0), 20_000.0, 1.0) == pytest.approx(1.0, abs=0.03)


@given(st.floats(0.1, 1e4), st.floats(1.0, 50.0), st.floats(1e-3, 100.0))
def test_bursty_keeps_the_mean_and_puts_half_the_requests_into_bursts(rate_per_s, burstiness, burst_s):
    process = bursty(rate_per_s, burstiness, burst_s)
    assert process.mean_rate_per_s == pytest.approx(rate_per_s)
    assert process.burst_rate_per_s == pytest.approx(burstiness * rate_per_s)
    assert process.burst_share * process.burst_rate_per_s == pytest.approx(0.5 * rate_per_s)


def test_diurnal_counts_follow_the_integral_of_the_rate():
    process = Diurnal(100.0, 0.6, period_s=24.0, peak_s=6.0)
    times = process.times(rng(7), 24.0 * 400)
    per_hour = np.bincount((times % 24.0).astype(int), minlength=24) / 400
    edges = np.arange(25.0)
    swing = np.sin(2 * np.pi * (edges - 6.0) / 24.0) * 24.0 / (2 * np.pi)
    expected = 100.0 * (1.0 + 0.6 * np.diff(swing))
    np.testing.assert_allclose(per_hour, expected, atol=5 * np.sqrt(160.0 / 400))
    assert expected.sum() == pytest.approx(2400.0)


def test_profile_counts_follow_the_weights():
    process = Profile(90.0, (1.0, 0.0, 5.0), period_s=3.0)
    assert process.rates_per_s.tolist() == [45.0, 0.0, 225.0]
    times = process.times(rng(8), 3000.0)
    steps = np.bincount((times % 3.0).astype(int), minlength=3) / 1000
    np.testing.assert_allclose(steps, [45.0, 0.0, 225.0], atol=5 * np.sqrt(225.0 / 1000))
    assert steps[1] == 0.0


def test_periodic_frames():
    np.testing.assert_allclose(Periodic(0.25, offset_s=0.1).times(rng(), 1.0), [0.1, 0.35, 0.6, 0.85])
    late = Periodic(0.25, jitter_s=0.1).times(rng(), 1.0) - [0.0, 0.25, 0.5, 0.75]
    assert (late >= 0.0).all() and (late < 0.1).all() and len(set(late.round(6))) == 4
    assert len(Periodic(0.25, offset_s=5.0).times(rng(), 1.0)) == 0


def test_replay_skips_scales_and_loops():
    trace = np.array([0.0, 1.0, 3.0, 4.0])
    assert Replay(trace).times(rng(), 3.5).tolist() == [0.0, 1.0, 3.0]
    assert Replay(trace, speedup=2.0).times(rng(), 9.0).tolist() == [0.0, 0.5, 1.5, 2.0]
    assert Replay(trace, skip_s=1.0).times(rng(), 9.0).tolist() == [0.0, 2.0, 3.0]
    looped = Replay(np.array([0.0, 1.0, 2.0]), loop=True)  # mean gap 1, so one pass takes 3
    assert looped.times(rng(), 7.5).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert looped.mean_rate_per_s == 1.0


def test_a_random_window_is_a_piece_of_the_trace() -> None:
    trace = np.cumsum(rng().exponential(1.0, 500))
    replay = Replay(trace, speedup=2.0, skip_s=10.0, window="random")
    starts = []
    for seed in range(50):
        times = replay.times(np.random.default_rng(seed), 20.0)
        assert (times >= 0.0).all() and (times < 20.0).all()
        first = int(np.argmin(np.abs(np.diff(trace)[:, None] / 2.0 - np.diff(times)[0]), axis=0)[0])
        np.testing.assert_allclose(np.diff(times), np.diff(trace[first : first + len(times)]) / 2.0)
        starts.append(trace[first])
    assert min(starts) > 10.0 and np.ptp(starts) > 0.5 * np.ptp(trace)
    assert replay.varies(20.0) and not replay.varies(1e4)
    assert not Replay(trace).varies(20.0)
    assert (
        replay.times(np.random.default_rng(1), 1e4) == Replay(trace, 2.0, skip_s=10.0).times(rng(), 1e4)
    ).all()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Poisson(0.0), "rate_per_s is 0.0"),
        (lambda: Poisson(math.nan), "rate_per_s is nan"),
        (lambda: Mmpp(0.0, 0.0, 1.0, 1.0), "rate 0 in both states"),
        (lambda: bursty(1.0, 0.5), "burstiness is 0.5"),
        (lambda: Diurnal(1.0, 1.5), "amplitude is 1.5"),
        (lambda: Profile(1.0, (0.0, 0.0)), "at least one positive weight"),
        (lambda: Profile(1.0, (1.0, -1.0)), "weight is -1.0"),
        (lambda: Periodic(-1.0), "period_s is -1.0"),
        (lambda: Replay(np.empty(0)), "no arrival times"),
        (lambda: Replay(np.array([1.0, 0.5])), "ascending"),
        (lambda: Replay(np.array([-1.0, 0.5])), "at least 0"),
        (lambda: Replay(np.array([0.0, 1.0]), skip_s=2.0), "ends at 1.0 s"),
        (lambda: Replay(np.array([1.0, 1.0]), loop=True), "cannot loop"),
        (lambda: ClosedLoop(0), "clients is 0"),
        (lambda: ClosedLoop(2), "give requests_per_client"),
        (lambda: ClosedLoop(2, 1.0, "uniform"), "choose one of: exponential, fixed"),
        (lambda: arrivals("poisson"), "missing 1 required"),
        (lambda: arrivals("poisson", rate_per_s=1.0, rate=2), "did you mean 'rate_per_s'"),
    ],
)
def test_nonsense_is_refused_with_the_value(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_processes_are_built_by_name():
    assert arrivals("poisson", rate_per_s=3.0) == Poisson(3.0)
    assert arrivals("bursty", rate_per_s=3.0) == bursty(3.0)
    assert arrivals("closed_loop", clients=2, think_s=1.0) == ClosedLoop(2, 1.0)
    assert all(callable(ARRIVALS.load(name)) for name in ARRIVALS)
    with pytest.raises(UnknownNameError, match="did you mean 'poisson'"):
        arrivals("poison", rate_per_s=3.0)


def test_closed_loop_chains_by_hand():
    times, after = ClosedLoop(2, requests_per_client=3).chains(rng(), 10.0)
    assert times.tolist() == [0.0] * 6
    assert after.tolist() == [-1, -1, 0, 1, 2, 3]


@given(st.integers(1, 9), st.floats(0.05, 5.0), st.sampled_from(["exponential", "fixed"]), st.integers(0, 99))
def test_closed_loop_lists_end_when_thinking_alone_fills_the_run(clients, think_s, think, seed):
    process = ClosedLoop(clients, think_s, think)
    times, after = process.chains(rng(seed), 10.0)
    total = times.copy()
    for row in np.flatnonzero(after >= 0):
        total[row] += total[after[row]]  # if service took no time
    assert (total < 10.0 + 1e-9).all()
    if think == "fixed":
        leaves = np.setdiff1d(np.arange(len(after)), after)
        assert (total[leaves] + think_s >= 10.0 - 1e-9).all()
    assert (after == -1).sum() <= clients


def test_closed_loop_think_times_are_exponential():
    times, after = ClosedLoop(50, 0.2).chains(rng(9), 200.0)
    thinks = times[after >= 0]
    assert len(times) == pytest.approx(50 * 200.0 / 0.2, rel=0.02)
    assert thinks.mean() == pytest.approx(0.2, rel=0.02) and thinks.std() == pytest.approx(0.2, rel=0.02)
