"""Actor-critic: returns by hand, NumPy and PyTorch alike, resuming to the bit, processes, and that it learns."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from typer.testing import CliRunner  # noqa: E402

from eunomia.cli.main import app  # noqa: E402
from eunomia.config.algorithm import PlacementAlgorithm  # noqa: E402
from eunomia.core.errors import PolicyError  # noqa: E402
from eunomia.engines.crew import Workers  # noqa: E402
from eunomia.inference.environments.edge_cloud.case import draw  # noqa: E402
from eunomia.inference.environments.edge_cloud.features import observe  # noqa: E402
from eunomia.inference.environments.edge_cloud.rules import find_rule, measured, run  # noqa: E402
from eunomia.inference.environments.edge_cloud.traces import Cases  # noqa: E402
from eunomia.inference.environments.edge_cloud.world import World  # noqa: E402
from eunomia.learning.agents import Context  # noqa: E402
from eunomia.learning.agents.a3c import learner  # noqa: E402
from eunomia.learning.agents.a3c.agent import PlacementAgent, placement_task, reward_of  # noqa: E402
from eunomia.learning.agents.a3c.learner import (  # noqa: E402
    Worker,
    _gradient,
    _Walk,
    evaluate,
    first_tensors,
    flat,
    goals_of,
    returns,
    unflat,
)
from eunomia.learning.agents.a3c.policy import PreferencePlacement, shapes  # noqa: E402
from eunomia.learning.episodes import Task  # noqa: E402
from eunomia.learning.loop import Plan, train  # noqa: E402

SMALL = PlacementAlgorithm(
    name="a2c", workers=2, traces=1, steps=6, units=4, rate=0.01, tasks=6, devices=2, tenants=2
)


def test_returns_by_hand() -> None:
    # From behind with rho 0.5: 2 - 0.5 * 2 + 4 = 5; 0 - 0.5 * 1 + 5 = 4.5; 1 - 0 + 4.5 = 5.5.
    assert returns([1.0, 0.0, 2.0], [0.0, 1.0, 2.0], 4.0, 0.5).tolist() == [5.5, 4.5, 5.0]


def test_torch_and_numpy_agree_whatever_the_padding() -> None:
    rng = np.random.default_rng(0)
    tensors = {name: rng.standard_normal(shape) for name, shape in shapes(5).items()}
    theta = flat(tensors)
    case = draw(2, tasks=8, devices=3, bars=0.0)
    world = World(replace(case, arrival_s=np.full(8, case.join_s.max()), deadline_s=np.full(8, 1e3)))
    world.advance()
    found = PreferencePlacement(tensors).decision(world)
    features, overall = observe(world)
    x = torch.zeros(1, len(found.pairs) + 3, features.shape[2], dtype=torch.float64)
    legal = torch.zeros(1, len(found.pairs) + 3, dtype=torch.bool)
    x[0, : len(found.pairs)] = torch.from_numpy(features[found.pairs[:, 0], found.pairs[:, 1]])
    legal[0, : len(found.pairs)] = True
    log, value = evaluate(unflat(theta, 5), x, torch.from_numpy(overall)[None], legal)
    kept = [*range(len(found.pairs)), len(found.pairs) + 3]
    np.testing.assert_allclose(log[0, kept].exp(), found.odds, atol=1e-9)
    assert value.item() == pytest.approx(found.value) and len(found.pairs) > 1


def test_it_begins_as_the_greedy_rule() -> None:
    policy = PreferencePlacement(first_tensors(4, 0))
    for seed in range(5):
        case = draw(seed, tasks=10, devices=3)
        ours, rule = run(case, policy), run(case, find_rule("greedy_gain"))
        assert ours.device.tolist() == rule.device.tolist()


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_a_step_makes_likelier_what_was_better_than_expected(
    reward: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start every value is 0, so that the reward is the surprise."""
    monkeypatch.setattr(learner, "VALUE_WEIGHT", 0.0)
    settings = SMALL.model_copy(update={"entropy": 0.0})
    world = World(draw(4, tasks=6, devices=3, bars=0.0))
    start = first_tensors(4, 1)
    found = PreferencePlacement(start).decision(world)
    features, overall = observe(world)
    walk = _Walk([(features[found.pairs[:, 0], found.pairs[:, 1]], overall)], [0], [reward], [0.0])
    theta = flat(start)
    after = theta - _gradient(theta, walk, 0.0, 0.0, settings)
    moved = PreferencePlacement({name: value.numpy() for name, value in unflat(after, 4).items()}).decision(
        world
    )
    assert np.sign(moved.odds[0] - found.odds[0]) == reward and abs(moved.odds[0] - found.odds[0]) > 1e-4


