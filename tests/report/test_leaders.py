"""Who leads: ties and the runner-up are named, against a slow twin and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.metrics.table import METRICS
from eunomia.report.leaders import in_short, leaders, listed, runner_up

RATE, TARDY = METRICS["hit_rate"], METRICS["tardiness_p99_s"]
NAN = math.nan


class Rates:
    """Policies by name, one number per seed."""

    def __init__(self, **values: list[float]) -> None:
        self.values, self.finished = values, list(values)

    def estimate(self, policy: str, metric: str) -> Estimate:
        return interval(self.values[policy])

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        return paired_difference(self.values[policy], self.values[rival])


def test_a_policy_that_is_nearly_as_good_is_not_hidden_behind_the_baseline() -> None:
    """90.0 against 89.9 and 84.3: the second is named as level, the third as the first clearly behind."""
    found = Rates(
        edf=[0.842, 0.843, 0.844],
        blend=[0.897, 0.900, 0.900],
        eunomia=[0.900, 0.899, 0.901],
        sjf=[0.5, 0.5, 0.5],
    )
    led = leaders(found, "hit_rate", RATE)
    assert led is not None
    assert (led.best, led.equal, led.level, led.behind) == ("eunomia", (), ("blend",), ("edf", "sjf"))
    level, behind = runner_up(found, led, RATE)
    assert level.startswith("blend (89.9 ±") and "cannot be told apart" in level
    assert behind.startswith("edf is the first clearly behind with 84.3 ±") and "behind by 5.7 ±" in behind
    assert in_short(found, "hit_rate", RATE).startswith("eunomia 90.0 ±")


def test_equal_means_share_the_first_place() -> None:
    found = Rates(a=[1.0, 1.0, 1.0], b=[1.0, 1.0, 1.0], c=[0.2, 0.3, 0.4])
    led = leaders(found, "hit_rate", RATE)
    assert led is not None and led.top == ("a", "b") and led.level == () and led.behind == ("c",)


@pytest.mark.parametrize(
    ("seeds", "words"), [(1, "one sample cannot tell"), (2, "2 seeds are too few to tell")]
)
def test_few_seeds_claim_nothing_and_print_no_interval(seeds: int, words: str) -> None:
    found = Rates(a=[0.9, 0.8][:seeds], b=[0.1, 0.1][:seeds])
    led = leaders(found, "hit_rate", RATE)
    assert led is not None and led.few and led.behind == ()
    (said,) = runner_up(found, led, RATE)
    assert words in said and "±" not in said and "±" not in in_short(found, "hit_rate", RATE)


def test_less_is_better_where_the_metric_says_so_and_no_data_stand_nowhere() -> None:
    found = Rates(late=[3.0, 3.1, 2.9], fast=[1.0, 1.1, 0.9], none=[NAN, NAN, NAN])
    led = leaders(found, "tardiness_p99_s", TARDY)
    assert led is not None and led.order == ("fast", "late") and led.behind == ("late",)
    assert runner_up(found, led, TARDY) == [
        "late follows with 3.00 ±0.25 s, behind by 2.00 ±0 s on the same seeds."
    ]
    assert (
        leaders(Rates(a=[NAN]), "hit_rate", RATE) is None and in_short(Rates(a=[NAN]), "x", RATE) == "no data"
    )


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=4, max_size=4), min_size=1, max_size=5
    )
)
def test_every_policy_stands_in_one_place(rows: list[list[float]]) -> None:
    found = Rates(**{f"p{n}": row for n, row in enumerate(rows)})
    led = leaders(found, "hit_rate", RATE)
    assert led is not None
    assert sorted([led.best, *led.equal, *led.level, *led.behind]) == sorted(found.finished)
    best = max(np.mean(row) for row in rows)
    for policy, row in found.values.items():
        assert (policy in led.top) == math.isclose(float(np.mean(row)), best)
        gap = np.array(found.values[led.best]) - row
        half = 3.182446305 * gap.std(ddof=1) / 2.0  # t(3) / sqrt(4)
        if policy in led.behind:
            assert gap.mean() - half > 0.0
        if policy in led.level:
            assert gap.mean() - half <= 1e-12


def test_long_lists_are_cut() -> None:
    assert listed(["a"]) == "a" and listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh")) == "a, b, c, d, e and 3 more"
