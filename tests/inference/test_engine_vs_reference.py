"""The compiled engine and its plain-Python twin agree event by event on random problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.contract.view import Assign, View
from eunomia.inference.reference import Rule
from tests.inference.agreement import assert_agreement
from tests.inference.strategies import Case, cases, greedy_rules, queue_rules

EXAMPLES = settings(max_examples=150, derandomize=True, deadline=None)
FEWER = settings(max_examples=60, derandomize=True, deadline=None)


def moody(view: View) -> Sequence[Assign]:
    """Look at many facts, hold sometimes, start several at once: nothing that a sensible policy does."""
    answers, idle = [], [int(s) for s in view.idle]
    facts = view.ready["attained_s"] + view.ready["bytes_left"] - 0.1 * view.ready["sequence"]
    for i in np.argsort(np.round(facts, 6), kind="stable"):  # sums may differ in their last bits
        able = [s for s in idle if np.isfinite(view.latency_s[i, s])]
        if able and (view.ready["request"][i] + view.system["starts"]) % 5:
            place = max(able, key=lambda s: (view.latency_s[i, s], s))
            idle.remove(place)
            answers.append(view.assign(int(i), place))
    if not answers and not (view.accelerators["request"] >= 0).any():
        return serve_first(view)
    return answers


def serve_first(view: View) -> Sequence[Assign]:
    """First come, first served, on any accelerator."""
    for i in range(len(view)):
        for s in view.idle:
            if np.isfinite(view.latency_s[i, s]):
                return [view.assign(i, int(s))]
    return []


def planner(view: View) -> Sequence[Assign]:
    """A periodic policy: spread over the accelerators by index, priority by slack, every fifth left out."""
    answers = []
    for i in range(len(view)):
        able = np.flatnonzero(np.isfinite(view.latency_s[i]))
        job = view.ready[i]
        if (int(job["request"]) + int(job["layer"])) % 5 != 4 or view.now_s > 100.0:
            slack = min(float(job["deadline_s"]) - view.now_s, 1e3)
            answers.append(view.assign(i, int(able[i % len(able)]), priority=-slack))
    return answers


@EXAMPLES
@given(cases(periodic=False), greedy_rules())
def test_greedy_rules_agree_event_by_event(case: Case, rule: Rule) -> None:
    assert_agreement(case, rule)


@FEWER
@given(cases(periodic=True, alike=False), greedy_rules())
def test_greedy_rules_agree_with_a_period(case: Case, rule: Rule) -> None:
    assert_agreement(case, rule)


@FEWER
@given(cases(periodic=False, alike=False), queue_rules())
def test_queueing_rules_agree(case: Case, rule: Rule) -> None:
    assert_agreement(case, rule)


@FEWER
@given(cases(periodic=False))
def test_any_function_of_the_view_agrees(case: Case) -> None:
    assert_agreement(case, moody)


@FEWER
@given(cases(periodic=True))
def test_a_periodic_planner_agrees(case: Case) -> None:
    assert_agreement(case, planner)


@FEWER
@given(cases(periodic=False), st.one_of(greedy_rules(), queue_rules()))
def test_stepped_rules_agree_with_the_reference(case: Case, rule: Rule) -> None:
    assert_agreement(case, rule, stepped=True)
