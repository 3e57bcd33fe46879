"""Driving the engine: horizons, measured decision time, learned estimates in the records, interruption."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, PolicyError
from eunomia.hardware.table import CostTable
from eunomia.inference import reference
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests import children
from tests.inference.strategies import ToyPlatform
from tests.patience import PATIENCE_S


def one_model(seconds: list[list[float]]) -> CostTable:
    """A chain whose layer i takes seconds[i][type] and moves no data."""
    compute = np.array(seconds)
    chain = DnnModel.chain("net", [Layer(f"layer{i}", "elementwise") for i in range(len(compute))])
    types = tuple(f"type{i}" for i in range(compute.shape[1]))
    zero = np.zeros_like(compute)
    return CostTable((chain,), types, compute, zero, zero, zero, np.ones(len(types)))


def requests(arrival_s: list[float], deadline_s: float = 10.0) -> RequestTable:
    n = len(arrival_s)
    agreement = Agreement("tenant", "net")
    return RequestTable((agreement,), np.zeros(n, np.int64), np.array(arrival_s), np.full(n, deadline_s))


ONE = ToyPlatform(("type0",), np.array([0]), 1.0)


def hold(view):
    return []


def test_a_policy_that_holds_ends_at_the_horizon():
    options = EngineOptions(contention="none", horizon_s=5.0)
    table, work = one_model([[1.0]]), requests([0.0])
    result = simulate(work, table, ONE, hold, options)
    assert result.end_s == 5.0
    assert result.tables["requests"]["outcome"].to_pylist() == ["unfinished"]
    twin = reference.simulate(build_problem(work, table, ONE, options), hold, options)
    assert twin.now_s == 5.0


def test_a_policy_that_holds_for_ever_is_told_so():
    with pytest.raises(PolicyError, match="holds 1 ready sub-jobs at 0.000000 s while everything is idle"):
        simulate(requests([0.0]), one_model([[1.0]]), ONE, hold, EngineOptions(contention="none"))


class Watch:
    """Stands in for the module ``time``: every look at it takes 1/64 s, and a first answer 10 s to compile."""

    def __init__(self):
        self.now_s, self.answers = 0.0, 0

    def perf_counter(self):
        self.now_s += 1.0 / 64.0
        return self.now_s

    def first_idle(self, view):
        self.now_s += 0.0 if self.answers else 10.0
        self.answers += 1
        return [view.assign(0, 0)]


@pytest.mark.parametrize("policy", ["edf", "first_idle"])
def test_measured_decision_time_is_charged_without_the_first_compilation(monkeypatch, policy):
    watch = Watch()
    monkeypatch.setattr("eunomia.inference.simulate.time", watch)
    chosen = getattr(watch, policy, policy)
    work, table = requests([0.0, 0.5, 1.0]), one_model([[1.0], [1.0]])
    assert simulate(work, table, ONE, chosen, EngineOptions(contention="none")).end_s == 6.0
    watch.answers = 0
    charged = simulate(work, table, ONE, chosen, EngineOptions(contention="none", charge_measured=True))
    assert list(charged.decision_wall_s) == [1.0 / 64.0] * 6
    assert charged.end_s == 6.0 + 6.0 / 64.0


def test_records_hold_the_estimates_as_they_were_at_the_end():
    estimator = Estimator(mode="ewma", alpha=0.5)
    options = EngineOptions(contention="none", estimator=estimator)
    costs = simulate(requests([0.0]), one_model([[1.0], [3.0]]), ONE, "edf", options).tables["costs"]
    assert costs["latency_s"].to_pylist() == [1.0, 3.0]
    assert costs["estimate_s"].to_pylist() == [1.5, 2.5]  # prior 2.0, half-way to what was seen


def test_negative_priorities_are_refused():
    with pytest.raises(ConfigError, match=r"priority -1.0; it must be finite and >= 0"):
        RequestTable(
            (Agreement("t", "net"),), np.zeros(1, np.int64), np.zeros(1), np.ones(1), np.array([-1.0])
        )


def test_tiny_periods_are_refused():
    with pytest.raises(ConfigError, match="period_s is 1e-12; it must be at least 1e-9"):
        EngineOptions(period_s=1e-12)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_reaches_a_run_inside_compiled_code():
    """10 s of ticks at 1 ns: hours of work without an event that returns to Python."""
    program = textwrap.dedent("""
        import sys
        from tests.inference.test_simulate import ONE, one_model, requests
        from eunomia.inference.options import EngineOptions
        from eunomia.inference.simulate import simulate
        simulate(requests([0.0]), one_model([[1.0]]), ONE, "edf", EngineOptions(period_s=1.0))
        print("ready", flush=True)
        options = EngineOptions(period_s=1e-9, period_mode="wait")
        simulate(requests([0.0, 0.0], 100.0), one_model([[10.0], [1.0]]), ONE, "edf", options)
    """)
    with children.started(children.python("-c", program), stdout=subprocess.PIPE) as child:
        assert children.first_line(child) == "ready"
        children.interrupt(child)
        assert child.wait(PATIENCE_S) == -signal.SIGINT


@pytest.mark.parametrize("place", ["any_idle", "first_idle", "pref", "eft"])
def test_more_accelerators_than_bits_in_a_word(place):
    lanes = 70
    many = ToyPlatform(("type0",), np.zeros(lanes, np.int64), 1.0)
    work, table, options = requests([0.0] * (lanes + 1)), one_model([[1.0]]), EngineOptions(contention="none")
    result = simulate(work, table, many, Greedy("fcfs", place), options)
    rows = result.tables["subjobs"].to_pylist()
    assert sorted(row["accelerator"] for row in rows[:lanes]) == list(range(lanes))
    assert [row["end_s"] for row in rows] == [1.0] * lanes + [2.0]
