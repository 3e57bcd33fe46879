"""The property suites once more, with every index of compiled code checked (NUMBA_BOUNDSCHECK=1), in a child process.

The child runs what is below with the checks on, and the suites named in SUITES with few examples (profile "bounds").
Its machine code is compiled without optimisation, which takes 44 s of processor time instead of 72, and not kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import item_at, link, table_fields
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies.compiled import Compiled
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests import children
from tests.inference.graphs import chain, dense, fan, open_fan
from tests.inference.strategies import ToyPlatform, toy_table
from tests.learning.distill.test_rules import random_rules
from tests.learning.test_policy import random_weights

SUITES = (
    "tests/inference/test_bounds.py",
    "tests/inference/test_engine_vs_reference.py",
    "tests/inference/lookahead/test_lookahead.py::test_legal_and_deterministic",
    "tests/inference/lookahead/test_wide_joins.py::test_requests_enter_a_snapshot_whole_or_not_at_all",
    "tests/learning/test_policy.py::test_any_weights_give_legal_schedules_compiled_and_stepped_alike",
    "tests/learning/distill/test_rules.py::test_compiled_stepped_and_plain_decide_alike",
)
CHECKED = bool(numba.config.BOUNDSCHECK)
checked = pytest.mark.skipif(not CHECKED, reason="run in the child process, with bounds checks")


@pytest.mark.skipif(CHECKED, reason="starts the child process")
def test_no_index_leaves_its_array() -> None:
    plain = {name: "" for name in os.environ if name.startswith(("PYTEST_", "COV_"))}
    child = children.run(
        children.python(
            "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-W", "ignore:Cannot cache compiled function", *SUITES,
        ),
        cwd=children.ROOT, timeout=None,  # it compiles for minutes
        env={**plain, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "HYPOTHESIS_PROFILE": "bounds"},
    )  # fmt: skip
    assert child.returncode == 0, child.stdout + child.stderr
    assert "1 skipped" in child.stdout and "failed" not in child.stdout


# --- do the checks bite? ---

TABLE = np.dtype(table_fields(["numbers"]))
NUMBER = np.dtype([("value", "f8")])
number_at = item_at(TABLE, "numbers", NUMBER)
WRITES = numba.void(numba.float64[::1], numba.int64)


def write(numbers: Any, i: int) -> None:
    numbers[i] = 7.0


def write_grid(numbers: Any, i: int) -> None:
    numbers.reshape((2, 2))[0, i] = 7.0


@checked
@pytest.mark.parametrize("function", [write, write_grid])
@pytest.mark.parametrize("i", [-1, -2, 4, 1 << 40])
def test_planted_writes_to_arrays_are_caught(function: Callable[..., None], i: int) -> None:
    numbers = np.zeros(4)
    with pytest.raises(IndexError, match="out of bounds"):
        compile_cached(function, WRITES, function.__name__)(numbers, i)
    assert not numbers.any()


@checked
@pytest.mark.parametrize("i", [-1, 4, 1 << 40])
def test_planted_writes_to_items_are_caught(i: int) -> None:
    @numba.njit(error_model="numpy")  # type: ignore[misc]
    def write_item(tables: Any, i: int) -> None:
        number_at(tables[0], i).value = 7.0

    table, numbers = np.zeros(1, TABLE), np.zeros(4, NUMBER)
    link(table, {"numbers": numbers})
    with pytest.raises(IndexError, match="index beyond the items of 'numbers'"):
        write_item(table, i)
    write_item(table, 3)
    assert numbers["value"].tolist() == [0.0, 0.0, 0.0, 7.0]


def astray(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """A policy that takes 'no accelerator' for one."""
    answer[0, 0], answer[0, 1] = 0, accelerators[-1 - len(ready)].type
    return 1


@checked
def test_a_fault_in_a_policy_reaches_the_caller_of_the_engine() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        simulate_problem(crowd(chain("chain", 3)), Compiled(astray, "astray"), OPTIONS)


@checked
def test_constants_of_a_view_are_checked() -> None:
    @numba.njit(error_model="numpy")  # type: ignore[misc]
    def read(systems: Any, i: int) -> float:
        return systems[0].memory[i]  # type: ignore[no-any-return]

    for i in (-1, 64):
        with pytest.raises(IndexError, match="out of bounds"):
            read(np.zeros(1, SYSTEM), i)


# --- networks whose shape strains the memory ---

OPTIONS = EngineOptions(late="drop")
NETS = (
    dense("dense", (3, 26)), fan("fan", 40), open_fan("open", 30), chain("long", 3000), chain("single", 1),
)  # fmt: skip
POLICIES = (
    "edf", "edf+f+eft+g0.9", "laxity_ratio", "least_loaded", "throttled",
    "lookahead(futures=1,budget_us=60)", "lookahead(charge=true,budget_us=60)",
)  # fmt: skip


def crowd(net: DnnModel) -> Problem:
    """Twelve requests of the network and of a single layer, half of which are too late before they are done."""
    nets = [net, chain("tiny", 1)]
    rows = sum(len(one.layers) for one in nets)
    rng = np.random.default_rng(5)
    table = toy_table(
        nets, ("type0", "type1"), rng.uniform(0.5, 2.0, (rows, 2)), rng.uniform(0.1, 1.0, (rows, 2))
    )
    pairs = tuple(Agreement(one.name, one.name, Slo(0.9, window_requests=3)) for one in nets)
    work = float(len(net.layers))
    requests = RequestTable(
        pairs, np.arange(12) % 2, np.sort(rng.uniform(0.0, work, 12)), rng.uniform(0.5, 8.0, 12) * work
    )
    platform = ToyPlatform(("type0", "type1"), np.array([0, 1, 0]), 1.5, "proportional")
    return build_problem(requests, table, platform, OPTIONS)


@checked
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_all_kinds_of_policy_on_strained_memory(net: DnnModel) -> None:
    from eunomia.learning.distill.policy import RulePolicy
    from eunomia.learning.policy.learned import LearnedPolicy

    learned = [LearnedPolicy(random_weights(3, "pointer")), RulePolicy(random_rules(3, "eft"))]
    for policy in (*POLICIES, *learned):
        outcome = simulate_problem(crowd(net), policy, OPTIONS)
        assert np.isin(outcome.results["outcome"], (0, 1, 2)).all(), policy
    period = EngineOptions(late="drop", period_s=2.0)
    for policy in ("edf", "lookahead(budget_us=60)"):
        assert np.isin(simulate_problem(crowd(net), policy, period).results["outcome"], (0, 1, 2)).all(), (
            policy
        )
