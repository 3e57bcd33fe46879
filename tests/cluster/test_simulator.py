"""The simulator: cases worked by hand, theory, and what must never happen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.forecast import Forecast, WithForecast
from eunomia.cluster.options import Estimates, Failures, Restart, SimulationOptions, Slowdown
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.solver import solve as solving
from eunomia.cluster.tabulate import facts_of, tables_of
from eunomia.contract.allocation import Allocation, ClusterView, Needs, PairShares
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.errors import ConfigError, PlatformError, PolicyError
from eunomia.core.records import conform
from eunomia.metrics.cluster import summarise_cluster
from tests.cluster.small import First, Shares, job, problem, table

FREE = SimulationOptions(slowdown=Slowdown("none"))
MODES = {
    "rounds": FREE,
    "at once": replace(FREE, events="at_once"),
    "ratio": replace(FREE, priority="ratio", min_gap_s=700.0, queue="per_type"),
    "gavel": SimulationOptions.gavel(),
    "ideal": SimulationOptions(mode="ideal"),
    "costly": SimulationOptions(restart=Restart(5.0, 6.0, 7.0, 50.0), placement="spread"),
    "failing": SimulationOptions(
        restart=Restart(5.0, 6.0, 7.0, 50.0), failures=Failures(2.0, 0.2, 1.0), estimates=Estimates("online", 0.3, 1.2)
    ),
}  # fmt: skip


def check_invariants(p: ClusterProblem, run: ClusterRun) -> None:
    """Jobs, steps and device time are conserved; nobody is given what is not there."""
    g = run.ledger
    finished = ~np.isnan(g.finish_s)
    assert finished.sum() + len(g.unfinished) + g.dropped.sum() == len(p)
    assert (g.steps_left[finished & ~g.dropped] == 0.0).all()
    assert (g.steps_left[g.unfinished] > 0.0).all()
    alone = p.total_steps / np.maximum(p.speed, p.spread_speed).max(axis=1)
    assert (g.finish_s - p.arrival_s >= alone * (1.0 - 1e-9))[finished].all()
    if run.options.mode != "ideal":
        tables = tables_of(run)
        leases = tables["leases"]
        span = leases["end_s"].to_numpy() - leases["start_s"].to_numpy()
        assert (span >= -1e-9).all()
        held = float((span * leases["devices"].to_numpy()).sum())
        assert held == pytest.approx(g.attained_s.sum(), rel=1e-6, abs=1e-6)
        for server, size in enumerate(p.cluster.server_size.tolist()):
            here = leases["server"].to_numpy() == server
            start, end = leases["start_s"].to_numpy()[here], leases["end_s"].to_numpy()[here]
            count = leases["devices"].to_numpy()[here]
            for moment in start:
                assert count[(start <= moment + 1e-9) & (end > moment + 1e-6)].sum() <= size
    if run.options.mode == "realistic":
        spent = g.useful_s.sum() + g.overhead_s.sum() + g.lost_s.sum()
        assert spent <= g.attained_s.sum() * (1.0 + 1e-6) + 1e-6
    if run.options.mode == "realistic" and run.options.slowdown.source == "none":
        assert spent == pytest.approx(g.attained_s.sum(), rel=1e-6)


@st.composite
def workloads(draw: st.DrawFn) -> ClusterProblem:
    count = draw(st.integers(1, 7))
    jobs = [
        job(
            str(n),
            draw(st.integers(1, 3000)),
            draw(st.sampled_from(["a", "b"])),
            draw(st.sampled_from([1, 1, 2, 4])),
            draw(st.sampled_from([0.0, 10.0, 500.0, 5000.0])),
            weight=draw(st.sampled_from([1.0, 3.0])),
        )
        for n in range(count)
    ]
    return problem(
        *jobs, fast=4, slow=draw(st.sampled_from([1, 4])), per_server=draw(st.sampled_from([1, 2, 4]))
    )


@pytest.mark.parametrize("mode", MODES)
@given(p=workloads(), shared=st.booleans())
@settings(max_examples=12)
def test_nothing_is_lost_in_any_mode(mode: str, p: ClusterProblem, shared: bool) -> None:
    policy = allocator("max_min_fairness_perf") if shared else First()
    run = simulate_cluster(p, policy, MODES[mode])
    check_invariants(p, run)
    assert not len(run.ledger.unfinished)


def test_what_failed_before_the_first_job_came_takes_no_job_with_it() -> None:
    """Such a failure once ended a lease at its own time, thousands of seconds before the lease began."""
    p = problem(job("x", 900.0, "a", 4, 5000.0), fast=4, slow=4, per_server=1)
    for seed in range(6):
        run = simulate_cluster(p, First(), replace(MODES["failing"], seed=seed))
        assert any(start_s < 5000.0 for _, start_s, _ in run.recorder.downtime)
        check_invariants(p, run)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_tables(mode: str) -> None:
    p = problem(*(job(str(n), 900 + 50 * n, "ab"[n % 2], 1 + n % 2, 40.0 * n) for n in range(8)))
    one, two = (simulate_cluster(p, allocator("max_min_fairness_perf"), MODES[mode]) for _ in range(2))
    for name, first in tables_of(one).items():
        second = tables_of(two)[name]
        assert conform(name, first).equals(conform(name, second))


def test_one_job_runs_at_its_own_speed() -> None:
    run = simulate_cluster(problem(job("x", 1000.0)), First(), FREE)
    assert run.ledger.finish_s.tolist() == [500.0]
    assert run.ledger.attained_s.tolist() == [[500.0, 0.0]]


def test_the_last_step_is_exact_to_its_fraction() -> None:
    run = simulate_cluster(problem(job("x", 1000.5)), Shares({0: (1.0, 0.0)}), FREE)
    assert run.ledger.finish_s[0] == pytest.approx(500.25)


def test_an_arrival_within_a_round_waits_for_its_end_unless_events_act_at_once() -> None:
    p = problem(job("x", 4000.0), job("y", 100.0, at=100.0), fast=2)
    waits = simulate_cluster(p, Shares(), FREE)
    acts = simulate_cluster(p, Shares(), replace(FREE, events="at_once"))
    assert waits.ledger.first_start_s[1] == 360.0
    assert acts.ledger.first_start_s[1] == 100.0


def test_whoever_stays_while_others_come_is_recorded_as_served() -> None:
    p = problem(job("x", 4000.0), job("y", 100.0, at=100.0), job("z", 100.0, at=130.0), fast=2)
    run = simulate_cluster(p, Shares(), replace(FREE, events="at_once"))
    tables = tables_of(run)
    leases = tables["leases"].to_pylist()
    ran: dict[tuple[float, str], bool] = {}
    for entry in tables["choices"].to_pylist():
        at = (entry["time_s"], entry["job"])
        ran[at] = ran.get(at, False) or entry["ran"]
    for (time_s, name), served in ran.items():
        assert served == any(
            lease["job"] == name and lease["start_s"] <= time_s < lease["end_s"] for lease in leases
        )


def test_a_policy_for_single_devices_names_the_job_that_wants_more() -> None:
    p = problem(job("x", 10.0), job("wide", 10.0, scale=2))
    with pytest.raises(PolicyError, match="policy 'allox' takes jobs of one device; job 'wide' needs 2"):
        simulate_cluster(p, allocator("allox"), FREE, "allox")


def test_a_turn_that_is_taken_away_costs_a_restart_and_a_kept_one_does_not() -> None:
    restart = Restart(save_s=10.0, load_s=20.0, warmup_s=5.0)
    options = replace(FREE, restart=restart, stickiness=0.0)
    p = problem(job("x", 2000.0), job("y", 2000.0), fast=1, slow=1)
    turns = simulate_cluster(p, Shares({0: (0.5, 0.0), 1: (0.5, 0.0)}), options)
    g = turns.ledger
    assert (g.preemptions + g.moves).sum() > 0
    resumed = (g.starts - 1) * restart.resume_s + restart.warmup_s
    assert g.overhead_s == pytest.approx(resumed)
    alone = simulate_cluster(problem(job("x", 2000.0)), Shares({0: (1.0, 0.0)}), options)
    assert alone.ledger.overhead_s.tolist() == [5.0]
    assert alone.ledger.finish_s.tolist() == [1005.0]


def test_stickiness_means_fewer_moves_for_the_same_shares() -> None:
    p = problem(job("x", 20000.0), job("y", 20000.0), fast=1, slow=1)
    shares = Shares({0: (0.5, 0.5), 1: (0.5, 0.5)})
    moves = [
        simulate_cluster(p, shares, replace(FREE, stickiness=s)).ledger.moves.sum() for s in (0.0, 1.0, 4.0)
    ]
    assert moves[0] > moves[1] > moves[2]


def test_being_spread_slows_a_job_down() -> None:
    p = problem(job("x", 800.0, scale=2), fast=4, slow=1, per_server=2)
    packed = simulate_cluster(p, First(), SimulationOptions())
    spread = simulate_cluster(p, First(), SimulationOptions(placement="spread"))
    levels = simulate_cluster(
        p, First(), SimulationOptions(placement="spread", slowdown=Slowdown("levels", 1.25, 2.0))
    )
    assert [r.ledger.finish_s[0] for r in (packed, spread, levels)] == pytest.approx([200.0, 400.0, 250.0])
    assert spread.ledger.useful_s[0] == pytest.approx(spread.ledger.attained_s.sum() / 2.0)


def test_a_crash_loses_what_came_after_the_last_checkpoint() -> None:
    p = problem(job("x", 8000.0), fast=1, slow=1)
    options = replace(FREE, failures=Failures(job_mtbf_h=0.5), restart=Restart(0.0, 0.0, 0.0, 600.0))
    g = simulate_cluster(p, Shares({0: (1.0, 0.0)}), options).ledger
    assert g.failures[0] > 0
    assert 0.0 < g.lost_s[0] < 600.0 * g.failures[0]
    none = simulate_cluster(
        p, Shares({0: (1.0, 0.0)}), replace(options, restart=Restart(0.0, 0.0, 0.0, None))
    ).ledger
    assert none.lost_s[0] > g.lost_s[0]


def test_a_server_that_is_down_serves_nobody() -> None:
    p = problem(*(job(str(n), 8000.0) for n in range(4)))
    run = simulate_cluster(p, First(), replace(FREE, failures=Failures(1.0, 0.5)))
    assert run.recorder.downtime
    leases = tables_of(run)["leases"]
    for server, start, end in run.recorder.downtime:
        here = leases["server"].to_numpy() == server
        overlap = np.minimum(leases["end_s"].to_numpy(), end) - np.maximum(
            leases["start_s"].to_numpy(), start
        )
        assert (overlap[here] <= 1e-6).all()


def test_failures_are_the_same_for_every_policy() -> None:
    p = problem(*(job(str(n), 8000.0) for n in range(4)))
    options = replace(FREE, failures=Failures(1.0, 0.5))
    one = simulate_cluster(p, First(), options).recorder.downtime
    two = simulate_cluster(p, Shares(), options).recorder.downtime
    common = min(len(one), len(two)) - 2
    assert one[:common] == two[:common]


def test_rounds_tend_to_the_ideal_as_they_shrink() -> None:
    p = problem(*(job(str(n), 3000.0, "ab"[n % 2]) for n in range(6)))
    ideal = simulate_cluster(
        p, allocator("max_min_fairness_perf"), SimulationOptions(mode="ideal")
    ).ledger.finish_s
    errors = []
    for round_s in (320.0, 40.0, 5.0):
        options = replace(FREE, round_s=round_s, stickiness=0.0)
        run = simulate_cluster(p, allocator("max_min_fairness_perf"), options)
        errors.append(np.abs(run.ledger.finish_s - ideal).max())
    assert errors[2] < 0.02 * ideal.max()
    assert errors[2] <= errors[1] <= errors[0]


def test_isolated_shares_in_ideal_mode_mean_rho_one() -> None:
    p = problem(*(job(str(n), 900.0 + 100 * n, at=30.0 * n) for n in range(5)))
    run = simulate_cluster(p, allocator("isolated"), SimulationOptions(mode="ideal"))
    metrics = summarise_cluster(tables_of(run), facts_of(run))
    assert metrics["rho_mean"] == pytest.approx(1.0)
    assert metrics["rho_max"] == pytest.approx(1.0)
    assert metrics["jain"] == pytest.approx(1.0)


def test_the_horizon_stops_and_reports_what_is_unfinished() -> None:
    p = problem(job("x", 1e6), job("y", 10.0), job("z", 10.0, at=5000.0))
    for options in (FREE, SimulationOptions(mode="ideal"), SimulationOptions.gavel()):
        run = simulate_cluster(p, Shares(), replace(options, horizon_s=3000.0))
        outcome = tables_of(run)["jobs"]["outcome"].to_pylist()
        assert outcome == ["unfinished", "finished", "unfinished"]


def test_jobs_that_the_policy_ignores_are_reported_and_do_not_hang_the_run() -> None:
    nothing = First()
    none = np.zeros((1, 2), np.int64)
    nothing.allocate = lambda view: Allocation(devices=none)  # type: ignore[method-assign]
    run = simulate_cluster(problem(job("x", 10.0)), nothing, FREE)
    assert len(run.ledger.unfinished) == 1
    assert any("gives nothing" in text for text in run.recorder.notes)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"shares": np.full((1, 2), 0.8)}, "sum to 1.6"),
        ({"shares": np.full((1, 2), np.nan)}, "job 'x' nan on 'fast'"),
        ({"shares": np.full((2, 2), 0.1)}, r"shape \(2, 2\)"),
        ({"devices": np.ones((1, 2), np.int64)}, "announced shares and gave none"),
    ],
)
def test_an_illegal_answer_is_named(answer: dict[str, np.ndarray], message: str) -> None:
    policy = Shares()
    policy.allocate = lambda view: Allocation(**answer)  # type: ignore[method-assign, arg-type]
    with pytest.raises(PolicyError, match=message):
        simulate_cluster(problem(job("x", 10.0)), policy, FREE, "mine")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([[9, 0]], "gave job 'x' 9 devices; it runs on 1"),
        ([[1, 1]], "on several types"),
    ],
)
def test_illegal_devices_are_named(devices: list[list[int]], message: str) -> None:
    policy = First()
    policy.allocate = lambda view: Allocation(devices=np.array(devices))  # type: ignore[method-assign]
    with pytest.raises(PolicyError, match=message):
        simulate_cluster(problem(job("x", 10.0)), policy, FREE, "mine")


@pytest.mark.parametrize("how", ["slowest", "uneven"])
def test_a_gang_over_types_runs_where_no_single_type_has_room(how: str) -> None:
    jobs = [job("x", 1200.0, "b", scale=4)]
    cluster = Cluster.of({"fast": 2, "slow": 2}, 2)
    with pytest.raises(PlatformError, match="can run nowhere"):
        build_problem(jobs, cluster, table())
    p = build_problem(jobs, cluster, table(), cross_type=True)
    run = simulate_cluster(p, Shares(), replace(FREE, cross_type=how))  # type: ignore[arg-type]
    rate = {"slowest": 4.0, "uneven": (2 * 16.0 + 2 * 4.0) / 4}[how]
    assert run.ledger.finish_s[0] == pytest.approx(1200.0 / rate)
    assert run.ledger.attained_s[0].tolist() == pytest.approx([2 * 1200.0 / rate] * 2)


def test_speeds_that_were_not_measured_when_spread_are_told() -> None:
    jobs, cluster = (
        [job("x", 10.0, scale=2), job("y", 10.0, "b", scale=2)],
        Cluster.of({"fast": 2, "slow": 2}, 1),
    )
    whole = table()
    assert whole.spread is not None
    spread = whole.spread.copy()
    spread[whole.keys.index(("a", 2)), 1] = np.nan
    for known, said in (
        (whole, None),
        (replace(whole, spread=spread), "1 of 4 "),
        (replace(whole, spread=None), "4 of 4 "),
    ):
        p = build_problem(jobs, cluster, known)
        notes = [t for t in simulate_cluster(p, First()).recorder.notes if "not measured" in t]
        assert [text[: len(said or "")] for text in notes] == ([] if said is None else [said])
        assert not simulate_cluster(p, First(), FREE).recorder.notes  # nothing is slower when spread


def test_solvers_are_warmed_up_before_answers_are_timed() -> None:
    called: list[str] = []

    class Slow(Shares):
        def warm_up(self) -> None:
            called.append("warm up")

        def allocate(self, view: ClusterView) -> Allocation:
            called.append("answer")
            return super().allocate(view)

    simulate_cluster(problem(job("x", 10.0)), Slow(), FREE)
    assert called[:2] == ["warm up", "answer"] and called.count("warm up") == 1
    policy = allocator("max_min_fairness_packed")
    before = solving.warm_up.cache_info().misses
    simulate_cluster(problem(job("x", 10.0)), policy, FREE)
    simulate_cluster(problem(job("x", 10.0)), policy, FREE)
    assert solving.warm_up.cache_info().misses <= before + 1  # once per process


def test_a_gang_over_types_stays_while_others_come_and_go() -> None:
    # x holds all four devices: 10 s of warm-up, then 1200 steps at 4 steps/s, within the first round of 360 s;
    # whoever arrives meanwhile waits
    jobs = [job("x", 1200.0, "b", scale=4)] + [job(f"y{i}", 100.0, "a", 1, 50.0 + 100 * i) for i in range(3)]
    p = build_problem(jobs, Cluster.of({"fast": 2, "slow": 2}, 2), table(), cross_type=True)
    options = replace(FREE, cross_type="slowest", events="at_once", restart=Restart(10.0, 10.0, 10.0))
    run = simulate_cluster(p, Shares(), options)
    assert run.ledger.finish_s[0] == pytest.approx(10.0 + 1200.0 / 4.0)
    assert (run.ledger.preemptions[0], run.ledger.moves[0], run.ledger.starts[0]) == (0, 0, 1)
    choices = [row for row in tables_of(run)["choices"].to_pylist() if row["job"] == "x"]
    assert {row["time_s"] for row in choices} == {0.0, 50.0, 150.0, 250.0}
    assert all(row["ran"] for row in choices)  # on both types, at every point


def test_a_gang_over_types_keeps_its_servers_beside_newcomers() -> None:
    # servers of one device: x has 4 of the 6; newcomers take turns on the others and must not push it from its own
    jobs = [job("x", 6000.0, "b", scale=4)] + [job(f"y{i}", 30.0, "a", 1, 20.0 + 40 * i) for i in range(6)]
    p = build_problem(jobs, Cluster.of({"fast": 3, "slow": 3}, 1), table(), cross_type=True)
    options = replace(FREE, cross_type="slowest", events="at_once", restart=Restart(10.0, 10.0, 10.0))
    run = simulate_cluster(p, Shares(), replace(options, horizon_s=350.0))
    assert run.ledger.starts[0] == 1
    assert run.ledger.attained_s[0].sum() == pytest.approx(4 * 350.0)
    assert np.isfinite(run.ledger.finish_s[1:]).all()


def test_a_split_model_runs_only_where_its_parts_fit() -> None:
    cluster = Cluster((DeviceType("fast", 4, memory_gib=16.0), DeviceType("slow", 4, memory_gib=80.0)))
    model = {"model_gib": 60.0}
    p = build_problem(
        [job("x", 10.0, scale=2, traits=model), job("y", 10.0, scale=4, traits=model)], cluster, table()
    )
    assert (p.speed > 0.0).tolist() == [[False, True], [True, True]]
    small = Cluster((DeviceType("fast", 4, memory_gib=16.0), DeviceType("slow", 4, memory_gib=24.0)))
    with pytest.raises(PlatformError, match=r"job 'x' .* needs 30 GiB per worker and fits on no device type"):
        build_problem([job("x", 10.0, scale=2, traits=model)], small, table())


class Together:
    """Two jobs on the same devices."""

    needs = Needs(pairs=True)

    def reset(self, seed: int) -> None:
        pass

    def allocate(self, view: ClusterView) -> Allocation:
        shares = np.zeros(view.throughput.shape)
        if len(view) < 2:
            shares[:, 0] = 1.0
            return Allocation(shares=shares)
        one, two = np.array([0]), np.array([1])
        pair = PairShares(one, two, np.array([[1.0, 0.0]]), view.pair_speed(one, two))
        return Allocation(shares=shares, pairs=pair)


@pytest.mark.parametrize("mode", ["rounds", "ideal"])
def test_a_pair_shares_its_devices_and_the_one_left_goes_on_alone(mode: str) -> None:
    p = problem(job("x", 720.0), job("y", 1440.0), fast=1, slow=1)
    g = simulate_cluster(p, Together(), MODES[mode]).ledger
    assert g.finish_s[0] == pytest.approx(600.0)  # 1.2 steps/s beside the other
    assert g.finish_s[1] == pytest.approx(600.0 + 720.0 / 2.0)


def test_a_forecast_leaves_room_for_those_who_are_expected() -> None:
    p = problem(job("x", 4000.0), fast=1, slow=1)
    forecast = WithForecast(allocator("isolated"), Forecast(3, "a"), p)
    run = simulate_cluster(p, forecast, SimulationOptions(mode="ideal"))
    alone = simulate_cluster(p, allocator("isolated"), SimulationOptions(mode="ideal"))
    assert run.ledger.finish_s[0] > 1.9 * alone.ledger.finish_s[0]
    with pytest.raises(ConfigError, match="shares of single jobs"):
        WithForecast(First(), Forecast(3, "a"), p)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"round_s": 0.0}, "round_s is 0.0"),
        ({"drop_rule": True}, "drop_rule belongs to Gavel"),
        ({"horizon_s": -1.0}, "horizon_s is -1.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SimulationOptions(**options)  # type: ignore[arg-type]


def test_no_jobs_and_weights_of_nobody_are_refused() -> None:
    with pytest.raises(ConfigError, match="no jobs"):
        problem()
    with pytest.raises(ConfigError, match="weight is given for tenant 'z'"):
        build_problem([job("x", 1.0)], Cluster.of({"fast": 1, "slow": 1}), table(), {"z": 1.0})


def test_a_newcomer_never_takes_the_devices_of_a_job_that_is_not_moved() -> None:
    """x stands alone on the first server. Before, a gang of two took it and x moved, though drf moves nobody."""
    p = problem(job("x", 1000.0), job("gang", 100.0, scale=2, at=10.0), fast=4, slow=1)
    ledger = simulate_cluster(p, allocator("drf"), SimulationOptions(restart=Restart(5.0, 6.0, 7.0))).ledger
    assert ledger.moves.tolist() == [0, 0] and ledger.starts.tolist() == [1, 1]
