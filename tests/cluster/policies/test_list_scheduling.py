"""Classical rules: Graham's bounds against brute force, the textbook cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.list_scheduling import (
    best_makespan_s,
    in_order,
    list_schedule,
    longest_first,
    max_min,
    mct,
    met,
    min_min,
    olb,
    sufferage,
)
from eunomia.core.errors import PlatformError

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=7)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, machines=st.integers(2, 3))
def test_grahams_bounds(lengths: list[int], machines: int) -> None:
    """List scheduling <= (2 - 1/m) OPT, longest first <= (4/3 - 1/(3m)) OPT, both >= OPT."""
    length = np.array(lengths, float)
    best = best_makespan_s(np.repeat(length[:, None], machines, axis=1))
    listed, longest = list_schedule(length, machines).makespan_s, longest_first(length, machines).makespan_s
    assert best - 1e-9 <= listed <= (2 - 1 / machines) * best + 1e-9
    assert best - 1e-9 <= longest <= (4 / 3 - 1 / (3 * machines)) * best + 1e-9


def test_the_bounds_are_reached() -> None:
    """m (m - 1) ones and one m: 2m - 1 against m; and Graham's 5,5,4,4,3,3,3 on 3 machines: 11 against 9."""
    assert list_schedule(np.array([1.0] * 6 + [3.0]), 3).makespan_s == 5.0
    assert best_makespan_s(np.repeat(np.array([1.0] * 6 + [3.0])[:, None], 3, axis=1)) == 3.0
    graham = np.array([5.0, 5.0, 4.0, 4.0, 3.0, 3.0, 3.0])
    assert longest_first(graham, 3).makespan_s == 11.0
    assert best_makespan_s(np.repeat(graham[:, None], 3, axis=1)) == 9.0


def test_min_min_against_max_min() -> None:
    """Ones and one long task: Min-Min puts the long one last (6), Max-Min first (4)."""
    time_s = np.repeat(np.array([1.0, 1.0, 1.0, 1.0, 4.0])[:, None], 2, axis=1)
    assert min_min(time_s, np.zeros(2)).makespan_s == 6.0
    assert max_min(time_s, np.zeros(2)).makespan_s == 4.0


def test_sufferage_serves_who_would_lose_most() -> None:
    """Both want machine 0; the first would lose 0.9, the second 9: the second gets it."""
    plan = sufferage(np.array([[1.0, 1.9], [1.0, 10.0]]), np.zeros(2))
    assert plan.machine.tolist() == [1, 0]


def test_met_piles_up_and_olb_ignores_speed() -> None:
    time_s = np.array([[1.0, 1.5]] * 4)
    assert in_order(time_s, np.zeros(2), np.arange(4), met).makespan_s == 4.0
    assert in_order(np.array([[1.0, 50.0]] * 2), np.zeros(2), np.arange(2), olb).makespan_s == 50.0


def test_mct_weighs_the_queue_against_the_speed() -> None:
    """Task 0: 1 on machine 0. Task 1 would end there at 2, on machine 1 at 1.5. Task 2: 2 against 3."""
    plan = in_order(np.array([[1.0, 1.5]] * 3), np.zeros(2), np.arange(3), mct)
    assert (plan.machine.tolist(), plan.finish_s.tolist()) == ([0, 1, 0], [1.0, 1.5, 2.0])
    busy = in_order(np.array([[1.0, 1.5]]), np.array([1.0, 0.0]), np.arange(1), mct)
    assert (busy.machine.tolist(), busy.finish_s.tolist()) == ([1], [1.5])


def test_a_plan_of_nothing_and_of_one_machine() -> None:
    nothing = in_order(np.empty((0, 2)), np.zeros(2), np.arange(0), met)
    assert nothing.makespan_s == 0.0 and len(nothing.machine) == 0
    for rule in (min_min, sufferage):  # with one machine nobody loses by the second best: in order of arrival
        plan = rule(np.array([[3.0], [3.0]]), np.array([1.0]))
        assert (plan.machine.tolist(), plan.finish_s.tolist()) == ([0, 0], [4.0, 7.0])


def test_sufferage_looks_at_the_second_best_of_three() -> None:
    """Both want machine 0. Task 0 would lose 0.9 (9 by the third), task 1 would lose 2: it goes first."""
    plan = sufferage(np.array([[1.0, 1.9, 10.0], [1.0, 3.0, 3.5]]), np.zeros(3))
    assert plan.machine.tolist() == [1, 0] and plan.finish_s.tolist() == [1.9, 1.0]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_rule_beats_the_optimum(seed: int) -> None:
    time_s = np.random.default_rng(seed).uniform(1.0, 9.0, (5, 2))
    best = best_makespan_s(time_s)
    for rule in (min_min, max_min, sufferage):
        assert rule(time_s, np.zeros(2)).makespan_s >= best - 1e-9


def test_a_task_that_fits_nowhere() -> None:
    with pytest.raises(PlatformError, match="task 1 can run on no machine"):
        min_min(np.array([[1.0], [np.inf]]), np.zeros(1))
