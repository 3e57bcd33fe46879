"""Pledge: its key by hand, and the rules that it holds."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.pledge import pledge, pledge_key
from eunomia.inference.simulate import simulate_problem
from tests.learning.deployment import episode


@given(
    st.tuples(*(st.floats(-2.0, 2.0) for _ in range(5))),
    st.integers(0, 50),
    st.integers(0, 50),
    st.floats(0.3, 1.0),
)
def test_the_key_is_the_sum_that_it_says(
    weights: tuple[float, ...], hits: int, misses: int, target: float
) -> None:
    left, toll, spare, lack, often = weights
    toll, n = abs(toll), hits + misses
    gap = target - hits / n if n else 0.0
    ready = SimpleNamespace(work_best_s=2.0, bytes_left=8.0, deadline_s=9.0, slo=target, gap=gap, sli_count=n)
    system = SimpleNamespace(now_s=4.0, bandwidth_bytes_s=2.0, parameters=(left, toll, spare, lack, often))
    room = max(0.0, -n * gap)
    kept = n == 0 or gap <= 0.0
    by_hand = (1.0 - left) * math.log(2.0 + 4.0 * toll) + left * math.log(5.0) + often * math.log(1.0 + n)
    by_hand += spare * (math.log(1.0 + room) - float(room < 1.0)) if kept else -lack * gap
    assert pledge_key(ready, system) == pytest.approx(by_hand)  # type: ignore[arg-type]
    nothing = SimpleNamespace(**{**vars(ready), "slo": math.nan})
    plain = (1.0 - left) * math.log(2.0 + 4.0 * toll) + left * math.log(5.0)
    assert pledge_key(nothing, system) == pytest.approx(plain)  # type: ignore[arg-type]


@pytest.mark.parametrize(("left", "rule"), [(1.0, "edf+f+eft+g0.9"), (0.0, "sjf+f+eft+g0.9")])
def test_pledge_holds_deadlines_and_sizes(left: float, rule: str) -> None:
    e = episode(3)
    blended = simulate_problem(e.problem, pledge(left, spare=0.0, gate=0.9), e.options).results
    assert blended.tobytes() == simulate_problem(e.problem, rule, e.options).results.tobytes()


def test_it_is_alike_stepped_and_by_name() -> None:
    e, policy = episode(5), pledge(0.8, 0.5, 0.4, -6.0, 0.3, "any_idle", 0.75)
    asked = load_policy("pledge(left=0.8,toll=0.5,spare=0.4,lack=-6,often=0.3,place=any_idle)+g0.75")
    assert asked == policy
    one = simulate_problem(e.problem, policy, e.options).results
    assert one.tobytes() == simulate_problem(e.problem, asked, e.options, stepped=True).results.tobytes()


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="lack is inf; give a number"):
        load_policy("pledge(lack=inf)")
    with pytest.raises(ConfigError, match="toll is -1; it must be at least 0"):
        load_policy("pledge(toll=-1)")
