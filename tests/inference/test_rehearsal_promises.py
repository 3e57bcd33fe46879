"""Rehearsal for an objective: what is raced for, what hits cost, what is recorded and told."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from eunomia.inference import rehearsal
from eunomia.inference.candidates import Pledge
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.rehearsal import Rehearsed
from eunomia.inference.rehearsal_promises import LOSE, PRICE, Guarded
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.load import eunomia
from eunomia.learning.objectives import OBJECTIVES
from eunomia.report.explain import explain
from eunomia.study.inference.run import run
from eunomia.workload.arrivals import Poisson
from eunomia.workload.deadlines import IsolatedFactor
from eunomia.workload.generate import generate
from eunomia.workload.model import DnnModel
from eunomia.workload.stream import Draw, Stream
from eunomia.workload.tenant import Agreement, Slo
from tests.inference.strategies import ToyPlatform, layers, toy_table

OPTIONS = EngineOptions(late="drop", record="requests")
NETS = [DnnModel(name, layers(3), ((0, 1), (1, 2))) for name in ("low", "high")]
RATE = 0.5
BUDGET = 1_500_000


def problem(seed: int = 0, count: int = 60) -> Problem:
    """One accelerator, too much work, two alike but for their promises: 0.2 and 0.9."""
    streams = [
        Stream((Draw(Agreement(name, name, Slo(target)), deadline=IsolatedFactor(2.0)),), Poisson(RATE / 2.0))
        for name, target in (("low", 0.2), ("high", 0.9))
    ]
    requests = generate(streams, count / RATE, seed, iso_best_s={"low": 3.0, "high": 3.0})
    table = toy_table(NETS, ("a",), np.ones((6, 1)))
    return build_problem(requests, table, ToyPlatform(("a",), np.zeros(1, np.int64)), OPTIONS)


def chosen(promise: str, made: Problem, options: EngineOptions = OPTIONS) -> Rehearsed:
    policy = eunomia(promise, rehearse=BUDGET)
    policy.choose(made, options)
    assert policy.rehearsed is not None
    return policy.rehearsed


def test_what_was_rehearsed_serves_the_promise_better_than_deadlines_do() -> None:
    made, values = [problem(seed) for seed in range(6)], {}
    name = chosen("shortfall", made[0]).name
    for policy in (name, "edf+f"):
        found = []
        for one in made:
            ready = load_policy(policy) if policy != "eunomia-shortfall" else eunomia("shortfall", rehearse=0)
            outcome = simulate_problem(one, ready, OPTIONS)
            episode = rehearsal_episode(one)
            found.append(OBJECTIVES["shortfall"](outcome.results, episode))
        values[policy] = np.mean(found)
    assert values[name] > values["edf+f"] + 0.02


def rehearsal_episode(made: Problem):  # type: ignore[no-untyped-def]
    from eunomia.learning.episodes import Episode

    return Episode(made, OPTIONS)


def test_neither_requests_nor_seed_nor_other_races_change_the_choice() -> None:
    one = chosen("attainment", problem(seed=1))
    chosen("max_min", problem(seed=1))  # shares runs
    rehearsal._KEPT.clear()
    assert chosen("attainment", problem(seed=2), replace(OPTIONS, seed=9)) == one
    rehearsal._KEPT.clear(), rehearsal._RUNS.clear()
    assert chosen("attainment", problem(seed=1)) == one
    assert one.aim == "0.6 near_attainment + 0.4 attainment + 0.1 hit_rate" and one.scores


def test_hits_far_below_the_rivals_cost() -> None:
    race = Guarded(problem(), OPTIONS, lambda problem, outcome: 1.0, {})
    race.rival = "sjf+f"
    for n in range(2):
        race.found |= {("sjf+f", n): 1.0, ("few", n): 1.0, ("near", n): 1.0}
        race.hits |= {("sjf+f", n): 0.8, ("few", n): 0.7, ("near", n): 0.8 - LOSE}
    assert race.mean("few", range(2)) == pytest.approx(1.0 - PRICE * (0.1 - LOSE))
    assert race.mean("near", range(2)) == pytest.approx(1.0) == race.mean("sjf+f", range(2))


def test_points_have_names_and_neighbours() -> None:
    point = Pledge((1.0, 0.5, 0.4, -6.0, -0.3), 0.9, "eft")
    assert load_policy(point.name).gate == 0.9  # type: ignore[attr-defined]
    moved = [point.moved(np.random.default_rng(n), 1.0) for n in range(20)]
    assert len(set(moved)) == 20 and all(load_policy(one.name) for one in moved)


def test_any_mixture_is_an_aim_and_travels() -> None:
    policy = load_policy("eunomia(promise=0.5*fairness+0.5*hit_rate)")
    assert str(pickle.loads(pickle.dumps(policy)).aim.worth) == "0.5 fairness + 0.5 hit_rate"
    assert load_policy("eunomia(promise=attainment,rehearse=0)").budget == 0  # type: ignore[attr-defined]
    assert load_policy("eunomia(promise=keep)").budget == 0  # type: ignore[attr-defined]


def test_what_was_chosen_is_recorded_and_told() -> None:
    tenant = {
        "name": "u",
        "arrivals": {"process": "poisson", "rate_per_s": 400.0},
        "models": [{"model": "squeezenet", "deadline_factor": 3.0, "slo": {"hit_rate": 0.8}}],
    }
    platform = {"accelerators": [{"type": "simba", "count": 2}], "dram_bandwidth_gb_s": 8.0}
    scenario = {"name": "small", "duration_s": 0.1, "platform": platform, "tenant": [tenant]}
    done = run(scenario, f"eunomia(promise=shortfall,rehearse={BUDGET})")
    facts = done.records.manifest["policy"]["rehearsed"]
    assert facts["aim"] == "1 shortfall + 0.05 hit_rate" and facts["chosen"] in facts["scores"]
    assert any("worth is 1 shortfall" in line for line in explain(done.records, 0).doubts)
