"""What ``eunomia run`` takes, ``evaluate`` and ``train`` take: every file of ours, every promise, every setting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.config import Scenario, demo_scenario, load_scenario, scenario_from, to_toml, with_values
from eunomia.config.load import read_table
from eunomia.config.training import training_from
from eunomia.inference.simulate import simulate_problem
from eunomia.inference.tabulate import tabulate
from eunomia.learning.objectives import OBJECTIVES, WORST, gaps
from eunomia.metrics.indicators import pair_table
from eunomia.study.inference.run import run
from eunomia.study.learning.evaluation import evaluate
from eunomia.study.learning.scenarios import scenario_episode
from eunomia.study.learning.training import train_policy
from tests.rough import rough_capacity
from tests.shared_data import shared

ROOT = Path(__file__).parents[2]
TINY = {"requests": 12, "validation": 1}
SHORT = {"duration_s": 0.5, "warmup_s": 0.01, "compare.seeds": 1}
SMALL: dict[str, Any] = {
    "name": "small",
    "duration_s": 0.1,
    "warmup_s": 0.01,
    "platform": {
        "accelerators": [{"type": "simba", "count": 1}, {"type": "eyeriss", "count": 1}],
        "dram_bandwidth_gb_s": 8.0,
    },
    "tenant": [
        {
            "name": "a",
            "arrivals": {"process": "poisson", "rate_per_s": 250.0},
            "models": [{"model": "kws-res8", "deadline_factor": 3.0, "slo": {"hit_rate": 0.9}}],
        },
        {
            "name": "b",
            "arrivals": {"process": "periodic", "period_s": 0.01},
            "models": [{"model": "squeezenet", "deadline_factor": 3.0}],
        },
    ],
}
SLO, ARRIVALS = "tenant.0.models.0.slo", "tenant.0.arrivals"
BRIEF = {"duration_s": 0.01, "warmup_s": 0.0}
CLOSED = {ARRIVALS: {"process": "closed_loop", "clients": 4, "think_s": 0.005}}
PROMISES: dict[str, dict[str, Any]] = {
    "hit rate": {SLO: {"hit_rate": 0.9}},
    "drop rate": {SLO: {"drop_rate": 0.1}, "engine.late": "drop"},
    "median latency": {SLO: {"latency_p50_ms": 0.3}},
    "latency of one in a hundred": {SLO: {"latency_p99_ms": 1.0}},
    "mean latency": {SLO: {"latency_mean_ms": 0.5}},
    "throughput": {SLO: {"throughput_per_s": 200.0}},
    "throughput beyond what is sent": {SLO: {"throughput_per_s": 20_000.0}},
}
SETTINGS: dict[str, dict[str, Any]] = {
    **PROMISES,
    "nothing promised, no deadline": {"tenant.0.models.0": {"model": "kws-res8"}},
    **{f"late {late}": {"engine.late": late} for late in ("last", "run", "drop")},
    "dropped when expired": {"engine.late": "drop", "engine.drop_when": "expired"},
    **{
        f"contention {model}": {"platform.contention": model}
        for model in (
            "none", "proportional", "max_min", "weighted", "moca_literal", "roofline", "roofline_proportional",
            "roofline_static",
        )
    },
    **{f"estimates {mode}": {"engine.estimator.mode": mode} for mode in ("lognormal", "ewma", "none")},
    "biased estimates": {"engine.estimator": {"mode": "bias", "bias": {"kws-res8": 0.5}, "jitter": 0.2}},
    "decisions cost time": {"engine.decision_s": 1e-5, "engine.switch_s": 1e-5, "engine.refill": True},
    "measured decisions": {**BRIEF, "engine.charge_measured": True},
    "smoothed indicators": {"engine.sli_ewma": 0.2},
    "cut off at the end": {"engine.drain": False},
    "closed loop": CLOSED,
    "closed loop, cut off": {**CLOSED, "engine.drain": False},
    "closed loop, latency": {**CLOSED, SLO: {"latency_p90_ms": 1.0}},
    "deferrable": {"tenant.0.defer_s": [0.01, 0.05]},
    "load": {"load": 1.0},
    "bursty": {ARRIVALS: {"process": "bursty", "rate_per_s": 200.0}},
    "moca streams": {ARRIVALS: {"process": "moca", "cap": 0.8, "limit": 10}},
    "published set": {
        "tenant.0": {
            "name": "a", "model_set": "moca-light", "slo": {"latency_p95_ms": 9.0},
            "arrivals": {"process": "aurora", "cap": 0.8, "limit": 10},
        }
    },
    "one accelerator": {"platform.accelerators": [{"type": "simba", "count": 1}]},
}  # fmt: skip
ALGORITHMS: dict[str, dict[str, Any]] = {
    "td3": {
        "clone_episodes": 1,
        "clone_steps": 2,
        "updates": 2,
        "critic_first": 1,
        "reward": "R5",
        "units": 8,
    },
    "ppo": {"reward": "R5", "units": 8},
    "sac": {"reward": "R5", "units": 8, "every": 50},
    "bdq": {"reward": "R5", "units": 8, "every": 50},
}


@pytest.fixture(scope="module", autouse=True)
def roughly() -> Iterator[None]:
    """How good a capacity is, is asked in ``test_runs.py``."""
    with rough_capacity():
        yield


def small(changes: dict[str, Any]) -> Scenario:
    """The small scenario with some values changed."""
    return with_values(scenario_from(SMALL), changes)


def is_accepted(scenario: Scenario, folder: Path) -> None:
    """``run``, ``evaluate`` and ``train`` each give numbers for a scenario."""
    metrics = run(scenario, "edf").metrics
    result = evaluate("eunomia", scenario, ["edf"], 1)
    assert result.lines[1].hit_rate == metrics["hit_rate"]
    assert np.array_equal(
        [result.lines[1].attainment, result.lines[1].shortfall],
        [metrics["slo_attainment"], metrics["slo_shortfall"]],
        equal_nan=True,
    )
    (folder / "scenario.toml").write_text(to_toml(scenario))
    stages = [
        {"generations": 1, "population": 4, "episodes": 1},
        {"trainer": "expert", "generations": 1, "episodes": 1, "share": 0.5},
    ]
    config = training_from(
        {"name": "x", "scenarios": ["scenario.toml"], "stage": stages, **TINY}, folder=folder
    )
    assert math.isfinite(train_policy(config, folder / "stages").gain)


def scenario_files() -> list[Path]:
    """Scenarios among our files: those that have tenants and a platform."""
    found = [path for folder in ("examples", "studies") for path in sorted((ROOT / folder).rglob("*.toml"))]
    return [path for path in found if {"tenant", "platform"} <= set(read_table(path))]


@pytest.mark.parametrize("path", [None, *scenario_files()], ids=lambda path: path.stem if path else "demo")
def test_our_own_scenarios_are_run_evaluated_and_trained_on(path: Path | None, tmp_path: Path) -> None:
    scenario = demo_scenario() if path is None else load_scenario(path)
    changes: dict[str, Any] = {**SHORT}
    if path is not None and path.name.startswith("azure"):
        changes |= {"tenant.chat.arrivals.path": str(shared("traces/azure_llm_2023_conv.csv"))}
        changes |= {"duration_s": 1.0}
    if path is not None and path.parent.name == "recording":  # its first request comes after 0.1 s
        changes |= {"duration_s": 1.0}
    is_accepted(with_values(scenario, changes), tmp_path)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_run_evaluated_and_trained_on(name: str, tmp_path: Path) -> None:
    is_accepted(small(SETTINGS[name]), tmp_path)


def every_promise(changes: dict[str, Any]) -> Scenario:
    """The small scenario with a tenant for each kind of promise."""
    first, *others = SMALL["tenant"]
    model = {"model": "kws-res8", "deadline_factor": 3.0}
    tenants = [
        {**first, "name": name, "models": [{**model, "slo": change[SLO]}]}
        for name, change in PROMISES.items()
    ]
    return with_values(scenario_from({**SMALL, "tenant": [*tenants, *others]}), changes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("changes", [{}, {**CLOSED, **BRIEF, "engine.drain": False}], ids=["open", "closed"])
def test_every_algorithm_trains_for_every_promise(
    algorithm: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "scenario.toml").write_text(to_toml(every_promise(changes)))
    table = {"name": algorithm, "iterations": 1, "episodes": 1, "validate_every": 1, **ALGORITHMS[algorithm]}
    objective = dict.fromkeys(OBJECTIVES, 1.0)
    data = {"name": "x", "scenarios": ["scenario.toml"], "objective": objective, "algorithm": table, **TINY}
    outcome = train_policy(training_from(data, folder=tmp_path), tmp_path / "run")
    assert math.isfinite(outcome.gain)


@pytest.mark.parametrize("name", PROMISES)
@pytest.mark.parametrize("rate_per_s", [250.0, 4000.0])
@pytest.mark.parametrize("warmup_s", [0.0, 0.03])
def test_a_gap_in_training_is_the_shortfall_of_the_run(name: str, rate_per_s: float, warmup_s: float) -> None:
    scenario = small({**SETTINGS[name], f"{ARRIVALS}.rate_per_s": rate_per_s, "warmup_s": warmup_s})
    episode = scenario_episode(scenario, seed=3)
    outcome = simulate_problem(episode.problem, "edf", episode.options)
    rows = pair_table(tabulate(outcome), episode.problem.requests.agreements, warmup_s).to_pylist()
    (row,) = [row for row in rows if row["slo_kind"] is not None]
    (gap,) = gaps(outcome.results, episode)
    assert (gap <= 1e-12) == row["met"]
    assert max(gap, 0.0) == pytest.approx(min(row["shortfall"], WORST))
