from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.metrics.bandwidth import demand_over_time, pressure, saturation, use
from eunomia.metrics.columns import Subjobs
from tests.metrics.toy import costs_table, four, platform, requests_table, subjobs_table


def layers(*rows: tuple[float, float, float]) -> Subjobs:
    """Rows of (start, end, demand)."""
    table = np.array(rows, np.float64).reshape(-1, 3)
    return Subjobs(table[:, 0], table[:, 1], np.zeros(len(table)), table[:, 2])


def test_demand_by_hand() -> None:
    # 0..1 idle, 1..2: 6, 2..4: 10, 4..5: 4, 5..8 idle
    demand = demand_over_time(layers((1.0, 4.0, 6.0), (2.0, 5.0, 4.0)), 0.0, 8.0)
    assert demand.time_s.tolist() == [0.0, 1.0, 2.0, 4.0, 5.0]
    assert demand.bytes_s.tolist() == [0.0, 6.0, 10.0, 4.0, 0.0]
    assert demand.length_s.tolist() == [1.0, 1.0, 2.0, 1.0, 3.0]
    assert saturation(demand, 8.0) == 2 / 8
    assert use(demand, 8.0) == (6 + 8 * 2 + 4) / 8 / 8
    assert pressure(demand, 8.0) == (6 + 10 * 2 + 4) / 8 / 8


def test_demand_equal_to_the_limit_is_not_saturation() -> None:
    demand = demand_over_time(layers((0.0, 1.0, 0.1), (0.0, 1.0, 0.2)), 0.0, 1.0)  # 0.30000000000000004
    assert saturation(demand, 0.3) == 0.0 and use(demand, 0.3) == pytest.approx(1.0)


def test_the_measured_time_clips_and_running_layers_go_on() -> None:
    demand = demand_over_time(layers((0.0, math.inf, 3.0)), 2.0, 4.0)
    assert (
        demand.time_s.tolist() == [2.0]
        and demand.length_s.tolist() == [2.0]
        and demand.bytes_s.tolist() == [3.0]
    )


def test_unlimited_unknown_and_empty() -> None:
    demand = demand_over_time(layers((0.0, 1.0, 3.0)), 0.0, 2.0)
    assert saturation(demand, math.inf) == 0.0 and use(demand, math.inf) == 0.0
    unknown = demand_over_time(layers((0.0, 1.0, math.nan)), 0.0, 2.0)
    assert math.isnan(saturation(unknown, 1.0)) and math.isnan(use(unknown, 1.0))
    nothing = demand_over_time(layers(), 1.0, 1.0)
    assert math.isnan(saturation(nothing, 1.0)) and math.isnan(use(nothing, 1.0))


times = st.integers(0, 12)  # small integers, so that starts and ends coincide often
rows = st.lists(st.tuples(times, times, st.integers(0, 9)), max_size=25)


@given(rows, times, st.integers(1, 12), st.integers(1, 30))
def test_the_sweep_agrees_with_looking_at_every_second(
    intervals: list[tuple[int, int, int]], start: int, length: int, limit: int
) -> None:
    jobs = [(min(a, b), max(a, b), d) for a, b, d in intervals]
    levels = [  # times are whole seconds, so demand is constant within each
        sum(d for a, b, d in jobs if a <= second < b) for second in range(start, start + length)
    ]
    demand = demand_over_time(layers(*jobs), start, start + length)
    assert demand.length_s.sum() == length
    assert saturation(demand, limit) == pytest.approx(sum(d > limit for d in levels) / length)
    assert use(demand, limit) == pytest.approx(sum(min(d, limit) for d in levels) / limit / length)
    assert pressure(demand, limit) == pytest.approx(sum(levels) / limit / length)


@given(st.integers(0, 10_000))
def test_bytes_are_conserved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.0, 10.0, 50)
    jobs = np.column_stack([start, start + rng.exponential(1.0, 50), rng.uniform(0.0, 1e9, 50)])
    demand = demand_over_time(layers(*jobs), 0.0, 1e3)
    assert demand.bytes_s @ demand.length_s == pytest.approx((jobs[:, 1] - jobs[:, 0]) @ jobs[:, 2])


@pytest.mark.parametrize("missing", ["costs", "accelerators"])
def test_without_costs_or_platform_demand_is_unknown(missing: str) -> None:
    tables = {
        "requests": requests_table(*four()),
        "subjobs": subjobs_table((0, 0, 0, 0.0, 2.0, 1.0)),
        "costs": costs_table(("m", 0, "x", 1.0, 6.0, 4.0)),
        "accelerators": platform("x"),
    }
    assert Subjobs.read(tables).demand_bytes_s.tolist() == [6.0]
    known = {name: table for name, table in tables.items() if name != missing}
    assert math.isnan(Subjobs.read(known).demand_bytes_s[0])
