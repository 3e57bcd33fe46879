"""Slowdown misses by predictor: a case worked by hand, and measurements that none of us made."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.sharing.interference import CoRun
from eunomia.study.sharing.misses import MissStudy, run_misses
from eunomia.study.sharing.predict import Evidence
from tests.shared_data import shared


def test_friends_and_enemies() -> None:
    """a and b suffer from their own kind alone: who places by what was measured misses little."""
    names, slow = [f"{kind}{n}" for kind in "ab" for n in range(4)], {True: 3.0, False: 1.0}
    rows = [CoRun(x, (y,), "v", slow[x[0] == y[0]]) for x, y in itertools.product(names, names)]
    found = run_misses(Evidence(rows), MissStudy(8, 200, 1.0, seeds=(0, 1, 2)))
    missed = {name: np.mean([run["missed"] for run in runs]) for name, runs in found.figures.items()}
    assert missed["oracle"] < 0.8 * missed["least loaded"]
    assert missed["oracle"] <= missed["completed, learning"] < missed["least loaded"]
    assert found.metrics["missed"].heading == "slowdown misses"  # waiting is no part of them
    for runs in found.figures.values():
        assert all(run["missed"] <= run["late"] for run in runs)
        assert any(run["missed"] < run["late"] for run in runs) == any(run["waited"] > 0.0 for run in runs)
    assert missed["none"] == missed["least loaded"]  # all servers are alike to both


def test_a_measured_table_of_gpus() -> None:
    known = json.loads(shared("gavel/physical_cluster_throughputs.json").read_text())["p100"]
    alone = {job: row["null"] for job, row in known.items() if job.endswith(", 1)")}
    rows = [
        CoRun(a, (b,), "p100", alone[a] / known[a][b][0])
        for a, b in itertools.product(alone, alone)
        if alone[a] > 0.0 and b in known[a] and known[a][b][0] > 0.0
    ]
    found = run_misses(Evidence(rows), MissStudy(6, 40, seeds=(0,)))
    assert all(
        0.0 <= run["missed"] <= 1.0 <= run["slowdown"] for runs in found.figures.values() for run in runs
    )


def test_a_table_of_one_direction_is_refused() -> None:
    rows = [CoRun("a", ("b",), "v", 1.5)]
    with pytest.raises(ConfigError, match="no pair was measured in both directions"):
        run_misses(Evidence(rows))
