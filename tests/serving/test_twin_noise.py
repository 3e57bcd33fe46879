"""What a recording of format 6 says of turns, moves and block times, and how it is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.overheads import DRAWS, KEPT, MANY_DRAWS, Latest
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_costs import pieces
from eunomia.study.serving.twin_predict import predict
from tests.serving.test_twin import recording

SIXTH: dict[str, Any] = {
    "format": 6, "sizes": [], "turn_s": [1.5, 0.25], "move_s": [0.0, 0.5], "spread": [0.1, 0.2],
    "turns": [[0.0, 1.0], []], "moves": [[], [0.125, 0.375]], "factors": [[0.5, 1.0, 3.0], []], "look_s": 0.0,
}  # fmt: skip


def sixth(**more: object) -> dict[str, Any]:
    """A recording of two devices, a and b, whose requests have the sizes of their networks."""
    content: dict[str, Any] = {**recording(3, "edf+f"), **SIXTH, **more}
    sizes = list(content["networks"].values())
    number = {name: n for n, name in enumerate(content["networks"])}
    return {**content, "sizes": sizes, "requests": [[*r, number[r[2]]] for r in content["requests"]]}


def test_numbers_of_equal_chance_have_the_means_that_the_recording_states() -> None:
    options = twin_of(sixth()).options
    assert options.switch_s == {"a": (0.0, 3.0), "b": 0.25}
    assert options.move_s == {"a": 0.0, "b": (0.25, 0.75)}
    assert options.estimator.jitter == {"a": (0.5, 1.0, 3.0), "b": 0.2}


def test_turns_that_take_time_make_requests_late() -> None:
    calm = sixth(turn_s=[0.0, 0.0], move_s=[0.0, 0.0], factors=[[], []], spread=[0.0, 0.0])
    assert predict(twin_of(calm), "edf+f").overall > predict(twin_of(sixth()), "edf+f").overall


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({"turns": [[0.0]]}, "turns is .* it has a list for each device, 2 in all"),
        ({"moves": [[0.0], 3]}, "moves holds 3; a list has at most 1000 numbers"),
        ({"factors": [[1.0] * 1001, []]}, "factors holds"),
        ({"turns": [[-1.0], []]}, "turns is -1.0; it lies in 0..10"),
        ({"factors": [[True], []]}, "factors is True"),
        ({"move_s": [0.0]}, "move_s has 1 numbers"),
        ({"look_s": "soon"}, "look_s is 'soon'"),
        ({"devices": ["a", "a"]}, "two devices have one name: a, a"),
    ],
)
def test_what_is_damaged_is_said(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=f"damaged recording: {told}"):
        twin_of(sixth(**wrong))


def test_blocks_shorter_than_a_look_are_one_piece() -> None:
    blocks = [[0.2, 0.4], [0.3, 0.6], [0.6, 1.2], [2.0, 4.0], [0.1, 0.2]]
    np.testing.assert_allclose(pieces(blocks, 1.0), [[1.1, 2.2], [2.0, 4.0], [0.1, 0.2]])
    assert pieces(blocks, 0.0) == blocks
    apart = [[0.2, -1.0], [-1.0, 0.3], [0.2, 0.3]]
    assert pieces(apart, 1.0) == [[0.2, -1.0], [-1.0, 0.6]], "no piece that runs nowhere"


def test_draws_stand_for_the_latest_values_with_their_mean() -> None:
    latest, rng = Latest(), np.random.default_rng(0)
    assert latest.draws() == []
    latest.add(np.array([3.0]))
    assert latest.draws() == [3.0]
    latest.add(np.full(5, 9.0))
    for _ in range(40):
        latest.add(values := rng.exponential(1.0, 100))
    draws = latest.draws()
    assert len(draws) == DRAWS and draws == sorted(draws) and max(draws) < 9.0, "the old ones are gone"
    assert 4006 == latest.count > KEPT and np.mean(draws) == pytest.approx(1.0, abs=0.1)
    assert draws[DRAWS // 2] == pytest.approx(np.log(2.0), abs=0.1) and len(values) == 100


def test_a_rare_stall_stays_as_rare_as_it_was() -> None:
    latest = Latest(kept=512)
    for n in range(512):
        latest.put(27.0 if n == 100 else 1.0 + n / 1000)
    draws = latest.draws(MANY_DRAWS)
    assert draws == sorted(draws) and np.mean(draws) == pytest.approx(latest.mean)
    assert len(latest.draws()) == DRAWS
    assert np.mean(np.array(draws) > 2.0) == 1 / 512, "not one of four in each 64"


def test_a_sample_stands_for_many_times_as_many_values_as_it_keeps() -> None:
    latest = Latest(kept=50, of=20)
    for n in range(1000):
        latest.put(float(n))
    assert 300.0 < np.mean(latest.draws()) < 700.0, "not the last 50 alone, nor the first"
    for _ in range(20_000):
        latest.put(-1.0)
    assert latest.draws() == [0.0] * 50, "the old ones go in the end"


def test_a_hiccup_of_a_short_block_says_little_of_a_long_one() -> None:
    """Every tenth run of the short block takes 3 ms instead of 0.1: 0.29 ms a run of 20.1."""
    costs = CostBook(1)
    network = costs.add("m", 2)
    costs.measured(network, 0, [0.0001, 0.02])
    for n in range(1000):
        costs.learn(network, 0, 0, [0.003 if n % 10 == 0 else 0.0001, 0.02], 1)
    draws = costs.scatter.factors[0].draws()
    assert np.mean(draws) == pytest.approx(1.0, abs=0.01) and max(draws) < 2.0
