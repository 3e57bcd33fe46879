"""Min-min and max-min by hand."""

import math

from eunomia.inference.policies.batch_mapping import max_min, min_min
from tests.inference.policies.views import ask, job


def test_the_least_or_the_greatest_earliest_completion_is_mapped_first() -> None:
    # Earliest completions 1 and 2, both on accelerator 0. Min-min maps the first; then the second ends there at 3,
    # on accelerator 1 at 5: it waits. Max-min maps the second; then the first ends at 3 there, at 5 elsewhere.
    times_s = [[1.0, 5.0], [2.0, 5.0]]
    assert ask(min_min(), [job(), job()], times_s) == [(0, 0)]
    assert ask(max_min(), [job(), job()], times_s) == [(1, 0)]


def test_a_booked_accelerator_is_busy_for_those_that_follow() -> None:
    # Min-min books accelerator 0 until 1; the second ends there at 5, on accelerator 1 at 4: both start.
    # Max-min books accelerator 0 until 4 for the second; the first then ends there at 5, elsewhere at 9: it waits.
    assert ask(min_min(), [job(), job()], [[1.0, 9.0], [4.0, 4.0]]) == [(0, 0), (1, 1)]
    assert ask(max_min(), [job(), job()], [[1.0, 9.0], [4.0, 5.0]]) == [(1, 0)]


def test_what_no_accelerator_can_run_is_left_alone() -> None:
    for policy in (min_min(), max_min()):
        assert ask(policy, [job(), job()], [[math.inf, math.inf], [math.inf, 2.0]]) == [(1, 1)]
        assert ask(policy, [job()], [[math.inf, math.inf]]) == []
