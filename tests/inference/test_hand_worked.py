"""Small cases worked out by hand: the numbers in the tests are the expectation, derived in the comments.

Each runs on the compiled engine and on its plain-Python twin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.reference import Rule
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests.inference.agreement import Short, run_short
from tests.inference.strategies import Case, ToyPlatform, layers, toy_table

inf = math.inf
both_engines = pytest.mark.parametrize("engine", ["reference", "kernel"])


def chain(name: str, count: int) -> DnnModel:
    return DnnModel(name, layers(count), tuple((i, i + 1) for i in range(count - 1)))


def case(
    models: list[DnnModel],
    latency_s: list[list[float]],
    requests: list[tuple[int, float, float]],
    type_of: Sequence[int],
    *,
    demand: list[list[float]] | None = None,
    bandwidth: float = inf,
    energy: list[list[float]] | None = None,
    slos: list[Slo | None] | None = None,
    priority: list[float] | None = None,
    after: list[int] | None = None,
    **options: Any,
) -> Case:
    """Requests are (model, arrival, relative deadline); tenant i uses model i; rows of costs per layer."""
    types = tuple(f"type{i}" for i in range(len(latency_s[0])))
    latency = np.array(latency_s)
    dram = (
        None
        if demand is None
        else np.where(np.isfinite(latency), np.array(demand) * np.nan_to_num(latency, posinf=0), 0)
    )
    pairs = tuple(
        Agreement(f"tenant{i}", model.name, slos[i] if slos else None, priority[i] if priority else 1.0)
        for i, model in enumerate(models)
    )
    table = RequestTable(
        pairs,
        np.array([r[0] for r in requests]),
        np.array([r[1] for r in requests]),
        np.array([r[2] for r in requests]),
        after=np.array(after) if after else np.empty(0, np.int64),
    )
    costs = toy_table(models, types, latency, dram, None if energy is None else np.array(energy))
    return Case(table, costs, ToyPlatform(types, np.array(type_of), bandwidth), EngineOptions(**options))


def assert_layers(run: Short, expected: list[tuple[int, int, int, float, float]]) -> None:
    assert [row[:3] for row in run.layers] == [row[:3] for row in expected]
    for row, wanted in zip(run.layers, expected, strict=True):
        assert row[3:] == pytest.approx(wanted[3:], rel=1e-12, abs=1e-12), f"{row} should be {wanted}"


@both_engines
def test_two_tenants_on_two_unlike_accelerators(engine: str) -> None:
    # Tenant 0's network A: layers of 2 s and 1 s on type 0, 4 s and 3 s on type 1. Tenant 1's B: 3 s / 2 s.
    # t=0: requests 0 (A, deadline 10) and 1 (B, deadline 4). EDF takes 1 first: its fastest idle is type 1, 0..2.
    #      Request 0 takes what is left, type 0, 0..2.
    # t=1: request 2 (B, deadline 4) finds nothing idle.
    # t=2: both end; layer 1 of request 0 becomes ready. Request 2 goes first: type 1, 2..4, just in time.
    #      Request 0 ends on type 0, 2..3.
    drawn = case([chain("A", 2), chain("B", 1)], [[2, 4], [1, 3], [3, 2]],
                 [(0, 0.0, 10.0), (1, 0.0, 4.0), (1, 1.0, 3.0)], [0, 1],
                 energy=[[5, 1], [7, 1], [1, 11]])  # fmt: skip
    run = run_short(engine, drawn, Rule("edf"))
    assert_layers(run, [(0, 0, 0, 0, 2), (1, 0, 1, 0, 2), (0, 1, 0, 2, 3), (2, 0, 1, 2, 4)])
    assert run.outcomes == ["hit", "hit", "hit"]
    assert run.finish_s == pytest.approx([3, 2, 4])
    assert run.energy_j == pytest.approx([12, 11, 11])


@both_engines
def test_parallel_branches_run_in_parallel(engine: str) -> None:
    # Diamond 0 -> {1, 2} -> 3 with 1, 3, 2 and 1 s on two equal accelerators: 1 and 2 overlap, 3 waits for both.
    diamond = DnnModel("diamond", layers(4), ((0, 1), (0, 2), (1, 3), (2, 3)))
    run = run_short(engine, case([diamond], [[1], [3], [2], [1]], [(0, 0.0, inf)], [0, 0]), Rule("fcfs"))
    assert_layers(run, [(0, 0, 0, 0, 1), (0, 1, 0, 1, 4), (0, 2, 1, 1, 3), (0, 3, 0, 4, 5)])


SHARED = {  # two layers that ask for 1 and 0.5 of a bandwidth of 1: P (2 s) from 0, Q (0.5 s) from 1 on
    # D = 1.5, both at 2/3: Q needs 0.75 s; P has 1 - 0.5 = 0.5 s left at 1.75, alone again.
    "proportional": (2.25, 1.75),
    # Q gets its 0.5 in full, P the other 0.5: Q ends at 1.5, P has 0.75 left.
    "max_min": (2.25, 1.5),
    # equal weights: cuts in proportion to the others' traffic, 0.5 * (0.25/0.75) = 1/6 of P's 1, 1/3 of Q's 0.5.
    # P runs at 5/6 and ends 1.2 s later; Q, at 1/3, has done 0.4 of 0.5 s by then and ends 0.1 s later.
    "weighted": (2.2, 2.3),
    "moca_literal": (2.2, 2.3),  # with two layers the same
    "roofline": (2.25, 1.5),  # the grants of max_min; both layers would be bound by memory
    "roofline_proportional": (2.25, 1.75),
    # half of B each at all times: P runs at 1/2 throughout, Q in full.
    "roofline_static": (4.0, 1.5),
    "none": (2.0, 1.5),
}


@both_engines
@pytest.mark.parametrize("contention", SHARED)
def test_bandwidth_sharing(engine: str, contention: str) -> None:
    drawn = case([chain("P", 1), chain("Q", 1)], [[2], [0.5]], [(0, 0.0, inf), (1, 1.0, inf)], [0, 0],
                 demand=[[1], [0.5]], bandwidth=1.0, contention=contention)  # fmt: skip
    assert run_short(engine, drawn, Rule("fcfs")).finish_s == pytest.approx(SHARED[contention])


@both_engines
def test_urgent_layers_keep_their_bandwidth_under_weighted_sharing(engine: str) -> None:
    # Two layers of 1 s asking for 1 each, B = 1. Deadlines none and 5: w = 0.5 and 0.5 + 10 * 1/5 = 2.5.
    # Cuts: 1 * 2.5/3 = 5/6 and 1/6; the floor lifts the first grant to 1/4, sum 13/12, all scaled by 12/13:
    # rates 3/13 and 10/13. The urgent one ends at 1.3, the other has 1 - 0.3 left and ends at 2.0.
    drawn = case([chain("P", 1), chain("Q", 1)], [[1], [1]], [(0, 0.0, inf), (1, 0.0, 5.0)], [0, 0],
                 demand=[[1], [1]], bandwidth=1.0, contention="weighted")  # fmt: skip
    assert run_short(engine, drawn, Rule("fcfs")).finish_s == pytest.approx([2.0, 1.3])


@both_engines
def test_eft_waits_for_the_fast_accelerator(engine: str) -> None:
    # Type 0 takes 2 s, type 1 takes 5 s. Request 1 arrives at 1: type 0 would end at 2 + 2 = 4 (1 + 2 = 3 s from
    # now), type 1 at 6. eft holds until 2; any_idle takes type 1 at once.
    drawn = case([chain("A", 1)], [[2, 5]], [(0, 0.0, inf), (0, 1.0, inf)], [0, 1])
    assert_layers(run_short(engine, drawn, Rule("fcfs", "eft")), [(0, 0, 0, 0, 2), (1, 0, 0, 2, 4)])
    assert_layers(run_short(engine, drawn, Rule("fcfs", "any_idle")), [(0, 0, 0, 0, 2), (1, 0, 1, 1, 6)])


@both_engines
def test_the_gate_holds_back_while_memory_is_full(engine: str) -> None:
    # Three layers of 1 s asking for 1 each, B = 1, three accelerators. Ungated, all end at 3. With g = 0.5 one
    # runs at a time, at full speed: 1, 2, 3.
    drawn = case([chain("A", 1)], [[1]], [(0, 0.0, inf)] * 3, [0, 0, 0], demand=[[1]], bandwidth=1.0,
                 contention="proportional")  # fmt: skip
    assert run_short(engine, drawn, Rule("fcfs")).finish_s == pytest.approx([3, 3, 3])
    assert run_short(engine, drawn, Rule("fcfs", gate=0.5)).finish_s == pytest.approx([1, 2, 3])


@both_engines
@pytest.mark.parametrize(
    ("late", "drop_when", "finish", "outcomes"),
    [
        # One accelerator, 2 s each. Deadlines: request 0 at 10, 1 at 3, 2 at 4.5; EDF starts 0 alone at 0.
        # From 2 on request 1 cannot make it (2 + 2 > 3); run: 1 goes 2..4, 2 goes 4..6.
        ("run", "hopeless", [2, 4, 6], ["hit", "late", "late"]),
        # last: 2 (2..4, on time) before 1 (4..6).
        ("last", "hopeless", [2, 6, 4], ["hit", "late", "hit"]),
        # drop when hopeless: 1 is given up at 3 - 2 = 1 (plus 1 ns of grace), 2 runs 2..4.
        ("drop", "hopeless", [2, 1, 4], ["hit", "dropped", "hit"]),
        # drop when expired: 1 runs 2..4 but is given up at 3; 2 expires at 4.5, started at 4, runs on to 6.
        ("drop", "expired", [2, 3, 4.5], ["hit", "dropped", "dropped"]),
    ],
)
def test_what_happens_to_late_requests(
    engine: str, late: str, drop_when: str, finish: list[float], outcomes: list[str]
) -> None:
    drawn = case([chain("A", 1)], [[2]], [(0, 0.0, 10.0), (0, 0.5, 2.5), (0, 0.5, 4.0)], [0],
                 late=late, drop_when=drop_when)  # fmt: skip
    run = run_short(engine, drawn, Rule("edf"))
    assert run.outcomes == outcomes
    assert run.finish_s == pytest.approx(finish, abs=1e-8)
    assert sum(end - start for *_, start, end in run.layers) == pytest.approx(2.0 * len(run.layers))


@both_engines
def test_period_wait_and_patch(engine: str) -> None:
    # T = 2; chain of two 1 s layers, arriving at 0.5. The tick at 2 starts layer 0, which ends at 3.
    # wait: layer 1 starts at the tick at 4. patch: it is bound at 3 and starts at once.
    drawn = {
        mode: case([chain("A", 2)], [[1], [1]], [(0, 0.5, inf)], [0], period_s=2.0, period_mode=mode)
        for mode in ("wait", "patch")
    }
    assert_layers(run_short(engine, drawn["wait"], Rule("fcfs")), [(0, 0, 0, 2, 3), (0, 1, 0, 4, 5)])
    # patch binds request 0 when it arrives, too
    assert_layers(run_short(engine, drawn["patch"], Rule("fcfs")), [(0, 0, 0, 0.5, 1.5), (0, 1, 0, 1.5, 2.5)])


@both_engines
def test_the_period_cap_takes_the_earliest_deadlines(engine: str) -> None:
    # Three requests at 0, cap 1 and T = 1: the tick at 0 queues request 2 (deadline 5), the tick at 1 request 1.
    drawn = case([chain("A", 1)], [[0.5]], [(0, 0.0, 9.0), (0, 0.0, 7.0), (0, 0.0, 5.0)], [0],
                 period_s=1.0, period_mode="wait", period_cap=1)  # fmt: skip
    assert run_short(engine, drawn, Rule("fcfs")).finish_s == pytest.approx([2.5, 1.5, 0.5])


@both_engines
def test_switching_requests_and_moving_cost_time(engine: str) -> None:
    # Switch cost 0.25. One accelerator, two chains of two 1 s layers, FCFS: request 0 runs through (no cost: the
    # accelerator never ran anything), request 1 pays once for the change: 2 + 1.25 + 1.
    drawn = case([chain("A", 2)], [[1], [1]], [(0, 0.0, inf), (0, 0.5, inf)], [0], switch_s=0.25)
    run = run_short(engine, drawn, Rule("fcfs"))
    assert_layers(run, [(0, 0, 0, 0, 1), (0, 1, 0, 1, 2), (1, 0, 0, 2, 3.25), (1, 1, 0, 3.25, 4.25)])
    # A layer that only type 1 can run: request 0 moves there and pays although nothing ran there before.
    moving = case([chain("A", 2)], [[1, inf], [inf, 1]], [(0, 0.0, inf)], [0, 1], switch_s=0.25)
    assert_layers(run_short(engine, moving, Rule("fcfs")), [(0, 0, 0, 0, 1), (0, 1, 1, 1, 2.25)])
    # The same with a cost of type 1 alone: 0.5 to come there, nothing to go.
    only = {"switch_s": {"type1": 0.5}}
    there = case([chain("A", 2)], [[1, inf], [inf, 1]], [(0, 0.0, inf)], [0, 1], **only)
    assert_layers(run_short(engine, there, Rule("fcfs")), [(0, 0, 0, 0, 1), (0, 1, 1, 1, 2.5)])
    back = case([chain("A", 2)], [[inf, 1], [1, inf]], [(0, 0.0, inf)], [0, 1], **only)
    assert_layers(run_short(engine, back, Rule("fcfs")), [(0, 0, 1, 0, 1), (0, 1, 0, 1, 2)])
    stranger = replace(drawn.options, switch_s={"gpu": 0.5})
    with pytest.raises(ConfigError, match="engine.switch_s names type 'gpu'; there are costs of: type0"):
        run_short(engine, replace(drawn, options=stranger), Rule("fcfs"))


@both_engines
def test_decision_time_is_charged_to_the_layers_it_starts(engine: str) -> None:
    # 0.1 s per round, one scheduler. Two accelerators, requests at 0 and 0.05. The round at 0 ends at 0.1: request 0
    # runs 0..1.1. The round at 0.05 ends at 0.2: request 1 pays 0.15 and ends at 1.2.
    drawn = case([chain("A", 1)], [[1]], [(0, 0.0, inf), (0, 0.05, inf)], [0, 0], decision_s=0.1)
    assert run_short(engine, drawn, Rule("fcfs")).finish_s == pytest.approx([1.1, 1.2])


@both_engines
def test_closed_loop_clients_think_then_send(engine: str) -> None:
    # Request 1 follows 0 after 0.5 s, request 2 follows 1, which is dropped as hopeless at once, without pause.
    drawn = case([chain("A", 1)], [[1]], [(0, 0.0, inf), (0, 0.5, 0.5), (0, 0.0, inf)], [0], after=[-1, 0, 1],
                 late="drop")  # fmt: skip
    run = run_short(engine, drawn, Rule("fcfs"))
    assert run.outcomes == ["hit", "dropped", "hit"]
    assert run.finish_s == pytest.approx([1.0, 1.5, 2.5], abs=1e-8)


@both_engines
def test_engine_applies_the_truth_and_rules_the_estimates(engine: str) -> None:
    # Truth: A 1 s, B 3 s. Believed: A 6 s (bias 6), B 3 s. SJF therefore serves B first.
    drawn = case([chain("A", 1), chain("B", 1)], [[1], [3]], [(0, 0.0, inf), (1, 0.0, inf)], [0],
                 estimator=Estimator("bias", bias={"A": 6.0}))  # fmt: skip
    assert_layers(run_short(engine, drawn, Rule("sjf")), [(1, 0, 0, 0, 3), (0, 0, 0, 3, 4)])


@both_engines
def test_indicators_are_windows_over_the_last_departures(engine: str) -> None:
    # One accelerator, 1 s each, deadlines met by requests 0 and 2, missed by 1. Window 2. Departures at 1, 2, 3;
    # the policy is asked at 0, 1, 2, 3 (when something waits): hit rates -, 1, 1/2, 1/2; gaps to 0.8.
    seen = []

    def watching(view: View) -> list[Assign]:
        seen.append(tuple(float(view.ready[0][name]) for name in ("sli", "gap", "sli_count")))
        return [view.assign(0, 0)]

    drawn = case([chain("A", 1)], [[1]], [(0, 0.0, 2.0), (0, 0.0, 1.5), (0, 0.0, 9.0), (0, 0.0, 9.0)], [0],
                 slos=[Slo(0.8, window_requests=2)], late="run")  # fmt: skip
    run_short(engine, drawn, watching)
    assert [s[2] for s in seen] == [0, 1, 2, 2]
    assert [s[0] for s in seen] == pytest.approx([math.nan, 1.0, 0.5, 0.5], nan_ok=True)
    assert [s[1] for s in seen] == pytest.approx([0.0, -0.2, 0.3, 0.3])


@both_engines
def test_learned_estimates_move_towards_what_was_seen(engine: str) -> None:
    # Two layers of 1 and 3 s: the prior of both is 2. After request 0 (alpha 1/2): 1.5 and 2.5.
    seen = []

    def watching(view: View) -> list[Assign]:
        seen.append(float(view.latency_s[0, 0]))
        return [view.assign(0, 0)]

    drawn = case([chain("A", 2)], [[1], [3]], [(0, 0.0, inf), (0, 5.0, inf)], [0],
                 estimator=Estimator("ewma", alpha=0.5))  # fmt: skip
    run_short(engine, drawn, watching)
    assert seen == pytest.approx([2.0, 2.0, 1.5, 2.5])


@both_engines
def test_closed_loops_that_send_within_the_tolerance(engine: str) -> None:
    # Requests 0 and 1 end at 1. Their successors are due at 1.5 + 1e-13 and 1.5: one instant, 1.5. Request 3 was due
    # first and takes the first accelerator.
    drawn = case([chain("A", 1)], [[1]], [(0, 0.0, inf), (0, 0.0, inf), (0, 0.5 + 1e-13, inf), (0, 0.5, inf)], [0, 0],
                 after=[-1, -1, 0, 1])  # fmt: skip
    run = run_short(engine, drawn, Rule("fcfs"))
    assert_layers(run, [(0, 0, 0, 0, 1), (1, 0, 1, 0, 1), (3, 0, 0, 1.5, 2.5), (2, 0, 1, 1.5, 2.5)])
