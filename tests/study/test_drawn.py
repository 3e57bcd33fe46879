"""Places drawn by number: equal numbers, equal places; every kind occurs."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.config.load import scenario_from
from eunomia.study.inference.drawn import ESTIMATES, LATE, Draws
from eunomia.study.learning.scenarios import scenario_episode

ROOT = Path(__file__).resolve().parents[2]
EXPORT = str(ROOT / "benchmarks" / "networks" / "tv-mnasnet1-0.onnx")


def test_places_are_drawn_again_alike_and_hold_what_is_stated(tmp_path: Path) -> None:
    draws = Draws(("alexnet", "squeezenet"), (EXPORT,), 50, tmp_path)
    places = [draws.place(number) for number in range(40)]
    assert places[:3] == [draws.place(number) for number in range(3)]
    engines = [place["engine"] for place in places]
    assert {engine["late"] for engine in engines} == set(LATE)
    assert {engine["estimator"]["mode"] for engine in engines} == set(ESTIMATES)
    assert 1 <= sum("period_s" in engine for engine in engines) <= 12
    counts = [sum(lane["count"] for lane in place["platform"]["accelerators"]) for place in places]
    assert min(counts) <= 2 and 16 < max(counts) <= 64
    models = [model for place in places for tenant in place["tenant"] for model in tenant["models"]]
    assert 0.3 < sum("onnx" in model for model in models) / len(models) < 0.7
    kinds = {tenant["arrivals"].get("process", "trace") for place in places for tenant in place["tenant"]}
    assert kinds == {"poisson", "bursty", "diurnal", "trace"}


def test_a_place_sends_about_as_many_requests_as_asked_for(tmp_path: Path) -> None:
    draws = Draws(("alexnet", "squeezenet"), (EXPORT,), 60, tmp_path)
    sent = [len(scenario_episode(scenario_from(draws.place(n)), 0).problem.requests) for n in range(12)]
    assert sum(sent) / 12 == pytest.approx(75, rel=0.25)
