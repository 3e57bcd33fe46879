"""Misses in the engine by predictor of the device: cases worked by hand, and measurements that none of us made."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.sharing.interference import CoRun
from eunomia.study.sharing.misses import pairs_of
from eunomia.study.sharing.misses_engine import EngineStudy, placed, run_engine_misses
from eunomia.study.sharing.predict import Evidence
from tests.shared_data import shared


def _kin(slow: float) -> list[CoRun]:
    """a and b suffer from their own kind alone."""
    names = [f"{kind}{n}" for kind in "ab" for n in range(4)]
    return [CoRun(x, (y,), "v", slow if x[0] == y[0] else 1.0) for x, y in itertools.product(names, names)]


def test_each_takes_the_device_where_both_lose_least() -> None:
    truth = pairs_of(_kin(3.0))
    names, blind = ["a0", "a1", "b0", "b1"], dict.fromkeys(truth, 1.0)
    assert placed(names, ["v"] * 2, truth, truth) == [[0, 2], [1, 3]]
    mixed = ["a0", "b0", "a1", "b1"]
    assert placed(mixed, ["v"] * 2, truth, truth) == [[0, 3], [1, 2]]
    assert placed(mixed, ["v"] * 2, blind, truth) == [[0, 2], [1, 3]]  # kin beside kin
    with pytest.raises(ConfigError, match="tenant 2 of 3 fits on none of 1 devices"):
        placed(names[:3], ["v"], truth, truth)


def test_friends_and_enemies() -> None:
    study = EngineStudy(6, requests=100, seeds=(0, 1))
    found = run_engine_misses(Evidence(_kin(3.0)), study)
    mean = {name: np.mean([run["missed"] for run in runs]) for name, runs in found.figures.items()}
    assert mean["oracle"] < mean["least loaded"] == mean["none"]


def test_networks_that_do_not_slow_each_other_never_miss() -> None:
    # Two lanes for one tenant's requests of 10 ms; a third at once would wait for at most 10 ms: 2 of 3 allowed.
    found = run_engine_misses(Evidence(_kin(1.0)), EngineStudy(8, 1.0, 0.01, requests=50, seeds=(0,)))
    for runs in found.figures.values():
        assert runs[0]["missed"] == 0.0 and runs[0]["response"] == pytest.approx(1.0, abs=0.01)


def test_a_measured_table_of_gpus() -> None:
    known = json.loads(shared("gavel/physical_cluster_throughputs.json").read_text())["p100"]
    alone = {job: row["null"] for job, row in known.items() if job.endswith(", 1)")}
    rows = [
        CoRun(a, (b,), "p100", alone[a] / known[a][b][0])
        for a, b in itertools.product(alone, alone)
        if alone[a] > 0.0 and b in known[a] and known[a][b][0] > 0.0
    ]
    found = run_engine_misses(Evidence(rows), EngineStudy(requests=50, seeds=(0,)))
    assert all(
        0.0 <= run["missed"] <= 1.0 <= run["response"] for runs in found.figures.values() for run in runs
    )


def test_a_table_of_one_direction_is_refused() -> None:
    with pytest.raises(ConfigError, match="no pair was measured in both directions"):
        run_engine_misses(Evidence([CoRun("a", ("b",), "v", 1.5)]))
    with pytest.raises(ConfigError, match=r"load 1\.5 and deadline 3\.0; between 0 and 1"):
        EngineStudy(load=1.5)
    with pytest.raises(ConfigError, match="3 tenants per device; more than 0, at most 2"):
        EngineStudy(tenants=3)
