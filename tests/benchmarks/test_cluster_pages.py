"""Sentences of the cluster pages follow from the figures."""

from __future__ import annotations

import pytest

from benchmarks.cluster.simulator import trace_a_reading

pytest.importorskip("cvxpy")

from benchmarks.cluster.solver import verdict  # noqa: E402


def test_targets_of_the_solver_page_are_judged_by_its_rows() -> None:
    perf, packed = "max_min_fairness_perf", "max_min_fairness_packed"
    rows = [(perf, 2048, "as measured", 249, 0.84, 0.84, 37.8, 37.8, 45.1, 1e-11)]
    rows += [(perf, 2048, "distinct", 2048, 7.63, 7.63, 37.8, 37.8, 5.8, 1e-11)]
    said = list(verdict([*rows, (perf, 10_000, "distinct", 9, 1000.0, 1.0, None, None, None, None)]))
    assert said[0] == f"`{perf}` at 2,048 jobs, throughputs as measured: 45.1 times faster, met."
    assert said[1] == f"`{perf}` at 2,048 jobs, throughputs distinct: 5.8 times faster, NOT met."
    assert said[2] == f"`{packed}` at 512 jobs, throughputs as measured: the peer was not run."
    assert said[3] == "At 10,000 jobs, throughputs distinct: 1000 ms, NOT met."


def test_trace_a_is_judged_by_wall_time_and_the_load_is_said() -> None:
    quick, held, slow = ("quick", 0.1, 0.1), ("held", 0.6, 0.1), ("slow", 0.9, 0.8)
    assert trace_a_reading([quick], 1.0, 2) == "Target: 0.3 s. Met by wall time by 1 of 1 policies."
    said = trace_a_reading([quick, held, slow], 9.0, 2)
    assert "1 of 3 policies; not by held (0.60 s), slow (0.90 s), of which 1 take less" in said
    assert said.endswith("(load average 9 on 2 cores, so wall times hold what others ran).")
    assert "load average" not in trace_a_reading([held], 1.0, 2)
