"""Places drawn by number: equal numbers, equal places; every kind occurs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eunomia.config.load import scenario_from
from eunomia.config.training import TrainingConfig, training_from
from eunomia.core.errors import ConfigError
from eunomia.study.files import file_stamps
from eunomia.study.inference.drawn import ESTIMATES, LATE, ZOO, Draws
from eunomia.study.learning import scenarios
from eunomia.study.learning.scenarios import ScenarioSampler, scenario_episode

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


def test_recordings_stay_untouched_when_places_are_drawn_again(tmp_path: Path) -> None:
    """A stopped training goes on only where the files that it reads are those that it read before."""
    draws = Draws(("alexnet", "squeezenet"), (EXPORT,), 50, tmp_path)
    places = [draws.place(number) for number in range(8)]
    before = file_stamps(places)
    recordings = [Path(str(path)) for path, *_ in before if str(path).endswith(".csv")]
    assert recordings and recordings == sorted(tmp_path.iterdir())
    for path in recordings:
        os.utime(path, ns=(10**9, 10**9))
    aged = file_stamps(places)
    assert aged != before and [draws.place(number) for number in range(8)] == places
    assert file_stamps(places) == aged
    recordings[0].write_text("arrival_s\n")
    places = [draws.place(number) for number in range(8)]
    assert [line[:2] for line in file_stamps(places)] == [line[:2] for line in before]
    for number in range(8):
        Draws(("alexnet", "squeezenet"), (EXPORT,), 60, tmp_path).place(number)
    assert [line[:2] for line in file_stamps(places)] == [line[:2] for line in before]  # files of their own


def test_a_place_sends_about_as_many_requests_as_asked_for(tmp_path: Path) -> None:
    draws = Draws(("alexnet", "squeezenet"), (EXPORT,), 60, tmp_path)
    sent = [len(scenario_episode(scenario_from(draws.place(n)), 0).problem.requests) for n in range(12)]
    assert sum(sent) / 12 == pytest.approx(75, rel=0.25)


def test_a_training_takes_places_with_networks_of_the_zoo_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "RECORDINGS", tmp_path)
    config = TrainingConfig(name="x", places=[1_000_000, 1_000_005], requests=20, validation=6)
    sampler = ScenarioSampler(config)
    assert [place.name for place in sampler.scenarios] == [f"place {n}" for n in range(1_000_000, 1_000_006)]
    episodes = sampler.validation()
    assert {e.options.late for e in episodes} == set(LATE)
    assert {m.name for e in episodes for m in e.problem.table.models} <= set(ZOO.split())
    assert all(len(e.problem.requests) <= 20 for e in episodes) and "place 1000003" in sampler.about


@pytest.mark.parametrize(
    ("places", "said"),
    [([0, 1_000_005], "places"), ([1_000_005, 1_000_000], "first one first"), ([1_000_000], "places")],
)
def test_places_of_the_exam_and_empty_ranges_are_refused(places: list[int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        training_from({"name": "x", "places": places})