def test_a_worker_ends_with_its_traces() -> None:
    worker = Worker(
        SMALL.model_copy(update={"steps": 50}), [draw(4, tasks=6, devices=2)], np.random.default_rng(0)
    )
    theta = flat(first_tensors(4, 1))
    found = worker.segment(theta, 0.0)
    assert (
        found is not None
        and found[1] > 0.0
        and worker.segment(theta, 0.0) is None
        and len(worker.rewards) == 1
    )


def test_it_learns_to_wait_where_waiting_pays() -> None:
    """Only tasks that wait earn anything much: the greedy start takes the poor device that is there first."""

    class Poor(Cases):
        def one(self, seed: int):  # type: ignore[no-untyped-def]
            case = draw(seed, 1, 2, 1, bars=0.0)
            return replace(
                case, arrival_s=np.zeros(1), deadline_s=np.array([9.0]), work_s=np.ones(1), speed=np.ones(2),
                join_s=np.array([0.0, 1.0]), leave_s=np.array([5.0, 9.0]), device_gb=np.full(2, 99.0),
                tenant_likes=np.array([[0.15, 1.0]]), device_likes=np.ones((2, 1)),
            )  # fmt: skip

    s = SMALL.model_copy(update={"steps": 4, "units": 8, "rate": 0.02, "entropy": 0.02})
    task = Task(Poor(traces=4, kept=2), partial(reward_of, goals=goals_of(s)))
    done = train(PlacementAgent(s, Context(task, 3)), Plan(60, 10))
    assert done.values.mean() > done.start_values.mean() + 0.5


def test_workers_in_processes_of_their_own() -> None:
    settings = SMALL.model_copy(update={"name": "a3c"})
    agent = PlacementAgent(settings, Context(placement_task(settings, 3, 0), 3))
    try:
        before = agent.tensors()
        entry = agent.iterate(1, Workers())
        assert np.isfinite(entry["reward"]) and entry["workers_cpu_s"] > 0.0
        assert any(not np.array_equal(before[name], value) for name, value in agent.tensors().items())
        assert all(np.isfinite(value).all() for value in agent.tensors().values())
        agent._crew.members[0][0].kill()
        with pytest.raises(PolicyError, match="ended before its time"):
            agent.iterate(2, Workers())
    finally:
        agent.close()
    assert agent._crew is None


def test_it_is_trained_from_a_file(tmp_path: Path) -> None:
    text = """
name = "places"
validation = 2
[algorithm]
name = "a2c"
iterations = 2
tasks = 5
devices = 2
workers = 2
"""
    (tmp_path / "t.toml").write_text(text)
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "t.toml"), "--out", str(tmp_path / "r"), "--json"]
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    card = json.loads((tmp_path / "r" / "places.json").read_text())
    assert card["family"] == "placement" and card["validation"]["gain"] == facts["gain"]
    policy = PreferencePlacement(first_tensors(32, 0))
    start = [measured(case, policy).reward for case in Cases(5, 2, traces=2, kept=2).validation()]
    assert card["validation"]["start_mean"] == pytest.approx(np.mean(start))
