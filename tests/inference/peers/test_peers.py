"""The peers of the speed benchmark simulate the same thing as the reference engine."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from benchmarks import synthetic
from eunomia.inference import reference
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from tests.inference.peers import heapq_engine, saturated_engine
from tests.inference.peers.work import plain_work

simpy_engine = pytest.importorskip("tests.inference.peers.simpy_engine", reason="simpy is not installed")


@pytest.fixture(scope="module")
def problem() -> tuple[Any, Any, Any]:
    """Costs and requests of the benchmark's synthetic networks, and what the reference makes of them."""
    table = synthetic.cost_table(synthetic.networks(branching=False))
    requests = synthetic.closed_loop(table, 80)
    options = EngineOptions(late="run")
    built = build_problem(requests, table, synthetic.Platform(), options)
    return table, requests, reference.simulate(built, reference.Rule("edf"), options)


@pytest.mark.parametrize("peer", [heapq_engine, saturated_engine, simpy_engine])
def test_peers_finish_every_request_when_the_reference_does(
    peer: ModuleType, problem: tuple[Any, Any, Any]
) -> None:
    table, requests, expected = problem
    events, end_s, finish_s = peer.run(plain_work(table, requests, synthetic.Platform()))
    assert events == len(expected.intervals)
    assert end_s == pytest.approx(expected.now_s, rel=1e-9)
    assert finish_s == pytest.approx([outcome.finish_s for outcome in expected.outcomes], rel=1e-9)
