"""Gavel's policies: objectives against independent solvers, and the properties that the specification asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError, UnknownNameError
from tests.cluster.peers import max_min_level, most_value, normalised, speeds, violation
from tests.cluster.views import random_view, view_of
from tests.shared_data import shared

CLOSE = 1e-6
PRICES = {"v100": 3.0, "p100": 1.5, "k80": 0.5}
PROGRAMMES = (
    "max_min_fairness",
    "max_min_fairness_perf",
    "max_min_fairness_packed",
    "max_min_fairness_water_filling",
    "max_min_fairness_water_filling_perf",
    "max_min_fairness_water_filling_packed",
    "hierarchical",
    "max_min_fairness_strategy_proof",
    "finish_time_fairness",
    "finish_time_fairness_perf",
    "finish_time_fairness_packed",
    "min_total_duration",
    "min_total_duration_perf",
    "min_total_duration_packed",
    "max_sum_throughput_perf",
    "max_sum_throughput_normalized_by_cost_perf",
    "max_sum_throughput_normalized_by_cost_perf_SLOs",
    "max_sum_throughput_normalized_by_cost_packed_SLOs",
    "max_throughput_cost_ratio",
    "max_throughput_cost_ratio_SLOs",
    "fifo_programme",
    "shortest_job_programme",
    "gandiva_packed",
    "isolated",
    "proportional",
    "fifo",
    "fifo_perf",
    "fifo_packed",
)


@pytest.fixture(scope="module")
def table() -> ThroughputTable:
    return ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))


def drawn(table: ThroughputTable, jobs: int, seed: int, **facts: object) -> ClusterView:
    rng = np.random.default_rng(seed)
    cluster = Cluster.of({"v100": 8, "p100": int(rng.integers(8, 20)), "k80": 12}, 4, PRICES)
    return random_view(table, cluster, jobs, seed, **facts)


@pytest.mark.parametrize("name", PROGRAMMES)
@pytest.mark.parametrize("jobs", (1, 9, 45))
def test_shares_fit_the_cluster_and_no_job_is_sent_where_it_cannot_run(
    table: ThroughputTable, name: str, jobs: int
) -> None:
    view = drawn(table, jobs, jobs, pairs=True, tenant=np.arange(jobs) % 2, tenants=("a", "b"))
    view = replace(view, tenant_weight=np.array([1.0, 2.0]), deadline_s=np.full(jobs, 50_000.0))
    policy = allocator(name)
    policy.reset(1)
    allocation = policy.allocate(view)
    assert violation(view, allocation.shares, allocation.pairs) <= 1e-12
    assert not [note for note in allocation.notes if note.kind == "fallback"]
    assert allocation.shares.max() > 0.0


@pytest.mark.parametrize("name", PROGRAMMES)
def test_no_jobs_no_shares(table: ThroughputTable, name: str) -> None:
    view = view_of(Cluster.of({"a": 2, "b": 1}, cost_per_hour={"a": 1.0, "b": 1.0}), np.zeros((0, 2)))
    view = replace(view, beside=np.zeros((0, 0, 2)))
    assert allocator(name).allocate(view).shares.shape == (0, 2)


@pytest.mark.parametrize("solver", ("embedding", "interior_point", "simplex", "as_gavel"))
@pytest.mark.parametrize("seed", range(4))
def test_max_min_objective_equals_scipy(table: ThroughputTable, solver: str, seed: int) -> None:
    view = drawn(table, (3, 12, 30, 60)[seed], seed)
    for name, gain in (
        ("max_min_fairness_perf", normalised(view)),
        ("max_min_fairness", normalised(view, view.runnable.astype(float))),
    ):
        allocation = allocator(name, solver=solver).allocate(view)
        assert allocation.objective == pytest.approx(max_min_level(view, gain), rel=CLOSE)
        assert (gain * allocation.shares).sum(axis=1).min() == pytest.approx(allocation.objective, rel=CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_makespan_equals_scipy_and_gavels_bisection_ends_within_five_percent(
    table: ThroughputTable, seed: int
) -> None:
    view = drawn(table, 25, seed)
    speed = np.where(view.runnable, view.throughput, 0.0)
    optimum_s = 1.0 / max_min_level(view, speed / view.steps_left[:, None])
    exact = allocator("min_total_duration_perf").allocate(view)
    assert exact.objective == pytest.approx(optimum_s, rel=CLOSE)
    assert (view.steps_left / speeds(view, exact)).max() == pytest.approx(optimum_s, rel=CLOSE)
    bisected = allocator("min_total_duration_perf", solver="as_gavel").allocate(view)
    assert optimum_s * (1.0 - 1e-9) <= bisected.objective <= 1.051 * optimum_s
    assert (view.steps_left / speeds(view, bisected)).max() <= bisected.objective * (1.0 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_throughput_sums_equal_scipy(table: ThroughputTable, seed: int) -> None:
    view = drawn(table, 30, seed)
    value = np.where(view.runnable, view.throughput, 0.0)
    plain = allocator("max_sum_throughput_perf").allocate(view)
    assert plain.objective == pytest.approx(most_value(view, value), rel=CLOSE)
    priced = allocator("max_sum_throughput_normalized_by_cost_perf").allocate(view)
    assert priced.objective == pytest.approx(most_value(view, value / view.cluster.cost_per_hour), rel=CLOSE)
    fastest = value.max(axis=1, keepdims=True)
    rank = np.arange(30)
    ranked = allocator("fifo_programme").allocate(view)
    assert ranked.objective == pytest.approx(
        most_value(view, (30 - rank)[:, None] * value / fastest), rel=CLOSE
    )
    rank[np.argsort(view.steps_left / fastest[:, 0])] = np.arange(30)
    shortest = allocator("shortest_job_programme").allocate(view)
    assert shortest.objective == pytest.approx(
        most_value(view, (30 - rank)[:, None] * value / fastest), rel=CLOSE
    )


@pytest.mark.parametrize("seed", range(3))
def test_finish_time_fairness_equals_the_cone_programme(table: ThroughputTable, seed: int) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    view = drawn(table, 12, seed)
    allocation = allocator("finish_time_fairness_perf").allocate(view)
    isolated = view.cluster.counts / (len(view) * view.scale[:, None])
    isolated = isolated / np.maximum(isolated.sum(axis=1, keepdims=True), 1.0)
    speed = np.where(view.runnable, view.throughput, 0.0)
    fair_s = view.isolated_s + view.steps_left / (speed * isolated).sum(axis=1)
    unit = speed.max(axis=1)
    x = cvxpy.Variable(speed.shape, nonneg=True)
    pace = cvxpy.sum(cvxpy.multiply(speed / unit[:, None], x), axis=1)
    late = cvxpy.multiply(view.steps_left / unit / fair_s, cvxpy.inv_pos(pace)) + view.age_s / fair_s
    held = [cvxpy.sum(x, axis=1) <= 1, view.scale @ x <= view.cluster.counts]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.max(late)), held)
    problem.solve(solver="CLARABEL")
    assert allocation.objective == pytest.approx(problem.value, rel=CLOSE)
    reached = (view.age_s + view.steps_left / speeds(view, allocation)) / fair_s
    assert reached.max() == pytest.approx(allocation.objective, rel=CLOSE)


@pytest.mark.parametrize("jobs", (2, 10, 24))
def test_packed_objective_equals_scipy_over_all_pairs_of_jobs(table: ThroughputTable, jobs: int) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    view = drawn(table, jobs, jobs, pairs=True)
    kinds = len(view.cluster.types)
    first, second = np.triu_indices(jobs, 1)
    pair = view.pair_speed(first, second)
    gain = normalised(view)
    unit = view.scale / (view.weight * (view.throughput @ (view.cluster.counts / view.cluster.counts.sum())))
    columns = (jobs + len(first)) * kinds
    rows, right = (
        np.zeros((2 * jobs + kinds, columns + 1)),
        np.r_[np.ones(jobs), np.zeros(jobs), view.cluster.counts],
    )
    for m in range(jobs):
        for j in range(kinds):
            c = m * kinds + j
            rows[m, c], rows[jobs + m, c], rows[2 * jobs + j, c] = 1.0, -gain[m, j], view.scale[m]
    for p, (a, b) in enumerate(zip(first, second, strict=True)):
        for j in range(kinds):
            c = (jobs + p) * kinds + j
            rows[[a, b], c] = 1.0
            rows[[jobs + a, jobs + b], c] = -pair[p, j] * unit[[a, b]]
            rows[2 * jobs + j, c] = view.scale[a]
    rows[jobs : 2 * jobs, -1] = 1.0
    cost = np.zeros(columns + 1)
    cost[-1] = -1.0
    answer = optimize.linprog(cost, rows, right, bounds=[(0.0, None)] * columns + [(None, None)])
    allocation = allocator("max_min_fairness_packed").allocate(view)
    assert allocation.objective == pytest.approx(-answer.fun, rel=CLOSE)
    assert (speeds(view, allocation) * unit).min() == pytest.approx(-answer.fun, rel=CLOSE)
    alone = allocator("max_min_fairness_perf").allocate(view).objective
    assert allocation.objective >= alone * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_water_filling_is_lexicographic_max_min(table: ThroughputTable, seed: int) -> None:
    """Against repeated programmes that test every job by itself."""
    optimize = pytest.importorskip("scipy.optimize")
    view = drawn(table, (4, 9, 14, 20)[seed], seed)
    gain = normalised(view)
    jobs, kinds = gain.shape
    rows = np.vstack(
        [np.kron(np.eye(jobs), np.ones((1, kinds))), np.kron(view.scale[None, :], np.eye(kinds))]
    )
    right = np.r_[np.ones(jobs), view.cluster.counts]
    own = np.zeros((jobs, gain.size))
    for m in range(jobs):
        own[m, m * kinds : (m + 1) * kinds] = gain[m]
    floor = np.full(jobs, np.nan)
    while np.isnan(floor).any():
        fixed = np.where(np.isnan(floor), 0.0, floor - 1e-9)
        rising = np.isnan(floor)[:, None]
        everything = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), np.hstack([-own, rising])])
        bounds = [(0.0, None)] * gain.size + [(None, None)]
        first = optimize.linprog(
            np.r_[np.zeros(gain.size), -1.0], everything, np.r_[right, -fixed], bounds=bounds
        )
        level = -first.fun
        fixed = np.where(np.isnan(floor), level - 1e-9, fixed)
        for m in np.flatnonzero(np.isnan(floor)):
            alone = optimize.linprog(
                -own[m], np.vstack([rows, -own]), np.r_[right, -fixed], bounds=(0.0, None)
            )
            if -alone.fun <= level + 1e-6:
                floor[m] = level
    reached = (gain * allocator("max_min_fairness_water_filling_perf").allocate(view).shares).sum(axis=1)
    assert np.sort(reached) == pytest.approx(np.sort(floor), rel=1e-5)


def test_water_filling_raises_who_can_still_rise() -> None:
    """Two jobs need the single device a; the third alone uses b, which max-min may leave half used."""
    view = view_of(Cluster.of({"a": 1, "b": 1}), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    shares = allocator("max_min_fairness_water_filling_perf").allocate(view).shares
    assert shares == pytest.approx(np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]]), abs=1e-6)


def test_hierarchy_divides_an_entitys_share_among_its_jobs() -> None:
    """Entity x has two jobs, y has one, weights 1 and 2, one device: y gets 2/3, the jobs of x 1/6 each."""
    facts = {"tenant": [0, 0, 1], "tenants": ("x", "y"), "tenant_weight": np.array([1.0, 2.0])}
    view = view_of(Cluster.of({"a": 1}), [[1.0], [1.0], [1.0]], **facts)
    fair = allocator("hierarchical").allocate(view).shares[:, 0]
    assert fair == pytest.approx([1 / 6, 1 / 6, 2 / 3], abs=1e-6)
    ordered = allocator("hierarchical", within="fifo").allocate(view).shares[:, 0]
    assert ordered == pytest.approx([1 / 3, 0.0, 2 / 3], abs=1e-6)


@pytest.mark.parametrize("within", ["fairness", "fifo"])
def test_a_crowded_hierarchy_ends_and_serves_each_entity(table: ThroughputTable, within: str) -> None:
    """80 jobs of three entities on 28 to 40 devices: many waiting jobs find nothing left, and no pass fails over it."""
    facts = {
        "tenant": np.arange(80) % 3,
        "tenants": ("x", "y", "z"),
        "tenant_weight": np.array([1.0, 2.0, 3.0]),
    }
    view = drawn(table, 80, 11, **facts)
    allocation = allocator("hierarchical", within=within).allocate(view)
    assert not [note for note in allocation.notes if note.kind == "fallback"]
    assert violation(view, allocation.shares) <= 1e-12
    assert view.scale @ allocation.shares == pytest.approx(view.cluster.counts, rel=1e-4)
    served = speeds(view, allocation) / np.where(view.runnable, view.throughput, 0.0).max(axis=1) > 1e-6
    assert served[:3].all()  # the first of each entity
    assert served.all() == (within == "fairness")


def test_what_a_job_gained_is_kept_when_weights_change() -> None:
    """Entity x (weight 4) has A (3 of it) on type a and B (1) on b, entity y (weight 1) has C on b; normalisers 1/2.

    A is saturated at level 2/3, where B and C have terms of 2/3 each. Then all of x's weight is B's: of the 2/3 that
    are left of b, B gets four parts and C one: 1.2 and 0.8. (Filling from nothing, C would fall from 2/3 to 0.4.)
    """
    facts = {"tenant": [0, 0, 1], "tenants": ("x", "y"), "tenant_weight": np.array([4.0, 1.0])}
    weight = np.array([3.0, 1.0, 1.0])
    view = view_of(Cluster.of({"a": 1, "b": 1}), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], weight=weight, **facts)
    shares = allocator("hierarchical").allocate(view).shares
    assert shares == pytest.approx(np.array([[1.0, 0.0], [0.0, 0.6], [0.0, 0.4]]), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_sharing_incentive(table: ThroughputTable, seed: int) -> None:
    """Equal weights and no clipped isolated row: nobody falls below the isolated throughput."""
    view = drawn(table, 40, seed, weight=np.ones(40))
    assert (len(view) * view.scale >= view.cluster.counts.sum()).all()
    assert ((view.throughput == 0.0) | (view.scale[:, None] <= view.cluster.counts)).all()
    alone = speeds(view, allocator("isolated").allocate(view))
    shared_speed = speeds(view, allocator("max_min_fairness_perf").allocate(view))
    assert (shared_speed >= alone * (1.0 - 1e-7)).all()


def test_scaling_a_job_permuting_jobs_and_reordering_or_renaming_types(table: ThroughputTable) -> None:
    view = drawn(table, 20, 3)
    before = allocator("max_min_fairness_perf").allocate(view)
    factor = np.random.default_rng(0).uniform(0.01, 100.0, 20)
    scaled = allocator("max_min_fairness_perf").allocate(
        replace(view, throughput=view.throughput * factor[:, None])
    )
    assert scaled.objective == pytest.approx(before.objective, rel=1e-8)
    assert scaled.shares == pytest.approx(before.shares, abs=1e-3)
    order = np.random.default_rng(1).permutation(20)
    names = ("throughput", "scale", "weight", "row")
    moved = allocator("max_min_fairness_perf").allocate(
        replace(view, **{name: getattr(view, name)[order] for name in names})
    )
    assert moved.shares == pytest.approx(before.shares[order], abs=1e-4)
    kinds = [2, 0, 1]
    cluster = Cluster(tuple(view.cluster.types[j] for j in kinds))
    turned = allocator("max_min_fairness_perf").allocate(
        replace(view, cluster=cluster, throughput=view.throughput[:, kinds])
    )
    assert turned.shares == pytest.approx(before.shares[:, kinds], abs=1e-4)  # where the method stops
    renamed = Cluster(tuple(replace(kind, name=f"npu{j}") for j, kind in enumerate(view.cluster.types)))
    called = allocator("max_min_fairness_perf").allocate(replace(view, cluster=renamed))
    assert np.array_equal(called.shares, before.shares)


def test_identical_jobs_get_identical_shares_and_grouping_changes_nothing(table: ThroughputTable) -> None:
    from eunomia.cluster.policies.programmes import fair_norm
    from eunomia.cluster.solver.programme import programme
    from eunomia.cluster.solver.solve import solve_shares

    base = drawn(table, 6, 2)
    row = np.arange(30) % 6
    view = view_of(base.cluster, base.throughput[row], scale=base.scale[row], weight=base.weight[row])
    speed = np.where(view.runnable, view.throughput, 0.0)
    problem = programme(
        speed, view.scale, view.cluster.counts, norm=fair_norm(view, speed), rise=1.0, reward=1.0
    )
    together, apart = solve_shares(problem), solve_shares(problem, group=False)
    assert together.report.rows == 6
    assert apart.report.rows == 30
    assert together.level == pytest.approx(apart.level, rel=1e-8)
    assert together.shares == pytest.approx(apart.shares, abs=1e-3)
    assert together.shares == pytest.approx(together.shares[row], abs=0.0)


def test_more_devices_never_lower_the_level_with_the_normaliser_held(table: ThroughputTable) -> None:
    from eunomia.cluster.policies.programmes import fair_norm
    from eunomia.cluster.solver.programme import programme
    from eunomia.cluster.solver.solve import solve_shares

    view = drawn(table, 25, 4)
    norm = fair_norm(view, view.throughput)
    levels = [
        solve_shares(programme(view.throughput, view.scale, counts, norm=norm, rise=1.0, reward=1.0)).level
        for counts in (view.cluster.counts, view.cluster.counts + [0, 1, 0], view.cluster.counts * 2)
    ]
    assert levels[0] <= levels[1] * (1.0 + 1e-8)
    assert levels[1] <= levels[2] * (1.0 + 1e-8)


@pytest.mark.parametrize(
    ("counts", "scale"),
    [
        ((3, 3, 3), (1, 1, 1)),
        ((3, 3, 3), (1, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
        ((8, 8, 8), (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)),
        ((4, 8, 12), (1,) * 30),
        ((64, 64, 64), (4,) * 60),
        ((1, 2, 4), (1,) * 9),
        ((5,), (1,) * 7),
        ((6, 6), (3,) * 8),
    ],
)
def test_isolated_is_the_agnostic_minimum(counts: tuple[int, ...], scale: tuple[int, ...]) -> None:
    """With equal scales, the isolated share is what agnostic max-min fairness guarantees."""
    cluster = Cluster.of({f"type{j}": count for j, count in enumerate(counts)})
    view = view_of(cluster, np.ones((len(scale), len(counts))), scale=np.array(scale))
    level = allocator("max_min_fairness").allocate(view).objective
    isolated = allocator("isolated").allocate(view).shares.sum(axis=1)
    assert level == pytest.approx((isolated * scale).min(), rel=1e-8)


def test_proportional_fairness_of_two_linear_jobs_and_its_discount() -> None:
    """k identical jobs on C devices: C/k each; the discount is ((k-1)/k)^(k-1)."""
    for k in (2, 3, 5):
        view = view_of(Cluster.of({"a": 1}), np.ones((k, 1)))
        shares = allocator("max_min_fairness_strategy_proof").allocate(view).shares[:, 0]
        assert shares == pytest.approx(np.full(k, ((k - 1) / k) ** (k - 1) / k), rel=1e-6)
        plain = allocator("max_min_fairness_strategy_proof", discount=False).allocate(view).shares[:, 0]
        assert plain == pytest.approx(np.full(k, 1 / k), rel=1e-7)


def test_geometric_mean_equals_clarabel(table: ThroughputTable) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    view = drawn(table, 15, 5)
    gain = normalised(view)
    x = cvxpy.Variable(gain.shape, nonneg=True)
    held = [cvxpy.sum(x, axis=1) <= 1, view.scale @ x <= view.cluster.counts]
    problem = cvxpy.Problem(
        cvxpy.Maximize(cvxpy.sum(cvxpy.log(cvxpy.sum(cvxpy.multiply(gain, x), axis=1)))), held
    )
    problem.solve(solver="CLARABEL")
    mean = allocator("max_min_fairness_strategy_proof").allocate(view).objective
    assert np.log(mean) == pytest.approx(problem.value / 15, abs=CLOSE)


def test_a_job_gains_nothing_by_claiming_to_be_faster_where_it_is_not() -> None:
    """Partial allocation: misreporting a throughput row lowers (or keeps) the true throughput."""
    rng = np.random.default_rng(7)
    true = rng.uniform(0.5, 4.0, (5, 2))
    cluster = Cluster.of({"a": 2, "b": 1})
    honest = speeds_of_first(true, true, cluster)
    for _ in range(12):
        lie = true.copy()
        lie[0] = rng.uniform(0.1, 8.0, 2)
        assert speeds_of_first(lie, true, cluster) <= honest * (1.0 + 1e-6)


def speeds_of_first(claimed: np.ndarray, true: np.ndarray, cluster: Cluster) -> float:
    shares = allocator("max_min_fairness_strategy_proof").allocate(view_of(cluster, claimed)).shares
    return float(shares[0] @ true[0])


def test_deadlines_that_can_be_met_are_met_and_others_are_relaxed_by_name() -> None:
    """One device; job 0 asks for 60 % of it, job 1 for 30 %, job 2 for 50 % and weighs least."""
    cluster = Cluster.of({"a": 1}, cost_per_hour={"a": 2.0})
    facts = {
        "steps_left": [60.0, 30.0, 50.0],
        "deadline_s": [1100.0, 1100.0, 1100.0],
        "weight": [5.0, 5.0, 1.0],
    }
    view = view_of(cluster, [[1.0], [1.0], [1.0]], **facts)
    allocation = allocator("max_sum_throughput_normalized_by_cost_perf_SLOs").allocate(view)
    (note,) = [note for note in allocation.notes if note.kind == "relaxed"]
    assert note.jobs == (2,)
    assert note.values[0] == pytest.approx(50.0 / 0.1 - 100.0, rel=1e-4)  # 10 % of the device instead of 50 %
    assert "1 of 3 deadlines" in note.text
    assert allocation.shares[:, 0] == pytest.approx([0.6, 0.3, 0.1], abs=1e-6)
    feasible = allocator("max_sum_throughput_normalized_by_cost_perf_SLOs").allocate(
        replace(view, deadline_s=np.array([1100.0, 1100.0, np.inf]))
    )
    assert not [note for note in feasible.notes if note.kind == "relaxed"]
    assert (feasible.shares[:2, 0] >= np.array([0.6, 0.3]) - 1e-6).all()


@pytest.mark.parametrize("left", [(1.0, 2.0, 3.0), (3.0, 1.0, 2.0), (2.0, 3.0, 1.0)])
def test_of_jobs_that_tie_the_one_with_the_least_left_comes_first(
    table: ThroughputTable, left: tuple[float, ...]
) -> None:
    cluster = Cluster.of({"v100": 1}, cost_per_hour={"v100": 2.0})
    view = random_view(table, cluster, 12, 3, pairs=True)
    alike = view.take(np.repeat(np.flatnonzero(view.scale == 1)[0], 3))
    alike = replace(alike, steps_left=3600.0 * alike.throughput[:, 0] * left, deadline_s=np.full(3, np.inf))
    policy = allocator("max_sum_throughput_normalized_by_cost_packed_SLOs")
    found, plain = policy.allocate(alike), replace(policy, slos=False).allocate(alike)
    done = found.shares[:, 0] * alike.throughput[:, 0]
    if found.pairs is not None:
        np.add.at(done, found.pairs.first, (found.pairs.shares[:, :, None] * found.pairs.speed)[:, 0, 0])
        np.add.at(done, found.pairs.second, (found.pairs.shares[:, :, None] * found.pairs.speed)[:, 0, 1])
    assert done[np.argmin(left)] == done.max() > done[np.argmax(left)] + 1e-3 * done.max()
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)


def test_cost_ratio_equals_a_search_over_its_parameter(table: ThroughputTable) -> None:
    """Dinkelbach: at the best ratio q, max (steps - q cost) is 0."""
    view = replace(drawn(table, 10, 6), deadline_s=np.full(10, 1e6))
    allocation = allocator("max_throughput_cost_ratio_SLOs").allocate(view)
    need = view.steps_left / view.time_left_s
    price = view.scale[:, None] * view.cluster.cost_per_hour
    used = float((price * allocation.shares).sum())
    ratio = 3600.0 * float(speeds(view, allocation).sum()) / used
    assert ratio == pytest.approx(allocation.objective, rel=1e-6)
    assert (speeds(view, allocation) >= need * (1.0 - 1e-6)).all()
    best = most_value(view, view.throughput - ratio / 3600.0 * price, floor=need * (1.0 - 1e-9))
    assert best == pytest.approx(0.0, abs=1e-5 * ratio / 3600.0 * used)


def test_first_in_first_out_blocks_behind_its_head() -> None:
    """4 workers do not fit beside 2 on 4 devices, so the single worker behind waits too."""
    view = view_of(Cluster.of({"a": 4}), [[1.0], [1.0], [1.0]], scale=[2, 4, 1])
    for name in ("fifo", "fifo_perf"):
        assert allocator(name).allocate(view).shares[:, 0].tolist() == [1.0, 0.0, 0.0]


def test_aware_first_in_first_out_takes_the_fastest_free_type_and_the_random_one_stays() -> None:
    view = view_of(Cluster.of({"a": 1, "b": 1}), [[1.0, 5.0], [1.0, 5.0]])
    assert allocator("fifo_perf").allocate(view).shares.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    policy = allocator("fifo")
    policy.reset(3)
    first = policy.allocate(view).shares
    assert policy.allocate(replace(view, now_s=2000.0)).shares.tolist() == first.tolist()
    left = view_of(Cluster.of({"a": 1, "b": 1}), [[1.0, 5.0]], key=[1])
    assert policy.allocate(left).shares.tolist() == [first[1].tolist()]


def test_packed_first_in_first_out_shares_devices_above_its_threshold() -> None:
    beside = np.zeros((2, 2, 1))
    beside[0, 1, 0], beside[1, 0, 0] = 0.9, 0.8
    facts = {"row": [0, 1], "beside": beside}
    view = view_of(Cluster.of({"a": 1}), [[1.0], [1.0]], **facts)
    pairs = allocator("fifo_packed").allocate(view).pairs
    assert (pairs.first.tolist(), pairs.second.tolist(), pairs.shares.tolist()) == ([0], [1], [[1.0]])
    assert allocator("fifo_packed", threshold=1.8).allocate(view).pairs is None


def test_bad_settings_are_one_clear_sentence(table: ThroughputTable) -> None:
    view = drawn(table, 3, 0)
    with pytest.raises(UnknownNameError, match="did you mean 'max_min_fairness'"):
        allocator("max_min_fairnes")
    with pytest.raises(UnknownNameError, match="unknown setting 'colour'"):
        allocator("max_min_fairness_perf", colour="red")
    with pytest.raises(UnknownNameError, match="solver"):
        allocator("max_min_fairness_perf", solver="glpk").allocate(view)
    with pytest.raises(ConfigError, match="this table has none"):
        allocator("max_min_fairness_packed").allocate(view)
    free = replace(
        view, cluster=Cluster(tuple(replace(kind, cost_per_hour=0.0) for kind in view.cluster.types))
    )
    with pytest.raises(ConfigError, match="'v100' has no cost_per_hour"):
        allocator("max_sum_throughput_normalized_by_cost_perf").allocate(free)
    with pytest.raises(ConfigError, match="choose one of: none, fairness, fifo"):
        allocator("hierarchical", within="luck")


@pytest.mark.parametrize("name", PROGRAMMES)
def test_devices_that_are_down_are_not_given_away(table: ThroughputTable, name: str) -> None:
    """All of k80 and all but one v100 fail: gangs that fit nowhere wait, and are named."""
    view = drawn(table, 25, 9, pairs=True)
    kind = view.cluster.server_type
    up = np.where(kind == view.cluster.column("k80"), 0, view.cluster.server_size)
    up = np.where(kind == view.cluster.column("v100"), 0, up)
    up[0] = 1
    view = replace(view, up=up)
    assert view.capacity.tolist() == [1, view.cluster.counts[1], 0]
    allocation = allocator(name).allocate(view)
    shares = allocation.shares
    used = view.scale @ shares
    if allocation.pairs is not None:
        used = used + view.scale[allocation.pairs.first] @ allocation.pairs.shares
    assert (used <= view.capacity + 1e-9).all()
    assert shares[~view.usable].max() == 0.0


def test_a_split_programme_is_feasible_and_not_far_off(table: ThroughputTable) -> None:
    view = drawn(table, 120, 8)
    whole = allocator("max_min_fairness_perf").allocate(view)
    parts = allocator("max_min_fairness_perf", split=4).allocate(view)
    assert violation(view, parts.shares) <= 1e-12
    assert parts.objective <= whole.objective * (1.0 + 1e-9)
    assert parts.objective >= 0.5 * whole.objective
    assert "4 parts" in parts.notes[0].text
