"""Training for a promise: what is searched, what is climbed, what the gate judges by, where it begins."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.config import load_scenario
from eunomia.config.training import load_training
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.kernel.layout import DROPPED, HIT
from eunomia.inference.policies import load_policy as by_name
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.codec import PROMISED_STARTS, PROMISES, Codec
from eunomia.learning.load import checkpoint_of, load_policy, shipped
from eunomia.learning.objectives import NEAR, OBJECTIVES, PROMISED, gaps
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, START
from eunomia.learning.policy.bases import TERMS, base_weights, with_promise
from eunomia.study.learning.scenarios import scenario_episode
from eunomia.study.learning.training import objectives, train_policy
from tests.learning.deployment import episode
from tests.learning.test_lifecycle import SCENARIO

TRAINING = """
name = "promised"
scenarios = ["tiny.toml"]
promise = "shortfall"
targets = [0.5, 0.95]
start_from = "eunomia"
requests = 60
validation = 2
[[stage]]
generations = 2
population = 4
episodes = 1
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("promises")
    (place / "tiny.toml").write_text(SCENARIO)
    (place / "train.toml").write_text(TRAINING)
    return place / "train.toml"


def test_policies_trained_for_promises_are_asked_for_by_the_promise() -> None:
    for promise, terms in TERMS.items():
        name = f"eunomia-{promise.replace('_', '-')}"
        if name in shipped():
            asked = by_name(f"eunomia(promise={promise})")
            assert asked.name == name
            assert np.array_equal(asked.weights.job, load_policy(name).weights.job)
        else:
            by_hand = by_name(f"eunomia(promise={terms})")
            assert np.array_equal(by_name(f"eunomia(promise={promise})").weights.base, by_hand.weights.base)
    assert {"eunomia-attainment", "eunomia-shortfall", "eunomia-max-min"} <= set(shipped())
    with pytest.raises(UnknownNameError, match="promise 'most'"):
        by_name("eunomia(promise=most)")


def test_evaluation_of_promises_by_hand(file: Path) -> None:
    promised = SCENARIO.replace('name = "a"\n', 'name = "a"\nslo = { hit_rate = 0.9 }\n')
    (file.parent / "promised.toml").write_text(promised)
    command = ["evaluate", "eunomia", str(file.parent / "promised.toml"), "-p", "fcfs", "--seeds", "2"]
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    episodes = [scenario_episode(load_scenario(file.parent / "promised.toml"), seed) for seed in (0, 1)]
    found = [simulate_problem(e.problem, "fcfs", e.options).results for e in episodes]
    fcfs = facts["lines"][1]
    gap = [gaps(results, e) for results, e in zip(found, episodes, strict=True)]
    assert fcfs["attainment"] == pytest.approx(np.mean([np.mean(g <= 1e-12) for g in gap]))
    assert fcfs["worst_shortfall"] == pytest.approx(np.mean([max(g.max(), 0.0) for g in gap]))
    assert fcfs["attainment_gain"] == pytest.approx(facts["lines"][0]["attainment"] - fcfs["attainment"])
    shown = CliRunner().invoke(app, command).stdout
    assert "worst shortfall" in shown and "train for these promises" in shown


def test_nearly_kept_promises_count_in_part() -> None:
    e = episode(0, requests=60)
    results = np.zeros(60, [("outcome", "i8"), ("arrival_s", "f8"), ("finish_s", "f8")])
    results["arrival_s"] = e.problem.jobs.arrival_s
    results["outcome"] = np.where(np.arange(60) % 3 < 2, HIT, DROPPED)
    gap = gaps(results, e)
    by_hand = [1.0 if g <= -NEAR else 0.0 if g >= NEAR else (NEAR - g) / (2.0 * NEAR) for g in gap]
    assert 0.0 < np.mean(by_hand) < 1.0
    assert OBJECTIVES["near_attainment"](results, e) == pytest.approx(np.mean(by_hand))
    none = replace(e, problem=e.problem._replace(jobs=e.problem.jobs._replace(slo_kind=np.full(9, -1))))
    assert OBJECTIVES["near_attainment"](results, none) == 1.0


def test_a_search_for_promises_moves_nothing_else() -> None:
    origin = with_promise(base_weights("edf+f+eft+g1.0"), "keep", 2.0)
    codec = Codec(origin, ("job", "pair", "start", "gate"), tenants=True, promises=True)
    assert codec.size == len(PROMISES) + len(PROMISED_STARTS) + 1
    found = codec.decode(np.ones(codec.size))
    moved = {name: step for name, step in zip(JOB, found.job - origin.job, strict=True) if step}
    assert moved == PROMISES
    assert {name for name, step in zip(START, found.start, strict=True) if step} == set(PROMISED_STARTS)
    assert not found.pair.any() and np.array_equal(found.base, origin.base) and found.gate > origin.gate
    assert not np.any(found.start[: len(PAIR) + len(GLOBAL)])


def test_the_gate_judges_by_the_promise_and_the_search_climbs_its_mixture(file: Path) -> None:
    assert objectives(load_training(file)) == (PROMISED["shortfall"], {"shortfall": 1.0})
    own = load_training(file, ("objective.shortfall=2",))
    assert objectives(own) == ({"shortfall": 2.0}, {"shortfall": 1.0})
    assert set(PROMISED) == set(TERMS)
    with pytest.raises(ConfigError, match="promise"):
        load_training(file, ("promise=most",))


def test_training_goes_on_from_a_shipped_policy_with_the_terms_set_by_hand(file: Path) -> None:
    outcome = train_policy(load_training(file), file.parent / "run")
    start = with_promise(checkpoint_of("eunomia").weights, "mend", 2.0)
    facts = json.loads(outcome.path.read_text())
    assert facts["started_from"]["name"] == "eunomia" and facts["training"]["promise"] == "shortfall"
    assert facts["validation"]["kept_heuristic"] == outcome.kept_heuristic
    trained = checkpoint_of(outcome.path).weights
    if outcome.kept_heuristic:
        assert not trained.learned
    else:
        assert np.array_equal(trained.base, start.base) and np.array_equal(trained.pair, start.pair)
