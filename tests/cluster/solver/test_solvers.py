"""The solvers themselves: each against another, their checks, and what happens when one fails."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.solver import ratio
from eunomia.cluster.solver import solve as solving
from eunomia.cluster.solver.embedded import bound
from eunomia.cluster.solver.embedding import Rows, solve_embedded
from eunomia.cluster.solver.embedding_step import CHUNK
from eunomia.cluster.solver.geometric import solve_geometric
from eunomia.cluster.solver.grouping import group_rows
from eunomia.cluster.solver.highs import LinearProgramme, SolverError, solve_linear
from eunomia.cluster.solver.programme import ShareProgramme, programme
from eunomia.cluster.solver.solve import solve_shares
from eunomia.cluster.solver.unpack import job_pairs
from eunomia.cluster.solver.warm import WarmStart


def drawn(seed: int, jobs: int, kinds: int) -> ShareProgramme:
    """A max-min programme with some zeros, uneven weights and gangs."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0.0, 1.0, (jobs, kinds)) * (rng.random((jobs, kinds)) > 0.2)
    speed[np.arange(jobs), rng.integers(0, kinds, jobs)] = 1.0
    scale, counts = rng.choice([1, 2, 4], jobs), rng.integers(4, 12, kinds)
    return programme(speed, scale, counts, norm=rng.uniform(0.1, 10.0, jobs), rise=1.0, reward=1.0)


@pytest.mark.parametrize("solver", ["embedding", "interior_point"])
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 5))
def test_compiled_methods_equal_simplex(solver: str, seed: int, jobs: int, kinds: int) -> None:
    problem = drawn(seed, jobs, kinds)
    ours, vertex = solve_shares(problem, solver), solve_shares(problem, "simplex")
    assert not ours.report.fallback
    assert ours.level == pytest.approx(vertex.level, rel=1e-7)
    assert ours.multiplier.sum() == pytest.approx(1.0, abs=1e-6)  # the multipliers of a max-min programme


def test_more_distinct_rows_than_one_chunk_equal_simplex() -> None:
    problem = drawn(5, CHUNK + 300, 3)
    ours, vertex = solve_shares(problem), solve_shares(problem, "simplex")
    assert ours.report.rows == CHUNK + 300
    assert not ours.report.fallback
    assert ours.level == pytest.approx(vertex.level, rel=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4))
def test_sums_and_floors_equal_simplex(seed: int, jobs: int, kinds: int) -> None:
    problem = drawn(seed, jobs, kinds)
    level = solve_shares(problem).level
    value = np.random.default_rng(seed).uniform(0.0, 3.0, jobs)
    floored = replace(problem, reward=0.0, rise=np.zeros(jobs), floor=np.full(jobs, 0.7 * level), value=value)
    ours, vertex = solve_shares(floored), solve_shares(floored, "simplex")
    assert ours.report.objective == pytest.approx(vertex.report.objective, rel=1e-7, abs=1e-9)
    assert (floored.norm * ours.throughput(floored) >= 0.7 * level * (1.0 - 1e-7)).all()


def test_floors_that_cannot_be_met_are_an_error_that_says_so() -> None:
    problem = programme(np.ones((3, 1)), np.ones(3), np.ones(1), floor=0.5, value=1.0)
    with pytest.raises(SolverError, match="infeasible: its floors"):
        solve_shares(problem)


def test_a_failed_solve_is_repeated_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn(1, 10, 3)
    right = solve_shares(problem).level

    def broken(small: ShareProgramme) -> object:
        solved = solving._simplex(small)
        return replace(
            solved, shares=0.5 * solved.shares, report=replace(solved.report, gap=0.5, solver="broken")
        )

    monkeypatch.setattr(solving, "solve_embedded_shares", broken)
    solved = solve_shares(problem)
    assert solved.level == pytest.approx(right, rel=1e-8)
    assert "broken stopped short" in solved.report.fallback
    assert [note.kind for note in solved.report.notes()] == ["solve", "fallback"]


