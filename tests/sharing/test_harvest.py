"""Harvest: forecasts and rules by hand, packing against a plain search, wrong files, Azure's requests."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sharing import azure_series
from eunomia.core.errors import ConfigError
from eunomia.sharing.harvest import Node, Series, admit, correlated, pack, read_series
from eunomia.sharing.harvest.peak import Peak
from eunomia.study.sharing.harvest import run_forecasts, run_packing, run_room
from tests.shared_data import shared

UP, DOWN = np.array([1.0, 2.0] * 20), np.array([2.0, 1.0] * 20)
SLOW = 2.0 + np.sin(np.arange(40) / 6.0)


def test_forecasts_by_hand() -> None:
    """A series that alternates has no positive autocorrelation: its mean. A slow one stays near its last sample."""
    assert Series(UP).autocorrelation == pytest.approx(-39 / 40) and Series(UP).forecast() == 1.5
    phi, mean = Series(SLOW).autocorrelation, float(SLOW.mean())
    assert 0.9 < phi < 1.0 and Series(SLOW).forecast(2) == pytest.approx(mean + phi**2 * (SLOW[-1] - mean))
    assert Series(np.full(40, 3.0)).forecast() == 3.0 and Series(SLOW[:5]).autocorrelation == 0.0
    assert Series(np.arange(101.0)).percentile(90.0) == 90.0


def test_who_rises_together_stays_apart() -> None:
    assert correlated(UP, 3.0 * UP) and not correlated(UP, DOWN) and not correlated(UP, np.ones(40))
    known = {"up": UP, "again": UP, "down": DOWN, "slow": SLOW}
    assert admit("down", Node(4.0, ["up"]), known, predict=False)
    assert not admit("again", Node(4.0, ["up"]), known, predict=False)
    assert not admit("again", Node(9.0, ["up"]), known, predict=True)  # no autocorrelation to predict with
    known["twin"] = SLOW
    now = Series(SLOW).forecast()
    assert not admit("twin", Node(now + 2.9, ["slow"]), known, predict=True)
    assert admit("twin", Node(now + 3.1, ["slow"]), known, predict=True)


def test_peaks_are_packed_without_a_violation_and_close_to_the_least_number_of_nodes() -> None:
    """First fit, largest first, needs at most 11/9 of the least, and two thirds of a node."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        known = {f"{n}": rng.uniform(0.2, 1.0) * np.ones(40) for n in range(6)}
        sizes = {name: values[0] for name, values in known.items()}
        nodes = pack(known, 1.0, "peak")
        assert all(sum(sizes[pod] for pod in node.pods) <= 1.0 for node in nodes)
        least = min(
            max(places) + 1
            for places in itertools.product(range(6), repeat=6)
            if all(
                sum(s for s, p in zip(sizes.values(), places, strict=True) if p == n) <= 1.0
                for n in set(places)
            )
        )
        assert least <= len(nodes) <= 11 / 9 * least + 2 / 3


def test_the_back_test_on_a_random_walk_and_on_noise() -> None:
    """Persistence is the best forecast of a walk, the mean of noise; peaks of the first half reclaim nothing."""
    rng = np.random.default_rng(3)
    walk = {f"{n}": 50.0 + np.abs(np.cumsum(rng.normal(size=400))) for n in range(3)}
    noise = {f"{n}": rng.uniform(0.0, 1.0, 400) for n in range(3)}
    errors = [
        {m: found.estimate(m, "error").mean for m in found.methods}
        for found in map(run_forecasts, (walk, noise))
    ]
    assert errors[0]["persistence"] < errors[0]["mean"] and errors[1]["mean"] < errors[1]["persistence"]
    found = run_forecasts(noise)
    assert found.estimate("peak reservation", "reclaimed").mean == pytest.approx(0.0)
    assert found.estimate("mean", "violated").mean < 0.12


def test_requests_of_azure() -> None:
    """Series that none of us made: AR(1) beats persistence, percentiles need no more nodes than peaks."""
    shared("traces")
    known = azure_series()
    found, packed = run_forecasts(known), run_packing(known)
    assert found.estimate("AR(1)", "error").mean < found.estimate("persistence", "error").mean
    assert packed.estimate("percentile", "nodes").mean <= 1.0


def test_peaks_by_hand_and_against_a_slow_twin() -> None:
    """Forecast plus the 95th percentile of the last 60 errors, each made from the 60 samples before it."""
    peak = Peak("persistence")
    for value in [1.0, 2.0] * 9 + [1.0]:
        peak.add(value)
        assert peak.next == math.inf
    peak.add(2.0)
    assert peak.next == 3.0 and peak.violations == 0  # it rises by 1 in ten of 19 steps
    values = np.abs(np.random.default_rng(0).normal(5.0, 2.0, 200).cumsum() % 17.0)
    peak = Peak("ar1")
    for t, value in enumerate(values):
        if t >= 20:
            errors = [
                values[s] - Series(values[max(0, s - 60) : s]).forecast() for s in range(max(1, t - 60), t)
            ]
            guess = Series(values[max(0, t - 60) : t]).forecast()
            assert peak.next == pytest.approx(max(0.0, guess + float(np.quantile(errors, 0.95))))
        peak.add(float(value))
    with pytest.raises(ConfigError, match="unknown forecast 'arima'"):
        Peak("arima")
    with pytest.raises(ConfigError, match="a sample of a series is nan"):
        peak.add(math.nan)


def test_takers_get_what_is_left_of_a_strangers_series() -> None:
    """Azure's requests: more than half of what is idle is given, in vain in less than a tenth of the samples."""
    shared("traces")
    found = run_room(azure_series(5.0, 2))
    for rule in ("persistence", "ar1"):
        assert found.estimate(rule, "reclaimed").mean > 0.5 and found.estimate(rule, "violated").mean < 0.1
    assert found.estimate("nothing", "reclaimed").mean == 0.0 == found.estimate("nothing", "put_off").mean
    assert found.estimate("everything", "reclaimed").mean == pytest.approx(1.0)


def test_wrong_files(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    rows = "\n".join(f"{t},{t % 5}" for t in range(200))
    file.write_text("time,a\n" + rows)
    assert list(read_series(file)) == ["a"] and run_forecasts(read_series(file)).methods
    for text, says in {
        "": "0 series of 0 samples", "time,a\n0,1": "1 series of 1 samples", "a\n" + "x\n" * 50: "could not convert",
        "a\n" + "-1\n" * 50: "negative or not finite", "a,b\n" + "1\n" * 50: "1 cells under 2 headings",
    }.items():  # fmt: skip
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            read_series(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_series(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="more than 120"):
        run_forecasts({"a": np.ones(100)})
    with pytest.raises(ConfigError, match="throughout its first half"):
        run_forecasts({"a": np.zeros(200)})
    with pytest.raises(ConfigError, match="choose one of: cbp, peak, percentile, pp"):
        pack({"a": np.ones(40)}, 1.0, "peaks")
    with pytest.raises(ConfigError, match="capacity is 0"):
        Node(0)
    with pytest.raises(ConfigError, match="at least one sample"):
        Series(np.array([]))
    assert json.dumps(run_packing({"a": np.ones(200)}).as_table())
