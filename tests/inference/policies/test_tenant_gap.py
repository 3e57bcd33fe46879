"""Tenant-aware orders by hand."""

import math

import pytest

from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.tenant_gap import in_class, tenant_order, tenant_rule
from tests.inference.policies.views import ask, job


def pair(gap: float, **facts: float) -> dict[str, float]:
    """A request of a pair with an objective and ten outcomes."""
    return job(**{"slo": 0.9, "gap": gap, "sli_count": 10, "deadline_s": 50.0, **facts})


def first(policy: object, *jobs: dict[str, float], **facts: float) -> int:
    """Which request starts first on one accelerator."""
    return ask(policy, list(jobs), [[1.0]] * len(jobs), **facts)[0][0]


def test_gap_first_serves_pairs_below_target_before_urgent_ones() -> None:
    rule = tenant_rule("shortfall")
    urgent, below, far = pair(-0.05, deadline_s=2.0), pair(0.05, deadline_s=40.0), pair(0.4, deadline_s=30.0)
    assert first(rule, urgent, below) == 1
    assert first(rule, urgent, below, far) == 2  # one class for all below: by deadline
    # Within the margin of 0.02 of its target a pair counts as below it, at 0.02 exactly it does not.
    assert first(rule, urgent, pair(-0.01, deadline_s=40.0)) == 1
    assert first(rule, urgent, pair(-0.02, deadline_s=40.0)) == 0
    # Nobody is below: earliest deadline; hopeless ones last.
    assert first(rule, urgent, pair(-0.3, deadline_s=1.5)) == 1
    assert first(rule, urgent, pair(0.4, deadline_s=0.5)) == 0


def test_pairs_without_objective_or_data_count_as_well_served() -> None:
    rule = tenant_rule("shortfall")
    free, fresh = job(deadline_s=2.0, gap=0.0), pair(0.0, sli_count=0, deadline_s=3.0)
    assert first(rule, free, pair(0.05)) == 1
    assert first(rule, fresh, pair(0.05)) == 1
    assert first(rule, fresh, free) == 1  # both well served: by deadline


def test_triage_gives_up_what_cannot_be_kept() -> None:
    rule = tenant_rule("attainment")
    above, below, lost = pair(-0.05, deadline_s=5.0), pair(0.2, deadline_s=9.0), pair(0.26, deadline_s=2.0)
    assert first(rule, above, lost, below) == 2
    assert first(rule, above, lost) == 0
    assert first(rule, pair(0.25, deadline_s=9.0), above) == 0  # 0.25 is not yet too far
    assert first(rule, lost) == 0


def test_worst_first_goes_by_steps_of_the_gap() -> None:
    # Steps of 0.05: 0.12 and 0.14 share the step from 0.10 to 0.15, 0.16 lies in the next one.
    rule = tenant_rule("max_min")
    assert first(rule, pair(0.12, deadline_s=9.0), pair(0.14, deadline_s=10.0)) == 0
    assert first(rule, pair(0.14, deadline_s=9.0), pair(0.16, deadline_s=10.0)) == 1


def test_shift_moves_deadlines_by_the_gap() -> None:
    # t = 2. Deadline 12, relative 10, gap 0.3, kappa 1: 12 - 3 = 9. Deadline 10, relative 10, gap -0.1: 10 + 1 = 11.
    moved, kept = pair(0.3, arrival_s=2.0, deadline_s=12.0), pair(-0.1, arrival_s=0.0, deadline_s=10.0)
    assert first(Greedy(tenant_order("shift", "edf", 1.0)), moved, kept, now_s=2.0) == 0
    # kappa 0.4: 12 - 1.2 = 10.8 and 10.4.
    assert first(Greedy(tenant_order("shift", "edf", 0.4)), moved, kept, now_s=2.0) == 1
    assert first(Greedy(tenant_order("shift")), job(), kept, now_s=2.0) == 1  # no deadline, no shift
    # On remaining work: 5 - 0.3 * 4 = 3.8 against 3.6 + 0.1 * 4 = 4.
    shorter = [pair(0.3, work_best_s=5.0, iso_best_s=4.0), pair(-0.1, work_best_s=3.6, iso_best_s=4.0)]
    assert first(Greedy(tenant_order("shift", "sjf")), *shorter) == 0


def test_shortest_first_inside_the_classes() -> None:
    rule = tenant_rule("attainment", "sjf")
    assert (
        first(rule, pair(0.1, work_best_s=3.0), pair(0.1, work_best_s=2.0), pair(-0.1, work_best_s=1.0)) == 1
    )


def test_classes_never_mix() -> None:
    times = [-math.inf, -1e9, -1.0, 0.0, 1e-9, 1.0, 1e9, math.inf]
    keys = [in_class(rank, time_s) for rank in (-1.0, 0.0, 1.0) for time_s in times[1:]]
    assert keys == sorted(keys)
    assert max(keys[:7]) < min(keys[7:14])


def test_names_and_constants_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="welfare"):
        tenant_rule("welfare")
    with pytest.raises(UnknownNameError, match="lifo"):
        tenant_order("triage", "lifo")
    with pytest.raises(PolicyError, match="2 positive constants"):
        tenant_order("triage", "edf", 0.1)
