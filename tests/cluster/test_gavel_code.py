"""Completion times of Gavel's own code (stanford-futuredata/gavel, c4fa400), by ``cluster-matrix``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.cluster.scenes import drawn
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from tests.shared_data import shared

SINGLE = dict(mean_gap_s=600.0, counts=(4, 4, 4), seed=17, multi_gpu=False)  # S5 of the matrix
MULTI = dict(mean_gap_s=600.0, counts=(4, 4, 4), seed=18)  # M4
TIMES_S = {
    "allox": [
        10800.8, 3658.5, 5358.2, 8531.9, 5526.7, 7849.6, 4714.6, 5426.8, 12965.5, 8010.7, 15016.2, 6307.2, 16592.1,
        8358.4, 10054.2, 11661.5, 9409.2, 11489.5, 14956.0, 14929.7, 16613.5, 5354.2, 9132.0, 8186.4, 24180.5, 17356.3,
        18786.6, 15981.1, 4667.3, 21695.9,
    ],
    "fifo": [
        3960.0, 4316.7, 6925.5, 11187.7, 12378.5, 24687.4, 25389.9, 8788.6, 5403.5, 48401.4, 15372.5, 4510.2, 17102.5,
        14491.8, 17037.0, 12020.6, 9600.4, 26128.3, 22126.7, 83876.5, 38347.5, 61536.1, 22981.7, 19182.7, 19838.3,
        28023.9, 38762.6, 42014.2, 23117.4, 45645.3,
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "trace", "given"),
    [("allox", SINGLE, {"alpha": 1.0, "as_gavel": True}), ("fifo", MULTI, {"as_gavel": True})],
)
def test_every_job_ends_when_it_does_under_gavels_code(
    name: str, trace: dict[str, Any], given: dict[str, Any]
) -> None:
    """AlloX: who is not matched runs on what is left, ties as in the code. FIFO: its stale variable; the head of the
    line keeps its turn where it does not fit; who cannot run on the stale type is passed over."""
    shared("gavel/simulation_throughputs.json")
    trace = dict(trace)
    problem = drawn(30, trace.pop("mean_gap_s"), trace.pop("counts"), trace.pop("seed"), "hours", **trace)
    options = SimulationOptions.gavel(record="jobs", drop_rule=True)
    run = simulate_cluster(problem, allocator(name, **given), options, name)
    assert run.ledger.finish_s - problem.arrival_s == pytest.approx(np.array(TIMES_S[name]), abs=0.06)
