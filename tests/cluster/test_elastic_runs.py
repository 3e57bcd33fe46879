"""Jobs whose workers the policy chooses, in the simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from tests.cluster.small import job, problem


@dataclass
class Widths:
    """One job: so many workers on the first type, a new number at each question until the last."""

    of: tuple[int, ...]
    needs: Needs = Needs(answer="devices", elastic=True)

    def reset(self, seed: int) -> None:
        self.asked = 0

    def allocate(self, view: ClusterView) -> Allocation:
        width = self.of[min(self.asked, len(self.of) - 1)]
        self.asked += 1
        return Allocation(devices=np.array([[width, 0]]), scale=np.array([width]))


@pytest.mark.parametrize(("placement", "end_s"), [("pack", 200.0), ("spread", 400.0)])
def test_being_spread_slows_a_resized_job_down(placement: str, end_s: float) -> None:
    """800 steps asked for with 1 worker, run with 2: 4 steps/s on one server, 2 on two."""
    p = problem(job("x", 800.0, max_scale=4), fast=4, slow=1, per_server=2)
    run = simulate_cluster(p, Widths((2,)), SimulationOptions(placement=placement))  # type: ignore[arg-type]
    assert run.ledger.finish_s.tolist() == pytest.approx([end_s])
    assert run.ledger.useful_s.tolist() == pytest.approx([400.0])


def test_a_resize_costs_a_restart() -> None:
    """100 s at 2 steps/s, then 10 s to restart and 4 workers at 8 steps/s for the other 800 steps."""
    p = problem(job("x", 1000.0, max_scale=4), fast=4, slow=1, per_server=4)
    options = SimulationOptions(round_s=100.0, restart=Restart(4.0, 6.0))
    run = simulate_cluster(p, Widths((1, 4)), options)
    assert run.ledger.finish_s.tolist() == pytest.approx([210.0])
    assert run.ledger.resizes.tolist() == [1] and run.ledger.moves.tolist() == [0]
