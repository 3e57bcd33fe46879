"""Analytical throughputs: by hand, and beside what Gavel measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.cluster.analytical import Peak, StepWork, steps_per_s
from eunomia.cluster.throughput import ThroughputTable
from eunomia.core.errors import ConfigError
from tests.shared_data import shared

SMALL = Peak(tflop=10.0, dram_gb=100.0, link_gb=10.0, network_gb=1.0)


def test_a_step_by_hand() -> None:
    """4,000 Gflop at half of 10 Tflop/s: 0.8 s; 50 GB at 100 GB/s: 0.5 s. Four workers send 1.5 times 2 GB: 0.3 s or,
    over the network, 3 s."""
    work = StepWork(gflop=4000.0, dram_gb=50.0, gradient_gb=2.0, utilisation=0.5)
    assert steps_per_s(work, SMALL) == pytest.approx(1.0 / 0.8)
    assert steps_per_s(work, SMALL, 4) == pytest.approx(4.0 / 1.1)
    assert steps_per_s(work, SMALL, 4, spread=True) == pytest.approx(4.0 / 3.8)
    assert steps_per_s(StepWork(100.0, 50.0), SMALL) == pytest.approx(1.0 / 0.5)  # memory is slower


def test_resnet_50_is_near_what_gavel_measured() -> None:
    """64 images, 8.2 Gflop each forward and twice that backward: within a factor of 2, types in the right order."""
    table = ThroughputTable.from_gavel_json(shared("gavel/simulation_throughputs.json"))
    measured = table.alone[table.row("ResNet-50 (batch size 64)", 1)]
    peaks = {
        "v100": Peak(15.7, 900, 32, 1.25),
        "p100": Peak(9.5, 730, 16, 1.25),
        "k80": Peak(4.1, 240, 16, 1.25),
    }
    work = StepWork(gflop=64 * 3 * 8.2, gradient_gb=0.102)
    estimate = np.array([steps_per_s(work, peaks[name]) for name in table.types])
    assert np.argsort(estimate).tolist() == np.argsort(measured).tolist()
    assert (np.abs(np.log(estimate / measured)) < math.log(2.0)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StepWork(gflop=0.0), "work: gflop is 0.0; it must be greater than 0"),
        (lambda: StepWork(gflop=float("nan")), "gflop is nan"),
        (lambda: StepWork(1.0, dram_gb=-1.0), "dram_gb is -1.0"),
        (lambda: StepWork(1.0, utilisation=1.5), "utilisation is 1.5"),
        (lambda: Peak(1.0, 1.0, 0.0, 1.0), "peak: link_gb is 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(build: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()  # type: ignore[operator]
