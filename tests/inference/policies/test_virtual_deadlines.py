"""Virtual deadlines by hand."""

import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies.virtual_deadlines import virtual_deadlines
from tests.inference.policies.views import ask, job


def layer(path_mean_s: float, deadline_s: float) -> dict[str, float]:
    """A layer of a chain with mean times 3, 2, 5, arrived at 0."""
    return job(
        path_mean_s=path_mean_s, iso_mean_s=10.0, deadline_s=deadline_s, arrival_s=0.0, work_best_s=0.5
    )


def test_order_by_the_share_of_the_budget() -> None:
    # First layer (mean 3) of the chain, deadline 20: vd = 20 * 3/10 = 6. Second layer (mean 2, path 7), deadline 14:
    # vd = 14 * (1 - (7 - 2)/10) = 7. Last layer (mean 5, path 5), deadline 5: vd = 5.
    first, second, last = layer(10.0, 20.0), layer(7.0, 14.0), layer(5.0, 5.0)
    # Two types that take 2 and 4, 1 and 3, 4 and 6: the means above. Both idle.
    assert ask(virtual_deadlines(), [second, first], [[1, 3], [2, 4]]) == [(1, 0)]
    assert ask(virtual_deadlines(), [second, first, last], [[1, 3], [2, 4], [4, 6]]) == [(2, 0)]


def test_the_fastest_accelerator_that_keeps_the_virtual_deadline() -> None:
    # vd = 6. Accelerator 0 takes 2 s, busy for 3 s: 5 <= 6, so it is worth waiting for (eft agrees: 5 > 4 says no).
    assert ask(virtual_deadlines(), [layer(10.0, 20.0)], [[2, 4]], free_in_s=[3.0, 0.0]) == []
    # Busy for 4.5 s: 6.5 > 6; accelerator 1 ends at 4.
    assert ask(virtual_deadlines(), [layer(10.0, 20.0)], [[2, 4]], free_in_s=[4.5, 0.0]) == [(0, 1)]
    # Demand of 1.4 B slows both: 4 * 1.4 = 5.6 <= 6, (2 + 3) * 1.4 = 7 > 6.
    contended = dict(free_in_s=[3.0, 0.0], bandwidth=1.0, running_demand=1.4)
    assert ask(virtual_deadlines(), [layer(10.0, 20.0)], [[2, 4]], **contended) == [(0, 1)]
    # Deadline 11, vd = 3.3: neither 5 nor 4 keeps it; the earliest finish is 4.
    assert ask(virtual_deadlines(), [layer(10.0, 11.0)], [[2, 4]], free_in_s=[3.0, 0.0]) == [(0, 1)]


def test_types_count_once_and_best_times_can_be_mixed_in() -> None:
    # Two accelerators of type 0 (2 s), one of type 1 (4 s): mean 3, vd = 6. Counted by accelerators it would be 8/3 and
    # vd = 20 * 8/30 = 5.33. The other request, one layer of 3 s everywhere, has vd = deadline = 5.7: it goes first.
    single = job(path_mean_s=3.0, iso_mean_s=3.0, deadline_s=5.7, work_best_s=0.5)
    jobs = [layer(10.0, 20.0), single]
    assert ask(virtual_deadlines(), jobs, [[2, 2, 4], [3, 3, 3]], types=[0, 0, 1]) == [(1, 0)]
    assert ask(virtual_deadlines(), jobs, [[2, 2, 4], [3, 3, 3]], types=[0, 2, 1]) == [(0, 0)]  # three types
    # mix 1: best times alone: own 2, path 9, iso 9: vd = 20 * 2/9 = 4.44 against 6 for the other request's vd 5.
    mixed = job(
        path_mean_s=10.0, iso_mean_s=10.0, path_best_s=9.0, iso_best_s=9.0, deadline_s=20.0, work_best_s=0.5
    )
    other = job(
        path_mean_s=3.0, iso_mean_s=3.0, path_best_s=1.0, iso_best_s=1.0, deadline_s=5.0, work_best_s=0.5
    )
    assert ask(virtual_deadlines(0.0), [mixed, other], [[2, 4], [1, 5]]) == [(1, 0)]
    assert ask(virtual_deadlines(1.0), [mixed, other], [[2, 4], [1, 5]]) == [(0, 0)]


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="mix"):
        virtual_deadlines(1.5)
