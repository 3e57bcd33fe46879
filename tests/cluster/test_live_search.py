"""Searches that stop trials while they run: by hand, against halving at once, and nothing lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import Failures, Restart, SimulationOptions, Slowdown
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.searches import as_searches
from eunomia.cluster.tuned_mode import TunedRun, simulate_tuned
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.small import First, job, table

FREE = SimulationOptions(slowdown=Slowdown("none"))


def _search(losses: list[float], devices: int, steps: float = 100.0) -> ClusterProblem:
    """Trials of one app whose losses are flat: what the first rung shows is what there is."""
    jobs = [
        job(str(n), steps, app_id="app", traits={"loss_a": 1e-12, "loss_b": 1.0, "loss_c": loss})
        for n, loss in enumerate(losses)
    ]
    return build_problem(jobs, Cluster.of({"fast": devices}), table())


def _run(p: ClusterProblem, options: SimulationOptions = FREE) -> TunedRun:
    return simulate_tuned(p, First(), LiveSearch(noise=0.0), options)


def test_two_trials_side_by_side() -> None:
    """2 steps/s, rung at 50 of 100 steps: the worse one ends after 25 s, the better one at 50 s."""
    found = _run(_search([0.5, 0.1], devices=2))
    assert found.stopped.tolist() == [True, False]
    np.testing.assert_allclose(found.run.ledger.finish_s, [25.0, 50.0])
    np.testing.assert_allclose(found.steps_done, [50.0, 100.0])


def test_two_trials_one_after_the_other() -> None:
    """The first ends before anybody can beat it; the second shows 0.5 at its rung (25 s later) and is hopeless."""
    found = _run(_search([0.1, 0.5], devices=1))
    assert found.stopped.tolist() == [False, True]
    np.testing.assert_allclose(found.run.ledger.finish_s, [50.0, 75.0])
    late = _run(_search([0.5, 0.1], devices=1))  # too late to stop the worse one
    assert late.stopped.tolist() == [False, False]
    np.testing.assert_allclose(late.steps_done, [100.0, 100.0])


def test_a_waiting_trial_is_stopped_where_it_stands() -> None:
    """Three trials take turns of 30 s on one device, rungs at 25 and 50 of 100 steps, of three two and one go on.

    0 shows at 12.5 s and 25 s and waits from 30 s on with 60 steps. 1 shows less at 42.5 s, so it is sure to be among
    the two, and again at 55 s, at the rung that keeps one: 0 is hopeless. 2 starts at 60 s and is beaten there at 85 s.
    """
    found = simulate_tuned(
        _search([0.5, 0.1, 0.2], devices=1), allocator("least_attained_service"), LiveSearch(noise=0.0),
        SimulationOptions(slowdown=Slowdown("none"), round_s=30.0),
    )  # fmt: skip
    assert found.stopped.tolist() == [True, False, True]
    np.testing.assert_allclose(found.run.ledger.finish_s, [55.0, 110.0, 85.0])
    np.testing.assert_allclose(found.steps_done, [60.0, 100.0, 50.0])


@st.composite
def apps(draw: st.DrawFn) -> ClusterProblem:
    """One to three apps of one to eight trials."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    jobs: list[TrainingJob] = []
    for a in range(draw(st.integers(1, 3))):
        at, steps, scale = draw(st.sampled_from([0.0, 60.0, 700.0])), draw(st.integers(40, 900)), 1 + a % 2
        for t in range(draw(st.integers(1, 8))):
            curve = {"loss_a": rng.uniform(0.01, 1.0), "loss_b": 1.0, "loss_c": rng.uniform(0.0, 1.0)}
            jobs.append(job(f"{a}.{t}", steps, "ab"[a % 2], scale, at, app_id=f"app {a}", traits=curve))
    return build_problem(jobs, Cluster.of({"fast": draw(st.sampled_from([2, 4, 16]))}, 2), table())


@pytest.mark.parametrize("name", ["themis", "themis_strawman", "tiresias", "srtf", "max_min_fairness_perf"])
@given(p=apps(), failing=st.booleans())
@settings(max_examples=12, deadline=None)
def test_the_winners_of_halving_survive_and_nothing_is_lost(
    name: str, p: ClusterProblem, failing: bool
) -> None:
    """Whoever wins when all are compared at each rung runs to its end; others run at least as far as there."""
    search = LiveSearch(noise=0.1)
    options = SimulationOptions(
        round_s=60.0, restart=Restart(1.0, 1.0, 1.0, 40.0), failures=Failures(job_mtbf_h=0.5) if failing else Failures()
    )  # fmt: skip
    found = simulate_tuned(p, allocator(name), search, options)
    ledger = found.run.ledger
    assert not np.isnan(ledger.finish_s).any() and not len(ledger.unfinished)
    assert (ledger.finish_s > p.arrival_s).all()
    fair = search.at_once()
    assert not found.stopped[fair == 1.0].any()
    if not failing:  # a failure takes steps back after a loss was shown
        assert (found.steps_done / p.total_steps >= fair - 1e-5).all()


def test_same_seed_same_run() -> None:
    p = _search([0.3, 0.2, 0.25, 0.1], devices=2)
    one, two = (simulate_tuned(p, allocator("themis"), LiveSearch(noise=0.3), FREE) for _ in range(2))
    assert one.run.ledger.finish_s.tolist() == two.run.ledger.finish_s.tolist()


def test_expected_work() -> None:
    """Eight trials: 1/8 for all, then 1/8 for half, 1/4 for a quarter, 1/2 for one in eight: 5/16 of the budget."""
    p = _search([0.1] * 8, devices=8)
    search = LiveSearch(noise=0.0)
    search.reset(p, 0)
    np.testing.assert_allclose(search.expected_left(np.arange(8), np.zeros(8)), 100.0 * 5 / 16)
    search.review(np.array([0]), np.array([12.5]))
    left = search.expected_left(np.arange(2), np.array([12.5, 0.0]))
    np.testing.assert_allclose(left, [12.5 + 25.0 / 2 + 50.0 / 4, 100.0 * 5 / 16])


def test_jobs_become_searches() -> None:
    """Three trials per job with its budget; the curve of each falls to a tenth above where it ends, drawn by seed."""
    one, two = job("x", 90.0, traits={"skew": 1.0}), job("y", 10.0, at=5.0)
    made = as_searches([one, two], 3, seed=4)
    assert [t.job_id for t in made] == ["x.0", "x.1", "x.2", "y.0", "y.1", "y.2"]
    assert [t.app_id for t in made] == ["x"] * 3 + ["y"] * 3
    assert made[0].traits["skew"] == 1.0 and made[0].total_steps == 90.0 and made[3].arrival_s == 5.0
    assert 1.0 / (made[0].traits["loss_a"] * 90.0 + made[0].traits["loss_b"]) == pytest.approx(0.1)
    ends = [t.traits["loss_c"] for t in made]
    assert len(set(ends)) == 6 and min(ends) >= 0.0 and max(ends) <= 1.0
    assert made == as_searches([one, two], 3, seed=4) != as_searches([one, two], 3, seed=5)


def test_bad_input() -> None:
    bare = build_problem([job(str(n), 9.0, app_id="a") for n in range(2)], Cluster.of({"fast": 1}), table())
    with pytest.raises(ConfigError, match="job '0' is a trial of a search and has no loss curve"):
        _run(bare)
    with pytest.raises(ConfigError, match="realistic mode only"):
        _run(_search([0.1], 1), SimulationOptions(mode="ideal"))
    with pytest.raises(ConfigError, match="noise is -1"):
        LiveSearch(noise=-1.0)
