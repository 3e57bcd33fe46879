"""Shockwave: the division of a window by hand and against every other, its turns, and a trace that we did not make."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cluster.scenes import trace_a
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.shockwave import Shockwave
from eunomia.cluster.policies.shockwave_plan import Market, divide
from eunomia.cluster.problem import build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of
from tests.shared_data import shared

ONE = Cluster.of({"gpu": 1})


def _market(rounds: int, devices: int, **of_jobs: list[float]) -> Market:
    """``done``, ``need`` and, unless all are alike, ``scale`` and ``budget``."""
    jobs = len(of_jobs["need"])
    whole = {name: np.array(of_jobs.get(name, [1] * jobs), np.int64) for name in ("scale", "need")}
    parts = {name: np.array(of_jobs.get(name, [1.0] * jobs)) for name in ("done", "budget")}
    return Market(rounds, devices, whole["scale"], parts["done"], whole["need"], parts["budget"], 0.0)


def test_who_ran_less_gets_more() -> None:
    """One device, 4 rounds. Done 3 and 0: a round is worth ln(5/4) = 0.223 to the first, to the second 0.693, 0.405,
    0.288 and then 0.223, too: it gets three, the tie goes to the first."""
    assert divide(_market(4, 1, done=[3.0, 0.0], need=[9, 9])).tolist() == [1, 3]


def test_budgets_are_shares() -> None:
    """Twice the budget: 1.386, 0.811, 0.575 against 0.693: three rounds go 2 to 1."""
    assert divide(_market(3, 1, done=[0.0, 0.0], need=[9, 9], budget=[2.0, 1.0])).tolist() == [2, 1]


def test_nobody_gets_more_than_it_needs() -> None:
    assert divide(_market(5, 1, done=[0.0, 0.0], need=[1, 9])).tolist() == [1, 4]


@pytest.mark.parametrize(("price", "rounds"), [(0.0, [2, 2]), (0.2, [3, 1]), (10.0, [4, 0])])
def test_the_longest_job_is_helped_at_a_price(price: float, rounds: list[int]) -> None:
    """One device, 4 rounds, 10 and 2 needed. From 2 + 2 a round more for the long one costs ln(3/2) - ln(4/3) = 0.118
    of welfare, the next ln(2) - ln(5/4) = 0.47; each saves one round of makespan."""
    market = Market(4, 1, np.ones(2, np.int64), np.zeros(2), np.array([10, 2]), np.ones(2), price)
    assert divide(market).tolist() == rounds


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), gangs=st.booleans(), priced=st.booleans())
def test_no_other_division_is_better(seed: int, gangs: bool, priced: bool) -> None:
    """Every division of a small window. Unequal gangs: not better by more than the gain of the largest round."""
    rng = np.random.default_rng(seed)
    jobs, rounds, devices = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    scale = rng.integers(1, 3, jobs) if gangs else np.full(jobs, int(rng.integers(1, 3)))
    done, need, budget = rng.uniform(0.0, 9.0, jobs), rng.integers(1, 9, jobs), rng.uniform(0.2, 3.0, jobs)
    market = Market(rounds, devices, scale, done, need, budget, float(rng.uniform(0.0, 0.5)) * priced)
    found = divide(market)
    assert (found <= market.most).all() and market.used(found) <= rounds * devices
    every = itertools.product(*(range(most + 1) for most in market.most.tolist()))
    best = max(
        market.utility(np.array(one)) for one in every if market.used(np.array(one)) <= rounds * devices
    )
    lost = float((budget * np.log(2.0)).max()) + market.makespan_price if gangs else 1e-9
    assert market.utility(found) >= best - lost


def test_turns_are_whole_and_follow_the_plan() -> None:
    """Two equal jobs, one device, 4 rounds of 100 s: two rounds each, and nobody is moved in between."""
    policy, ran = Shockwave(rounds=4, round_s=100.0, makespan_price=0.0), []
    policy.reset(0)
    for now in range(4):
        left = [1000.0 - 100.0 * ran.count(m) for m in range(2)]
        held = [(ran[-1], 0, 1)] if ran else []
        view = view_of(ONE, [[1.0], [1.0]], left, total=[1000.0] * 2, now_s=100.0 * now, holdings=held)
        answer = policy.allocate(view)
        check_legal(view, answer)
        assert answer.devices is not None
        ran.append(int(answer.devices[:, 0].argmax()))
        waits = 1 - ran[-1]
        assert "in the plan" in answer.reasons[waits] and not answer.reasons[ran[-1]]
    assert ran == [0, 0, 1, 1]


def test_a_short_job_is_not_put_off_by_every_new_plan() -> None:
    """One device, rounds of 100 s, a job of 1,000 s every round. The one of 200 s gets few rounds of each window: by
    least slack it would run last in each, and each arrival makes a new window."""
    speeds = ThroughputTable((("m", 1),), ("gpu",), np.array([[1.0]]), source="by hand")
    jobs = [TrainingJob(str(n), "m", 1000.0, arrival_s=100.0 * n) for n in range(20)]
    jobs.append(TrainingJob("short", "m", 200.0, arrival_s=50.0))
    problem = build_problem(jobs, ONE, speeds)
    policy = Shockwave(round_s=100.0)
    run = simulate_cluster(problem, policy, SimulationOptions(round_s=100.0, record="jobs"), "shockwave")
    assert run.ledger.finish_s[[job.job_id for job in problem.jobs].index("short")] <= 1000.0


def test_a_turn_lasts_a_round() -> None:
    """Two jobs of 90 s on one device, the second of which has waited for 1,000 s: it waits for the end of the turn."""
    policy = Shockwave(round_s=100.0)
    policy.reset(0)
    assert policy.allocate(view_of(ONE, [[1.0]], [90.0], now_s=1000.0)).devices.tolist() == [[1]]  # type: ignore[union-attr]
    for now_s, runs in ((1030.0, [[1], [0]]), (1100.0, [[0], [1]])):
        view = view_of(
            ONE, [[1.0]] * 2, [60.0, 90.0], total=[90.0] * 2, now_s=now_s, arrival_s=[1000.0, 30.0],
            holdings=[(0, 0, 1)],
        )  # fmt: skip
        assert policy.allocate(view).devices.tolist() == runs  # type: ignore[union-attr]


def test_who_is_late_has_a_larger_budget() -> None:
    """Both have 100 s left at an equal share; the one that waited 100 s already has rho 2, the other 1."""
    view = view_of(ONE, [[1.0], [1.0]], [50.0, 50.0], now_s=100.0, arrival_s=[0.0, 100.0])
    budget = Shockwave(power=5.0).market(view).budget
    assert budget[0] / budget[1] == pytest.approx(2.0**5)
    assert Shockwave(power=0.0).market(view).budget.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [({"rounds": 0}, "0 rounds"), ({"round_s": 0.0}, "of 0 s"), ({"power": -1.0}, "power is -1"),
     ({"makespan_price": np.inf}, "makespan_price is inf"), ({"window": 3}, "unknown setting 'window'")],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(given: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        allocator("shockwave", **given)


def test_on_gavels_trace_everybody_ends_and_nobody_is_starved() -> None:
    """Trace A under the defaults: all 60 jobs end, the worst rho stays below that of first come, first served."""
    shared("gavel/trace_a_60jobs.trace")
    problem, worst = trace_a(), {}
    for name in ("shockwave", "fifo"):
        run = simulate_cluster(problem, allocator(name), SimulationOptions(record="jobs"), name)
        assert not np.isnan(run.ledger.finish_s).any()
        worst[name] = float(((run.ledger.finish_s - problem.arrival_s) / run.ledger.isolated_s).max())
    assert worst["shockwave"] < worst["fifo"]
