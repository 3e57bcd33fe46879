"""Holding: the time in which an idle accelerator would have ended a waiting layer sooner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eunomia
from eunomia.metrics.causes import HOLDING, HOPELESS, miss_reason
from eunomia.metrics.columns import LATE
from eunomia.metrics.holding import busy_within, held_each, held_s
from eunomia.metrics.window import measured
from eunomia.report.explain import explain

INF = float("inf")
SPANS = st.lists(st.integers(1, 4), max_size=5)


def spans(gaps: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that do not overlap: gap, length, gap, length, ..."""
    marks = np.cumsum(gaps[: len(gaps) // 2 * 2]).astype(float)
    return marks[::2], marks[1::2]


def held(ready: float, start: float, end: float, takes: list[float], busy: list[list[int]]) -> float:
    layer = (np.array([start]), np.array([end]))
    return float(held_each(layer, np.array([ready]), np.array([takes]), [spans(b) for b in busy])[0])


def test_by_hand() -> None:
    # ready at 0, ran from 6 to 8; accelerator 0 takes 2 s and is busy in [4, 6)
    assert held(0, 6, 8, [2.0], [[4, 2]]) == 4.0
    # the other one takes 5 s: a start before 3 ends sooner than 8
    assert held(0, 6, 8, [INF, 5.0], [[4, 2], []]) == 3.0
    # the other one takes 9 s: waiting for the faster one was right
    assert held(0, 6, 8, [2.0, 9.0], [[1, 5], []]) == 1.0
    # nothing was idle
    assert held(1, 6, 8, [2.0], [[1, 5]]) == 0.0
    # it never started, and something able to run it was idle all the time
    assert held(1, 5, INF, [2.0], [[]]) == 4.0


@given(SPANS, st.integers(0, 12), st.integers(0, 12))
def test_busy_time_is_that_of_a_count_of_ticks(gaps: list[int], a: int, b: int) -> None:
    start, end = spans(gaps)
    low, high = float(min(a, b)), float(max(a, b))
    ticks = sum(any(s <= t < e for s, e in zip(start, end, strict=True)) for t in range(int(low), int(high)))
    assert busy_within(start, end, np.array([low]), np.array([high]))[0] == ticks


@given(st.lists(SPANS, min_size=1, max_size=3), st.integers(0, 8), st.integers(0, 8), st.data())
def test_holding_is_that_of_a_walk_over_ticks(
    busy: list[list[int]], ready: int, waits: int, data: st.DataObject
) -> None:
    takes = [float(data.draw(st.sampled_from([1, 2, 5, 20]))) for _ in busy]
    start = ready + waits
    end = start + data.draw(st.integers(1, 6))
    most = 0
    for gaps, each in zip(busy, takes, strict=True):
        lanes = list(zip(*spans(gaps), strict=True))
        idle = [t for t in range(ready, start) if not any(s <= t < e for s, e in lanes)]
        most = max(most, sum(t + each < end for t in idle))
    found = held(ready, start, end, takes, busy)
    assert found == pytest.approx(most) and found <= waits


def scenario(policy: str) -> eunomia.RunResult:
    """Two accelerators and little bandwidth, so that a gate holds much."""
    table = {
        "name": "gate",
        "duration_s": 0.15,
        "seed": 1,
        "platform": {"accelerators": [{"type": "simba", "count": 2}], "dram_bandwidth_gb_s": 4.0},
        "tenant": [
            {
                "name": "a",
                "models": [{"model": "squeezenet", "deadline_factor": 3.0}],
                "arrivals": {"process": "poisson", "rate_per_s": 500.0},
            }
        ],
    }
    return eunomia.run(table, policy=policy)


def test_a_gate_holds_and_a_greedy_policy_does_not() -> None:
    gated, greedy = scenario("edf+g0.2"), scenario("edf")
    found = held_s(gated.records.tables)
    assert found is not None and sum(found.values()) > 0.0
    assert not held_s(greedy.records.tables), "an idle accelerator of the only type is never left idle"
    assert held_s({"requests": gated.records["requests"]}) is None, "without layers nothing is known"
    worst = max(found, key=found.__getitem__)
    story = explain(gated.records, worst)
    assert sum(wait.held_s for wait in story.waits) <= found[worst] + 1e-9


def test_the_report_and_explain_name_the_same_cause() -> None:
    gated = scenario("edf+g0.2")
    scope = measured(gated.records.tables)
    cause = miss_reason(scope.requests, scope.horizon_s, held_s=held_s(gated.records.tables))
    late = np.flatnonzero((scope.requests.outcome == LATE) & (cause != HOPELESS))
    assert (cause[late] == HOLDING).any()
    for row in late[:: max(1, len(late) // 6)].tolist():
        story = explain(gated.records, int(scope.requests.request[row]))
        assert ("by holding" in story.verdict) == (cause[row] == HOLDING)
