"""Training on a recording: traffic is drawn anew with its rates, bursts and deadlines; promises are the objective."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eunomia.study.serving.twin_training import redrawn, twin_training
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.serving.test_twin import recording


def recorded(seed: int = 0) -> RequestTable:
    """A steady stream at 10 per s for 100 s, and bursts of five every 5 s, which have deadlines of their own."""
    rng = np.random.default_rng(seed)
    steady, bursts = np.sort(rng.uniform(0.0, 100.0, 1000)), np.repeat(np.arange(0.0, 100.0, 5.0), 5)
    time_s, pair = np.concatenate([steady, bursts]), np.repeat([0, 1], [1000, 100])
    order = np.argsort(time_s, kind="stable")
    agreements = (Agreement("a", "m"), Agreement("b", "m"), Agreement("silent", "m"))
    return RequestTable(agreements, pair[order], time_s[order] - time_s.min(), 1.0 + pair[order])


@pytest.mark.parametrize("count", [60, 1100, 5000])
def test_rates_and_deadlines_are_those_of_the_recording(count: int) -> None:
    table = recorded()
    drawn = [redrawn(table, count, np.random.default_rng(seed)) for seed in range(200)]
    counts = np.mean([one.counts() for one in drawn], axis=0)
    np.testing.assert_allclose(counts, [count * 10 / 11, count / 11, 0.0], rtol=0.2)
    for one in drawn:
        np.testing.assert_array_equal(one.relative_deadline_s, 1.0 + one.pair)
        assert one.arrival_s.max(initial=0.0) < 100.5 * count / 1100


def test_a_pair_keeps_its_bursts() -> None:
    gaps = np.concatenate([
        np.diff(one.arrival_s[one.pair == 1])
        for one in (redrawn(recorded(), 1100, np.random.default_rng(seed)) for seed in range(20))
    ])  # fmt: skip
    assert np.mean(gaps < 1e-9) == pytest.approx(0.8, abs=0.05)


def test_equal_seeds_draw_equal_traffic_and_others_do_not() -> None:
    first, second, other = (redrawn(recorded(), 300, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.arrival_s, second.arrival_s)
    assert len(first) != len(other) or not np.array_equal(first.arrival_s, other.arrival_s)


def test_one_request_and_requests_at_once_are_drawn_too() -> None:
    for times in ([0.0], [0.0, 0.0, 0.0]):
        alone = RequestTable(
            (Agreement("a", "m"),), np.zeros(len(times), int), np.array(times), np.ones(len(times))
        )
        assert len(redrawn(alone, 3, np.random.default_rng(0))) <= 26


def test_a_recording_with_promises_is_trained_for_them_unless_told_otherwise(tmp_path: Path) -> None:
    path, content = tmp_path / "twin.json", recording(3, "edf+f")
    path.write_text(json.dumps(content))
    assert twin_training(path, None, ()).promise == "attainment"
    for said in ("objective={shortfall=1.0}", "objective.shortfall=1.0"):
        assert twin_training(path, None, (said,)).promise is None
    assert twin_training(path, None, ('promise="max_min"',)).promise == "max_min"
    for pair in content["pairs"]:  # type: ignore[attr-defined]
        pair["slo"] = None
    path.write_text(json.dumps(content))
    free = twin_training(path, None, ())
    assert free.promise is None and free.objective == {"hit_rate": 1.0}
