"""Plans for questions that nobody prepared: the answer is what trying every platform finds, and nothing refuted works.

Two questions in every run; 110 with ``pytest tests/study/test_plan_drawn.py -m study``, about ten minutes of one core.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eunomia.study.plan import plan, plan_from
from eunomia.study.plan.catalogue import catalogue
from eunomia.study.plan.crew import Trials
from eunomia.study.plan.ground import ground
from eunomia.study.plan.search import Search
from eunomia.study.plan.targets import score_of

TYPES = (
    "simba",
    "systolic",
    "eyeriss-chip",
    "simba-chiplet",
    "nvdla-like",
    "eyeriss",
    "moham-simba",
    "tpu-v1",
)
NETWORKS = ("squeezenet", "mobilenet-v2", "kws-res8", "resnet18", "yolo-lite")


def tenant(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """One network, Poisson or periodic; the first has a promise, others most of the time."""
    per_s = float(rng.choice([100, 300, 800]))
    poisson = {"process": "poisson", "rate_per_s": per_s}
    periodic = {"process": "periodic", "period_s": 1.0 / per_s, "jitter_s": 0.2 / per_s}
    network = {
        "model": str(rng.choice(NETWORKS)),
        "deadline_factor": float(rng.choice([1.5, 3.0, 6.0, 10.0])),
    }
    if number == 0 or rng.random() < 0.7:
        network |= {"slo": {"hit_rate": float(rng.choice([0.5, 0.8, 0.95]))}}
    return {
        "name": f"t{number}",
        "arrivals": poisson if rng.random() < 0.5 else periodic,
        "models": [network],
    }


def question(seed: int) -> dict[str, Any]:
    """One to three types, up to three of each, often a choice of memories, any target."""
    rng = np.random.default_rng(seed)
    devices = [
        {
            "type": str(kind),
            "most": int(rng.integers(1, 4)),
            "price": float(rng.integers(1, 20)),
            "power_w": float(rng.uniform(0.2, 3.0)),
            "area_mm2": float(rng.uniform(1.0, 9.0)),
            "standby_w": float(rng.choice([0.0, 0.1, 0.5])),
            "rent_per_h": float(rng.choice([0.0, 0.01])),
        }
        for kind in rng.choice(TYPES, rng.integers(1, 4), replace=False)
    ]
    if rng.random() < 0.3:
        devices[0]["least"] = 1
    asked: dict[str, Any] = {
        "name": "drawn",
        "duration_s": 0.15,
        "warmup_s": 0.01,
        "device": devices,
        "target": str(rng.choice(["cost", "power", "area", "energy"])),
        "search": {
            "seeds": int(rng.integers(1, 4)),
            "fresh": int(rng.integers(2, 4)),
            "confidence": float(rng.choice([0.5, 0.9, 0.99])),
            "cost_error": float(rng.choice([0.0, 0.2])),
            "policies": ["edf+f+eft", "sjf+f"][: rng.integers(1, 3)],
            "front": [1.5],
        },
        "tenant": [tenant(rng, number) for number in range(rng.integers(1, 4))],
    }
    if rng.random() < 0.7:
        asked["memory"] = [
            {"gb_s": float(gb_s), "price": float(rng.integers(0, 9)), "power_w": float(rng.uniform(0.0, 1.0)),
             "area_mm2": float(rng.uniform(0.0, 2.0))}
            for gb_s in rng.choice([4, 8, 16, 64], rng.integers(1, 4), replace=False)
        ]  # fmt: skip
    if rng.random() < 0.5:
        asked["engine"] = {"late": "drop"}
    if rng.random() < 0.3:
        asked["bounds"] = {"devices": int(rng.integers(2, 5))}
    return asked


def by_trying_all(asked: dict[str, Any]) -> tuple[float, Search]:
    """The least target of all platforms that keep the promises, each tried and proven; inf = none does."""
    config = plan_from(asked)
    on = ground(config)
    platforms, least = catalogue(config, on.names, on.need_gb), math.inf
    with Trials(1, None) as trials:
        search = Search(on, platforms, trials)
        scores, actual = score_of(search)
        search.tried(range(len(platforms)), "all")
        for row in search.found.kept:
            value = float(scores[row]) if actual is None else actual(row, search.found.tallies[row])
            if value < least and search.prove(row).holds:
                least = value
    return least, search


def same_as_trying_all(seed: int) -> None:
    asked = question(seed)
    answer = plan(asked, rivals=False).answer
    least, search = by_trying_all(asked)
    assert all(answer.search.screen.by[row] < 0 for row in search.found.kept), (
        "a platform that keeps all was refuted"
    )
    scores, actual = score_of(answer.search)
    if answer.row is None:
        assert least == math.inf
    else:
        value = float(scores[answer.row]) if actual is None else answer.energy_j(answer.row)
        assert value == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("seed", [106, 107])
def test_two_drawn_questions(seed: int) -> None:
    same_as_trying_all(seed)


@pytest.mark.study
@pytest.mark.parametrize("seed", range(110))
def test_many_drawn_questions(seed: int) -> None:
    same_as_trying_all(seed)
