"""Blocks of layers by hand."""

import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies.veltair import veltair
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.strategies import Case, EngineOptions, ToyPlatform, layers, np, toy_table


def two_chains(switch_s: float) -> Case:
    """Request 0: four layers of 1 s from 0 on, deadline 20. Request 1: the same from 0.5 on, deadline 10. One lane."""
    chain = DnnModel("chain", layers(4), ((0, 1), (1, 2), (2, 3)))
    requests = RequestTable(
        (Agreement("t", "chain"),), np.zeros(2, int), np.array([0.0, 0.5]), np.array([20.0, 9.5])
    )
    table = toy_table([chain], ("a",), np.ones((4, 1)))
    return Case(requests, table, ToyPlatform(("a",), np.array([0])), EngineOptions(switch_s=switch_s))


@pytest.mark.parametrize(
    ("size", "order"),
    [
        (1, [0, 1, 1, 1, 1, 0, 0, 0]),  # earliest deadline first at every layer: request 1 takes over at 1
        (2, [0, 0, 1, 1, 1, 1, 0, 0]),  # the block of two ends at 2; request 1 wins both of its blocks
        (4, [0, 0, 0, 0, 1, 1, 1, 1]),  # whole networks: the deadline of 10 is met at 8 nevertheless
    ],
)
def test_a_block_is_not_interrupted(size: int, order: list[int]) -> None:
    case = two_chains(0.0)
    run = simulate_problem(case.problem(), veltair(size), case.options).subjobs
    assert run["request"].tolist() == order
    assert run["end_s"].tolist() == pytest.approx(range(1, 9))


@pytest.mark.parametrize(("size", "end_s"), [(1, 9.0), (4, 8.5)])
def test_fewer_switches_cost_less(size: int, end_s: float) -> None:
    # 0.5 s per change of request: 0 -> 1 -> 0 twice, 0 -> 1 once.
    case = two_chains(0.5)
    assert simulate_problem(case.problem(), veltair(size), case.options).end_s == pytest.approx(end_s)


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="block has 0 layers"):
        veltair(0)
