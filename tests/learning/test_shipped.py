"""Policies that come with the package load without torch, know where they come from, and beat what they began with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.config.load import scenario_from
from eunomia.inference.policies import load_policy as by_name
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.load import card_of, load_policy, shipped
from eunomia.learning.objectives import hit_rate
from eunomia.learning.policy.bases import with_promise
from eunomia.study.learning.scenarios import scenario_episode
from tests import children
from tests.learning.deployment import episode


@pytest.mark.parametrize(
    "name", [name for name in shipped() if not name.startswith("relmas")]
)  # tests of its own: relmas/
def test_it_loads_and_its_card_says_where_it_comes_from(name: str) -> None:
    policy, card = load_policy(name), card_of(name)
    seen = policy.weights.low[: len(card["features"]["job"])]  # those that came later have no range
    assert policy.weights.learned and np.isfinite(seen).all()
    program, verb, file, *_ = card["command"].split()
    assert (program, verb) == ("eunomia", "train") and (Path("studies/training") / Path(file).name).is_file()
    assert (
        card["validation"]["gain"] > card["validation"]["error"] and not card["validation"]["kept_heuristic"]
    )


def test_eunomia_is_a_policy_by_name() -> None:
    assert "eunomia" in shipped() and by_name("eunomia").name == "eunomia"
    asked = by_name("eunomia(promise=mend,strength=1)")
    assert np.array_equal(asked.weights.base, with_promise(by_name("eunomia").weights, "mend", 1.0).base)


def test_it_beats_its_base_on_networks_that_it_never_saw() -> None:
    tenant = {"name": "a", "model_set": "moca-mixed", "deadline": "qos_m", "deadline_alpha": 3.0,
              "arrivals": {"process": "poisson", "rate_per_s": 1100.0}}  # fmt: skip
    accelerators = [{"type": "simba", "count": 4}, {"type": "eyeriss", "count": 4}]
    scenario = scenario_from({"name": "moca", "duration_s": 0.4, "tenant": [tenant], "engine": {"late": "drop"},
                              "platform": {"accelerators": accelerators, "dram_bandwidth_gb_s": 24.0}})  # fmt: skip
    assert not {"squeezenet", "yolov2", "resnet50"} & set(card_of("eunomia")["trained_on"])
    rates = {}
    for name in ("eunomia", card_of("eunomia")["validation"]["heuristic"]):
        episodes = [scenario_episode(scenario, seed) for seed in range(4)]
        rates[name] = [hit_rate(simulate_problem(e.problem, name, e.options).results, e) for e in episodes]
    ours, base = (np.mean(values) for values in rates.values())
    assert ours > base + 0.005


@pytest.mark.parametrize("contention", ["none", "roofline_static"])
def test_where_nothing_is_shared_it_decides_as_if_bandwidth_were_infinite(contention: str) -> None:
    e = episode(3, requests=80, load=1.6)
    apart, policy = e.problem._replace(contention=contention), load_policy("eunomia")
    ours = simulate_problem(apart, policy, e.options).results
    assert policy.counts["unshared"] == 1
    if contention == "none":  # under the other one, bandwidth sets the time of a layer
        wide = load_policy("eunomia")
        wide.shared = False
        theirs = simulate_problem(apart._replace(bandwidth_bytes_s=np.inf), wide, e.options).results
        assert np.array_equal(ours["finish_s"], theirs["finish_s"], equal_nan=True)
    stepped = load_policy("eunomia")
    again = simulate_problem(apart, stepped, e.options, stepped=True).results
    assert np.array_equal(ours["finish_s"], again["finish_s"], equal_nan=True)
    thrifty = load_policy("eunomia")
    thrifty.shared = False  # it saves a bandwidth that nobody else needs
    held_back = simulate_problem(apart, thrifty, e.options).results
    assert not np.array_equal(ours["finish_s"], held_back["finish_s"], equal_nan=True)
    holds = policy.counts["holds"]
    simulate_problem(e.problem, policy, e.options)  # the same policy, where bandwidth is shared
    assert policy.counts["unshared"] == 1 and policy.counts["holds"] > holds


@pytest.mark.parametrize("contention", ["proportional", "max_min", "weighted"])
def test_late_work_is_no_reason_for_alarm(contention: str) -> None:
    """Under ``last``, the engine's default, hopeless requests stay; the policy was trained under ``drop``."""
    e = episode(5, requests=250, load=1.6)
    policy, deaf = load_policy("eunomia", alarm=0.5), load_policy("eunomia")
    problem, options = e.problem._replace(contention=contention), replace(e.options, late="last")
    ours, theirs = (simulate_problem(problem, p, options).results["outcome"] for p in (policy, deaf))
    assert np.array_equal(ours, theirs)
    assert policy.counts["strange"] < 0.05 * policy.counts["decisions"]


def test_serving_needs_no_torch() -> None:
    code = "import sys; from eunomia.learning.load import eunomia as e; e(); print('torch' in sys.modules)"
    done = children.run(children.python("-c", code))
    assert done.stdout.strip() == "False", done.stderr


def test_a_live_curve_for_tensorboard(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    from eunomia.study.learning.board import Board

    board = Board(tmp_path)
    board.add("linear", {"iteration": 3.0, "mean": 0.5, "validation": 0.75})
    (file,) = tmp_path.iterdir()
    events = [e for e in EventFileLoader(str(file)).Load() if e.summary.value]
    found = {v.tag: (e.step, v.tensor.float_val[0] if v.tensor.float_val else v.simple_value)
             for e in events for v in e.summary.value}  # fmt: skip
    assert found == {"linear/mean": (3, 0.5), "linear/validation": (3, 0.75)}
