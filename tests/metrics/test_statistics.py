from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.metrics.statistics import (
    Estimate,
    bootstrap,
    interval,
    mean,
    nearest_rank,
    paired_difference,
    paired_ratio,
    t_quantile,
)

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


# NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2
@pytest.mark.parametrize(
    ("probability", "df", "quantile"),
    [
        (0.90, 1, 3.078), (0.95, 1, 6.314), (0.975, 1, 12.706), (0.99, 1, 31.821), (0.995, 1, 63.657),
        (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 4, 2.776), (0.975, 5, 2.571), (0.975, 9, 2.262),
        (0.995, 9, 3.250), (0.999, 9, 4.297), (0.95, 19, 1.729), (0.975, 30, 2.042), (0.99, 60, 2.390),
        (0.975, 100, 1.984),
    ],
)  # fmt: skip
def test_t_quantiles_agree_with_the_table(probability: float, df: int, quantile: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(quantile, abs=5.1e-4)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.975, 0.9995])
def test_t_quantiles_agree_with_closed_forms(p: float) -> None:
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-11)
    assert t_quantile(p, 2) == pytest.approx((2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p))), rel=1e-11)


def test_t_approaches_the_normal_distribution() -> None:
    assert t_quantile(0.975, 1e7) == pytest.approx(1.959963984540054, rel=1e-6)


@given(st.floats(0.01, 0.99), st.integers(1, 200))
def test_t_is_symmetric(p: float, df: int) -> None:
    assert t_quantile(p, df) == pytest.approx(-t_quantile(1 - p, df), rel=1e-9, abs=1e-9)


def test_half_of_t_lies_below_zero() -> None:
    assert t_quantile(0.5, 7) == 0.0


@pytest.mark.parametrize(("p", "df"), [(0.0, 3), (1.0, 3), (0.5, 0), (math.nan, 3)])
def test_impossible_quantiles_are_refused(p: float, df: int) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        t_quantile(p, df)


def test_interval_by_hand() -> None:
    # 1, 2, 3: s = 1, t(2) = 4.30265, half = 4.30265 / sqrt(3) = 2.48414
    estimate = interval([1.0, 2.0, 3.0])
    assert estimate.mean == 2.0 and estimate.n == 3
    assert estimate.low == pytest.approx(-0.484138, abs=1e-6)
    assert estimate.high == pytest.approx(4.484138, abs=1e-6)
    assert not estimate.excludes_zero


def test_one_replication_has_no_interval_and_says_so() -> None:
    estimate = interval([0.7])
    assert not estimate.has_interval and not estimate.excludes_zero
    assert f"{estimate:.1%}" == "70.0 % (n=1, no interval)"


def test_undefined_values_are_left_out_and_counted() -> None:
    assert interval([1.0, math.nan, 3.0]).n == 2
    assert interval([math.nan]).n == 0 and str(interval([])) == "no data (n=0)"


def test_estimates_format_themselves() -> None:
    assert f"{Estimate(0.712, 0.701, 0.723, 5):.1%}" == "71.2 % +- 1.1 (n=5)"
    assert f"{Estimate(12.0, 11.5, 12.5, 4):.2f}" == "12.00 +- 0.50 (n=4)"
    assert f"{Estimate(-0.02, -0.03, -0.01, 5):+.1%}" == "-2.0 % +- 1.0 (n=5)"
    assert f"{Estimate(0.5, 0.4, 0.8, 5):.0%}" == "50 % [40, 80] (n=5)"
    assert str(Estimate(2.0, 1.0, 3.0, 3)) == "2 +- 1 (n=3)"


def test_an_interval_covers_the_mean_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(3.0, 2.0, (2000, 5))
    covered = sum(e.low <= 3.0 <= e.high for e in map(interval, samples))
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)  # 3 standard errors


@given(values, st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
def test_intervals_follow_shift_and_scale(x: list[float], scale: float, shift: float) -> None:
    plain, moved = interval(x), interval([scale * v + shift for v in x])
    tolerance = 1e-9 * (1e6 * 10 + 100)
    assert moved.mean == pytest.approx(scale * plain.mean + shift, abs=tolerance)
    assert moved.half_width == pytest.approx(scale * plain.half_width, rel=1e-6, abs=tolerance)


def test_paired_differences_cancel_what_seeds_share() -> None:
    seeds = np.array([0.1, 0.5, 0.9, 0.3])
    gain = paired_difference(seeds + np.array([0.019, 0.021, 0.02, 0.02]), seeds)
    assert gain.mean == pytest.approx(0.02) and gain.excludes_zero and gain.n == 4
    assert interval(seeds).half_width > 100 * gain.half_width


def test_paired_difference_leaves_out_a_seed_that_one_side_lacks() -> None:
    assert paired_difference([1.0, math.nan, 3.0], [0.0, 1.0, 1.0]) == interval([1.0, 2.0])


def test_runs_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 with 2 runs"):
        paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])


def test_paired_ratio_is_a_geometric_mean() -> None:
    ratio = paired_ratio([2.0, 8.0], [1.0, 1.0])
    assert ratio.mean == pytest.approx(4.0) and ratio.n == 2
    assert math.sqrt(ratio.low * ratio.high) == pytest.approx(4.0)
    assert paired_ratio([1.0, 0.0], [2.0, 1.0]).n == 1
    assert paired_ratio([0.0], [1.0]).n == 0


def test_bootstrap_stays_within_the_values_and_near_t() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(10.0, 1.0, 40)
    boot, student = bootstrap(x, np.random.default_rng(1)), interval(x)
    assert x.min() <= boot.low < boot.mean < boot.high <= x.max()
    assert boot.half_width == pytest.approx(student.half_width, rel=0.15)
    assert boot == bootstrap(x, np.random.default_rng(1))
    assert not bootstrap([1.0], rng).has_interval


@pytest.mark.parametrize(
    ("percentile", "value"), [(1, 10), (20, 10), (20.1, 20), (50, 30), (95, 50), (100, 50)]
)
def test_nearest_rank_by_hand(percentile: float, value: float) -> None:
    assert nearest_rank(np.array([50.0, 10.0, 40.0, 20.0, 30.0]), percentile) == value


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.floats(0.1, 100.0))
def test_nearest_rank_is_the_engines(x: list[float], percentile: float) -> None:
    ranked = sorted(x)
    assert nearest_rank(np.array(x), percentile) == ranked[max(math.ceil(percentile / 100.0 * len(x)), 1) - 1]


def test_nothing_has_no_mean() -> None:
    assert math.isnan(mean([])) and math.isnan(nearest_rank(np.empty(0), 50))
    with pytest.raises(ConfigError, match="confidence is 95"):
        interval([1.0, 2.0], 95)
