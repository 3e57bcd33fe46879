"""Deferrable requests: by hand, against the exhaustive optimum, uninterrupted for any weights, trained and resumed."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.config.algorithm import DeferrableAlgorithm
from eunomia.core.errors import ConfigError, RecordError, UnknownNameError
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.deferring import (
    RULES,
    Deferring,
    deferring,
)
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents import Context
from eunomia.learning.agents.deferrable import DeferrableAgent, DeferrableStarts, hit_rates, worth
from eunomia.learning.card import save
from eunomia.learning.episodes import Episode, Task
from eunomia.learning.load import card_of, load_policy
from eunomia.learning.loop import Plan, train
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.strategies import ToyPlatform, layers, toy_table
from tests.learning.agents.deferrable.optimum import Run, busy_times, offline_optimum, runs_of

OPTIONS = EngineOptions(late="drop", record="all")


def made(
    arrival_s: list[float],
    relative_s: list[float],
    pair: list[int],
    lanes: int = 1,
    bandwidth: float = np.inf,
) -> Episode:
    """Pair 0: on-demand, one layer of 2 s. Pair 1: deferrable, two of 1 s. The second type is 1.5 times slower."""
    nets = [DnnModel("now", layers(1), ()), DnnModel("later", layers(2), ((0, 1),))]
    latency = np.array([[2.0, 3.0], [1.0, 1.5], [1.0, 1.5]])[:, : min(lanes, 2)]
    types = ("a", "b")[: min(lanes, 2)]
    table = toy_table(nets, types, latency, 0.5 * latency)
    pairs = (Agreement("service", "now"), Agreement("index", "later"))
    requests = RequestTable(pairs, np.array(pair), np.array(arrival_s), np.array(relative_s),
                            deferrable=np.array(pair) == 1)  # fmt: skip
    contention = "none" if np.isinf(bandwidth) else "proportional"
    platform = ToyPlatform(types, np.arange(lanes) % len(types), bandwidth, contention)
    return Episode(build_problem(requests, table, platform, OPTIONS), OPTIONS)


def run(episode: Episode, policy: object) -> Outcome:
    return simulate_problem(episode.problem, policy, episode.options)


def starts(outcome: Outcome, request: int) -> list[float]:
    mine = outcome.subjobs[outcome.subjobs["request"] == request]
    return sorted(mine["start_s"].tolist())


def test_by_hand_on_one_accelerator() -> None:
    """A deferrable request arrives at 0 beside an on-demand one, a second on-demand one at 3.

    First fit: on-demand 0-2, deferrable 2-4 without a pause although on-demand work waits from 3 on; that runs 4-6.
    Late, over a window of [0, 10 - 2]: at 2 a quarter is over and nothing runs, so it starts all the same.
    """
    episode = made([0.0, 0.0, 3.0], [5.0, 10.0, 5.0], [0, 1, 0])
    outcome = run(episode, deferring("first_fit"))
    assert starts(outcome, 0) == [0.0] and starts(outcome, 1) == [2.0, 3.0] and starts(outcome, 2) == [4.0]
    assert (outcome.results["outcome"] == HIT).all()
    assert starts(run(episode, deferring("late")), 1) == [2.0, 3.0]


def test_late_and_spare_by_hand_on_two_accelerators() -> None:
    """On-demand requests keep one of two accelerators busy until 8; the deferrable window is [0, 20 - 2 or 20 - 3]."""
    episode = made(
        [0.0, 0.1, 2.0, 4.0, 6.0, 14.0], [9.0, 20.0, 9.0, 9.0, 9.0, 9.0], [0, 1, 0, 0, 0, 0], lanes=2
    )
    assert starts(run(episode, deferring("first_fit")), 1) == [0.1, 1.6]  # on the slow one, at once
    assert starts(run(episode, deferring("spare")), 1) == [0.1, 1.6]  # one of two is idle: half
    assert starts(run(episode, deferring("late")), 1) == [8.0, 9.0]  # nothing runs any more
    eager = Deferring("edf+f+eft", (0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    assert starts(run(episode, eager), 1) == [8.0, 9.0]  # never on a slower accelerator


def test_the_optimum_by_hand() -> None:
    # Busy 2-3; three runs of 2 by 5, 5 and 9 from 0 on: one before 2, one in 3-5, one behind it.
    runs = [Run(0.0, 5.0, np.array([2.0])), Run(0.0, 5.0, np.array([2.0])), Run(0.0, 9.0, np.array([2.0]))]
    plan = offline_optimum(runs, [[(2.0, 3.0)]])
    assert plan.served == 3 and plan.wait_s == 8.0 and plan.starts[2] == (0, 5.0)
    short = offline_optimum(
        [replace(runs[0], deadline_s=4.0), replace(runs[1], deadline_s=4.0)], [[(2.0, 3.0)]]
    )
    assert short.served == 1 and sorted(short.starts, key=str) == [(0, 0.0), None]
    both = offline_optimum(runs[:2], [[(0.0, 9.0)], []])  # no second accelerator can run them
    assert both.served == 0


WEIGHTS = st.tuples(*[st.floats(-3.0, 3.0)] * 9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), WEIGHTS, st.integers(1, 3), st.booleans())
def test_runs_are_whole_and_no_rule_beats_the_optimum(
    seed: int, weights: tuple[float, ...], lanes: int, scarce: bool
) -> None:
    rng = np.random.default_rng(seed)
    pair = rng.permutation([0] * 5 + [1] * 4).tolist()
    relative = np.where(np.array(pair) == 1, rng.uniform(3.0, 12.0, 9), rng.uniform(4.0, 12.0, 9))
    arrival = np.sort(rng.uniform(0.0, 8.0, 9))
    episode = made(arrival.tolist(), relative.tolist(), pair, lanes, 0.8 if scarce else np.inf)
    alone = np.array(pair) == 0
    first = made(arrival[alone].tolist(), relative[alone].tolist(), [0] * 5, lanes)
    undisturbed = run(first, "edf+f+eft")
    for policy in (*map(deferring, RULES), Deferring("edf+f+eft", weights)):
        outcome = run(episode, policy)
        jobs = outcome.subjobs
        for k in np.flatnonzero(~alone).tolist():
            mine = np.sort(jobs[jobs["request"] == k], order="start_s")
            if len(mine):
                assert mine["start_s"][0] + 1e-9 >= arrival[k] and len(set(mine["accelerator"].tolist())) == 1
                np.testing.assert_allclose(mine["start_s"][1:], mine["end_s"][:-1])
                between = jobs[(jobs["accelerator"] == mine["accelerator"][0]) & (jobs["request"] != k)]
                assert not (
                    (between["start_s"] > mine["start_s"][0]) & (between["start_s"] < mine["end_s"][-1])
                ).any()
        ours = np.sort(jobs[np.isin(jobs["request"], np.flatnonzero(alone))], order="request")["start_s"]
        theirs = np.sort(undisturbed.subjobs, order="request")["start_s"]
        if not scarce and len(ours) == len(theirs) and np.allclose(ours, theirs):
            best = offline_optimum(runs_of(episode.problem), busy_times(undisturbed.subjobs, lanes))
            assert (outcome.results["outcome"][~alone] == HIT).sum() <= best.served


class Small:
    """A service whose load comes and goes, and work that may wait."""

    def _one(self, seed: int) -> Episode:
        rng = np.random.default_rng(seed)
        pair = (rng.random(30) < 0.5).astype(int)
        relative = np.where(pair == 1, rng.uniform(6.0, 20.0, 30), rng.uniform(3.2, 4.0, 30))
        return made(np.cumsum(rng.exponential(1.0 / 0.6, 30)).tolist(), relative.tolist(), pair.tolist(), 2)

    def training(self, generation: int, count: int) -> list[Episode]:
        return [self._one(1000 * generation + n) for n in range(count)]

    def validation(self) -> list[Episode]:
        return [self._one(seed) for seed in range(4)]


def test_training_finds_better_starts() -> None:
    settings = DeferrableAlgorithm(name="deferrable", episodes=3, population=8)
    done = train(DeferrableAgent(settings, Context(Task(Small(), partial(worth, share=0.5)))), Plan(6, 2))
    assert done.values.mean() > done.start_values.mean()


def test_cards_names_and_what_cannot_be(tmp_path: Path) -> None:
    episode = Small().validation()[0]
    policy = DeferrableStarts("edf+f+eft", (0.0, 0.0, -3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.2), "mine")
    path = save(policy, tmp_path / "mine", {"cpu_s": 1})
    again = load_policy(path)
    assert hit_rates(again, episode) == hit_rates(policy, episode) and card_of(path)["cpu_s"] == 1
    tensors = path.with_suffix(".safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-4])
    with pytest.raises(RecordError, match="cut short"):
        load_policy(path)
    with pytest.raises(UnknownNameError, match="rule for deferrable requests 'soon'"):
        deferring("soon")
    for weights in ((1.0,), (np.nan,) * 9):
        with pytest.raises(ConfigError, match="9 finite numbers"):
            Deferring("edf", weights)


SCENARIO = """
name = "d"
duration_s = 0.3
[platform]
accelerators = [{ type = "simba", count = 2 }]
dram_bandwidth_gb_s = 8.0
[engine]
late = "drop"
[[tenant]]
name = "service"
arrivals = { process = "poisson", rate_per_s = 150.0 }
models = [{ model = "kws-res8", deadline_factor = 3.0 }]
[[tenant]]
name = "index"
arrivals = { process = "poisson", rate_per_s = 60.0 }
defer_s = [0.05, 0.2]
models = [{ model = "kws-res8" }]
"""


def test_it_is_a_policy_by_name_and_trained_from_a_file(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "d.toml").write_text(SCENARIO)
    (tmp_path / "t.toml").write_text(
        'name = "waits"\nscenarios = ["d.toml"]\nrequests = 20\nvalidation = 2\n'
        '[algorithm]\nname = "deferrable"\niterations = 2\npopulation = 4\nepisodes = 1\n'
    )
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "t.toml"), "--out", str(tmp_path / "r"), "--json"]
    )
    assert done.exit_code == 0, done.output
    facts, card = json.loads(done.stdout), json.loads((tmp_path / "r" / "waits.json").read_text())
    assert card["family"] == "deferrable" and facts["heuristic"].startswith("deferring(base=edf+f+eft,when=")
    for name in ("deferring(when=late)", str(tmp_path / "r" / "waits.json")):
        ran = CliRunner().invoke(
            app,
            ["run", str(tmp_path / "d.toml"), "-p", name, "--out", str(tmp_path / "o"), "--json", "--force"],
        )
        assert ran.exit_code == 0, ran.output
