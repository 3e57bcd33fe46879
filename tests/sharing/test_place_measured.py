"""Paragon's rules on measured slowdowns: friends and enemies, every placement of a small case, GPUs of others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.cluster.colocation import Measured
from benchmarks.cluster.scenes import KINDS
from eunomia.core.errors import ConfigError
from eunomia.sharing.interference import CoRun
from eunomia.study.sharing.place_measured import RULES, MeasuredPlaceStudy, _placed, run_measured_place
from tests.shared_data import shared

NAMES = [f"{kind}{n}" for kind in "ab" for n in range(4)]
ROWS = [
    CoRun(x, (y,), kind, 3.0 if x[0] == y[0] else 1.0)
    for x, y, kind in itertools.product(NAMES, NAMES, ("fast", "slow"))
]
SPEEDS = {name: {"fast": 1.0, "slow": 0.5} for name in NAMES}


def test_each_half_of_the_filter_sees_its_half() -> None:
    found = run_measured_place(ROWS, SPEEDS, MeasuredPlaceStudy(10, 1.0))
    got = {name: found.estimate(name, "within_5").mean for name in found.methods}
    kept = {name: found.estimate(name, "kept").mean for name in found.methods}
    assert got["two-step, measured"] == got["oracle"] > 1.5 * got["heterogeneity only"]
    assert got["oracle"] > got["least loaded"] == pytest.approx(0.5) and kept["least loaded"] == 1.0
    assert kept["two-step, measured"] == 1.0 > kept["heterogeneity only"]


def test_hand_worked() -> None:
    """Two applications of a and one of b, one server of each kind. Two-step puts b beside the first a."""
    truth = {(row.target, row.neighbours[0], row.kind): row.slowdown for row in ROWS}
    shares = {name: {"fast": 1.0, "slow": 0.5} for name in NAMES}
    wanted = {
        "two-step": [["a0", "b0"], ["a1"]],
        "heterogeneity only": [["a0", "a1"], ["b0"]],
        "least loaded": [["a0", "b0"], ["a1"]],
    }
    for rule, placed in wanted.items():
        assert _placed(RULES[rule], ["a0", "a1", "b0"], ["fast", "slow"], truth, shares) == placed


def test_gpus_that_others_measured() -> None:
    shared("gavel")
    of = Measured()
    alone = {
        n: dict(zip(KINDS, row, strict=True)) for n, row in zip(of.names, of.alone.tolist(), strict=True)
    }
    found = run_measured_place(of.rows, alone, MeasuredPlaceStudy(6, 1.25, seeds=(0, 1)))
    got = {name: found.estimate(name, "within_5").mean for name in found.methods}
    assert got["oracle"] >= got["least loaded"] and got["two-step, measured"] >= got["heterogeneity only"]
    assert all(0.0 <= value <= 1.0 for value in got.values()) and np.isfinite(list(got.values())).all()


def test_wrong_input() -> None:
    with pytest.raises(ConfigError, match="0 types with speeds"):
        run_measured_place([CoRun("a", ("b",), "v", 1.5)], {"a": {"v": 1.0}})
    with pytest.raises(ConfigError, match=r"0 servers of each kind, 1\.25 applications"):
        MeasuredPlaceStudy(servers=0)
