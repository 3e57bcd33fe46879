"""Sentences of the cluster pages follow from the figures."""

from __future__ import annotations

import pytest

from benchmarks.cluster import public, windows, workloads
from benchmarks.cluster.simulator import trace_a_reading
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.traces import read_jobs
from eunomia.metrics.statistics import interval
from tests.shared_data import shared

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


def test_a_run_that_ends_with_its_window_gives_the_times_of_the_whole_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared("gavel/simulation_throughputs.json")
    monkeypatch.setattr(windows, "BEYOND", 40)
    run = windows.Run("max_min_fairness", 4.0, False, first=5, last=15)
    problem = run.problem(0)
    found = run._measured(0)
    whole = simulate_cluster(problem, allocator(run.policy), SimulationOptions.gavel(0, record="jobs"))
    took_h = (whole.ledger.finish_s - problem.arrival_s)[5:15] / 3600.0
    assert found == {"hours": pytest.approx(took_h.mean()), "unfinished": 0.0}


def test_windows_of_a_public_trace_are_as_busy_as_they_say() -> None:
    """Philly: four windows of 200; demand until the last arrival over devices is at most 1.2, by less than a server."""
    parts = public.windows(read_jobs(shared("traces/philly_reduced.csv")))
    assert [len(part) for part in parts] == [200] * 4
    for part in parts:
        end_s, count = part.arrival_s.max(), public.devices(part)
        busy = sum(
            gpus * min(run_s, end_s - at_s)
            for gpus, run_s, at_s in zip(part.gpus, part.duration_s, part.arrival_s, strict=True)
        )
        needed = busy / (end_s - part.arrival_s.min()) / public.LOAD
        assert count % public.SERVER == 0 and count >= part.gpus.max()
        assert count >= needed and (count - public.SERVER < needed or count - public.SERVER < part.gpus.max())


def test_the_verdict_on_themis_counts_what_the_rows_say() -> None:
    own, near, far = (interval([v, v]) for v in (1.0, 1.01, 1.05))
    less, more, even = interval([-0.1, -0.1]), interval([0.2, 0.2]), interval([-0.1, 0.2])
    rows = [["a", own, "x", near, own, "y", own, less], ["b", own, "x", far, own, "y", own, more]]
    rows.append(["c", own, "x", far, own, "y", own, even])
    assert next(workloads.verdict(rows)) == (
        "Within 2 % of the quickest form, or quicker, on 1 of 3 workloads; least worst rho on 1, not told apart from "
        "the least on 1, surely not the least on 1."
    )