def test_a_large_programme_is_repeated_by_interior_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS takes hours at 100,000 distinct rows, where the gap of the embedding is above the limit."""
    problem = drawn(1, 10, 3)
    right, exact = solve_shares(problem).level, solving.solve_embedded_shares

    def stopped_short(small: ShareProgramme) -> object:
        solved = exact(small)
        return replace(solved, report=replace(solved.report, gap=1.9e-7))

    monkeypatch.setattr(solving, "solve_embedded_shares", stopped_short)
    for large, solver in ((10, "HiGHS simplex"), (9, "interior point")):
        monkeypatch.setattr(solving, "LARGE", large)
        solved = solve_shares(problem)
        assert solved.report.solver == solver
        assert solved.level == pytest.approx(right, rel=1e-7)
        assert solved.report.fallback.endswith(f"solved again with {solver}")


def test_a_repeat_that_fails_its_check_too_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = solving._simplex

    def loose(small: ShareProgramme, **given: Any) -> object:
        solved = honest(small, **given)
        return replace(solved, report=replace(solved.report, gap=1e-3))

    monkeypatch.setattr(solving, "_simplex", loose)
    with pytest.raises(
        SolverError, match=r"solved again with HiGHS simplex, and HiGHS simplex stopped short"
    ):
        solve_shares(drawn(1, 10, 3), "simplex")


def test_the_ratio_programme_proves_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    # one job, 2 steps/s on a type at 1 per hour, 3 on one at 2 per hour: all time on the first, 7200 steps per unit
    speed, cost = np.array([[2.0, 3.0]]), np.array([1.0, 2.0])
    problem = programme(speed, np.ones(1), np.ones(2), value=1.0)
    solved = ratio.solve_ratio(problem, cost)
    assert solved.report.objective == pytest.approx(7200.0)
    assert solved.report.gap <= 1e-9
    honest = ratio.solve_linear
    monkeypatch.setattr(
        ratio, "solve_linear", lambda lp: replace(honest(lp), row_multiplier=np.zeros(len(lp.row_low)))
    )
    with pytest.raises(SolverError, match="Charnes-Cooper stopped short"):
        ratio.solve_ratio(problem, cost)


@pytest.mark.parametrize(("jobs", "devices"), [(1, 8), (5, 8), (12, 8), (20, 8), (40, 4)])
def test_the_embedding_stops_where_ecos_stops(jobs: int, devices: int) -> None:
    """Shares, not only objectives: with plenty of devices the optimum is far from unique."""
    cvxpy = pytest.importorskip("cvxpy")
    pytest.importorskip("ecos")
    rng = np.random.default_rng(jobs)
    speed = rng.lognormal(0.0, 0.7, (jobs, 3))
    scale = rng.choice([1.0, 2.0, 4.0], jobs)
    norm = scale / speed.mean(axis=1)
    problem = programme(speed, scale, np.full(3, devices), norm=norm, rise=1.0, reward=1.0)
    x = cvxpy.Variable(speed.shape)
    workers = np.repeat(scale[:, None], 3, axis=1)
    held = [x >= 0, cvxpy.sum(cvxpy.multiply(workers, x), axis=0) <= devices, cvxpy.sum(x, axis=1) <= 1]
    terms = cvxpy.sum(cvxpy.multiply(speed * norm[:, None], x), axis=1)
    model = cvxpy.Problem(cvxpy.Maximize(cvxpy.min(terms)), held)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy's own about its ECOS interface
        model.solve(solver="ECOS")
    ours = solve_shares(problem, "as_gavel")
    assert ours.report.steps == model.solver_stats.num_iters
    assert ours.shares == pytest.approx(np.clip(x.value, 0.0, 1.0), abs=1e-7)


def test_the_embedding_solves_a_programme_worked_by_hand() -> None:
    """min -x - 2y, x + y <= 4, y <= 3: x = 1, y = 3; multipliers 1 and 1."""
    rows = Rows(np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3), (2, 2))
    found = solve_embedded(np.array([-1.0, -2.0]), rows, np.array([4.0, 3.0]), np.ones(2, bool))
    assert found.optimal
    assert found.z == pytest.approx([1.0, 3.0], abs=1e-6)
    assert found.multipliers == pytest.approx([1.0, 1.0], abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_the_compiled_embedding_is_the_plain_one(seed: int, jobs: int, kinds: int, twice: bool) -> None:
    """The same point as with one dense system; rows that count twice are as good as written out."""
    problem = drawn(seed, jobs, kinds)
    if twice:
        problem = problem.take(np.tile(np.arange(jobs), 2))
    compiled, plain = solve_shares(problem, "as_gavel"), solving._by_one_system(problem)
    expected = np.where(problem.speed > 0.0, plain.shares, 0.0)
    assert compiled.shares == pytest.approx(expected, abs=2e-3)
    assert solve_shares(problem).shares == pytest.approx(expected, abs=2e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 4))
def test_any_multipliers_prove_a_bound(seed: int, jobs: int, kinds: int) -> None:
    problem, rng = drawn(seed, jobs, kinds), np.random.default_rng(seed)
    level = solve_shares(problem, "simplex").level
    assert bound(problem, rng.uniform(0.0, 1.0, jobs) + 1e-3, rng.uniform(0.0, 1.0, kinds)) >= level * (
        1.0 - 1e-9
    )


def test_highs_answers_with_multipliers_and_knows_infeasible() -> None:
    lp = LinearProgramme(
        gain=np.array([1.0, 2.0]),
        low=np.zeros(2),
        high=np.full(2, np.inf),
        row_low=np.full(2, -np.inf),
        row_high=np.array([4.0, 3.0]),
        row=np.array([0, 0, 1]),
        column=np.array([0, 1, 1]),
        entry=np.ones(3),
    )
    answer = solve_linear(lp)
    assert (answer.x.tolist(), answer.objective, answer.violation) == ([1.0, 3.0], 7.0, 0.0)
    assert answer.row_multiplier.tolist() == [1.0, 1.0]
    assert not solve_linear(replace(lp, row_low=np.array([5.0, -np.inf]))).feasible


def test_geometric_mean_by_hand() -> None:
    """Job 0 runs on a only, job 1 on both equally well: 0 keeps a, 1 keeps b."""
    solved = solve_geometric(programme(np.array([[1.0, 0.0], [1.0, 1.0]]), np.ones(2), np.ones(2)))
    assert solved.shares == pytest.approx(np.eye(2), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=60))
def test_groups_are_the_distinct_rows(rows: list[tuple[int, int]]) -> None:
    columns = np.array(rows, float)
    first, group, count = group_rows(columns)
    assert (columns[first][group] == columns).all()
    assert len(first) == len(set(rows)) == len(np.unique(columns, axis=0))
    assert first.tolist() == sorted(first.tolist())
    assert count.tolist() == [rows.count(rows[m]) for m in first]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7))
def test_pairs_of_groups_are_dealt_evenly(one: int, two: int) -> None:
    group = np.array([0] * one + [1] * two)
    firsts, seconds, total = np.array([0, 0]), np.array([1, 0]), np.array([[2.0, 1.0], [3.0, 0.0]])
    if one < 2:
        firsts, seconds, total = firsts[:1], seconds[:1], total[:1]
    a, b, shares = job_pairs(firsts, seconds, total, group, 2)
    assert (a < b).all()
    assert len(np.unique(a * 100 + b)) == len(a)
    assert shares.sum(axis=0) == pytest.approx(total.sum(axis=0))
    each = np.bincount(a, shares.sum(axis=1), one + two) + np.bincount(b, shares.sum(axis=1), one + two)
    own = 3.0 / one if one < 2 else (3.0 + 6.0) / one
    assert each == pytest.approx(np.r_[np.full(one, own), np.full(two, 3.0 / two)])


@pytest.mark.parametrize("leaving", [1, 2, 12])
def test_a_warm_start_changes_steps_and_not_the_optimum(leaving: int) -> None:
    rng = np.random.default_rng(5)
    jobs, beside = 24, rng.uniform(0.4, 0.9, (24, 24, 2))
    whole = programme(rng.uniform(0.8, 1.2, (jobs, 2)), np.ones(jobs), np.full(2, 4), rise=1.0, reward=1.0,
                      kind=np.arange(jobs), beside=beside)  # fmt: skip
    warm = WarmStart()
    first = solve_shares(whole, warm=warm)
    assert first.level == pytest.approx(solve_shares(whole).level, rel=1e-9)
    rest = whole.take(np.arange(leaving, jobs))
    cold, again = solve_shares(rest), solve_shares(rest, warm=warm)
    assert again.level == pytest.approx(cold.level, rel=1e-9)
    assert solve_shares(rest, warm=warm).report.steps == 0  # begins at its own optimum
    warm.forget()
    assert solve_shares(rest, warm=warm).report.steps == cold.report.steps


def test_a_second_objective_goes_on_from_the_first_optimum() -> None:
    """Against a programme of its own whose floors keep the level: the same sum, more than the first vertex has."""
    rng = np.random.default_rng(3)
    jobs, beside = 24, rng.uniform(0.4, 0.9, (24, 24, 2))
    rise = np.r_[
        np.full(6, 9.0), np.full(18, 0.1)
    ]  # six jobs set the level; the others' devices are to be had
    one = programme(rng.uniform(0.8, 1.2, (jobs, 2)), np.ones(jobs), np.full(2, 6), rise=rise, reward=1.0,
                    kind=np.arange(jobs), beside=beside)  # fmt: skip
    worth = rng.uniform(0.5, 2.0, jobs)
    first, both = solve_shares(one), solve_shares(one, then=worth)
    floor = rise * first.level * (1.0 - 1e-9)
    apart = solve_shares(replace(one, floor=floor, rise=np.zeros(jobs), reward=0.0, value=worth))
    assert both.level == first.level and both.report.primal_residual < 1e-9
    assert (both.throughput(one) >= floor * (1.0 - 1e-9)).all()
    sums = [float(worth @ found.throughput(one)) for found in (first, both, apart)]
    assert sums[1] == pytest.approx(sums[2], rel=1e-8) and sums[1] > 1.01 * sums[0]


def test_a_second_objective_counts_rows_that_are_alike_once() -> None:
    """By hand: two jobs alike, one of another kind, two devices; each runs at 1, pairs are worth nothing. The level is
    2 / 3 for all; with time left to nobody, a second objective changes nothing, whatever it counts."""
    three = programme(np.ones((3, 1)), np.ones(3), np.full(1, 2), rise=1.0, reward=1.0, kind=np.array([0, 0, 1]),
                      beside=np.zeros((2, 2, 1)))  # fmt: skip
    solved = solve_shares(three, then=np.array([1.0, 1.0, 5.0]))
    assert solved.level == pytest.approx(2.0 / 3.0)
    np.testing.assert_allclose(solved.shares[:, 0], 2.0 / 3.0)
    free = replace(three, rise=np.array([1.0, 1.0, 0.5]))  # 4 / 5, 4 / 5 and 2 / 5 of the two devices
    np.testing.assert_allclose(solve_shares(free, then=np.ones(3)).shares[:, 0], [0.8, 0.8, 0.4])


def test_crumbs_go_first_to_what_the_optimum_misses_least() -> None:
    """By hand: 1.5 devices, jobs that gain 4, 3, 2 and 1 alone. The second has half a device, so one is worth 3: the
    third and fourth would lose 1 and 2, in units of 4. No pair is worth more than time alone: none has a column."""
    speed = np.array([[4.0], [3.0], [2.0], [1.0]])
    problem = programme(speed, np.ones(4), np.full(1, 1.5), value=1.0, rowed=False, kind=np.arange(4),
                        beside=np.repeat(0.4 * speed[:, :, None], 4, axis=1))  # fmt: skip
    shares = solve_shares(problem, crumbs=True).shares[:, 0]
    np.testing.assert_allclose(shares, [1.0, 0.5, 1e-15 * 4.0 / 1.0, 1e-15 * 4.0 / 2.0], rtol=1e-6)
    assert (solve_shares(problem).shares[2:] == 0.0).all()


def test_what_may_sum_in_any_order_is_kept_as_one_piece() -> None:
    """Kept alone, it would be inlined or linked by what the disk holds, and last bits would follow."""
    from eunomia.cluster.solver import embedding_core, embedding_lines, embedding_scaling, embedding_step

    kept = {
        name
        for module in (embedding_core, embedding_lines, embedding_scaling, embedding_step)
        for name, found in vars(module).items()
        if hasattr(found, "py_func") and type(found._cache).__name__ != "NullCache"
    }
    assert kept == {"embed", "ruiz", "eliminate"}  # the last one sums in the order written
