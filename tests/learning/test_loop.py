"""Every agent in the one loop: stopped anywhere it ends in the same bits; states of others are refused."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
from eunomia.config.algorithm import (  # noqa: E402
    BdqAlgorithm,
    DeferrableAlgorithm,
    OwnAlgorithm,
    PlacementAlgorithm,
    PpoAlgorithm,
    RelmasAlgorithm,
    SacAlgorithm,
)
from eunomia.config.section import Section  # noqa: E402
from eunomia.config.training import StageConfig  # noqa: E402
from eunomia.core.errors import ConfigError, RecordError, UnknownNameError  # noqa: E402
from eunomia.learning.agents import AGENTS, Context, make_agent  # noqa: E402
from eunomia.learning.agents.a3c.agent import placement_task  # noqa: E402
from eunomia.learning.agents.deferrable import worth  # noqa: E402
from eunomia.learning.episodes import Episode, Task  # noqa: E402
from eunomia.learning.loop import Agent, Plan, Progress, Trained, train  # noqa: E402
from eunomia.learning.objectives import task_of  # noqa: E402
from eunomia.learning.policy.bases import base_weights  # noqa: E402
from eunomia.learning.state import FILE, PIECES  # noqa: E402
from tests.learning.deployment import episode  # noqa: E402

RULE = "edf+f+eft+g1.0"


class SmallSampler:
    """Episodes of a few dozen decisions."""

    def training(self, generation: int, count: int) -> list[Episode]:
        return [episode(1000 * generation + i, requests=12) for i in range(count)]

    def validation(self) -> list[Episode]:
        return [episode(seed, requests=12) for seed in range(2)]


PLAYED = {"episodes": 2, "units": 8, "most": 6}
CLONED = {"clone_episodes": 1, "clone_steps": 4, "updates": 3, "critic_first": 1, "units": 8, "iterations": 3}
SETTINGS: dict[str, Section] = {
    "evolution": StageConfig(population=4, episodes=2),
    "expert": StageConfig(trainer="expert", episodes=2, share=0.5),
    "ddpg": RelmasAlgorithm(name="ddpg", reward="R5", imitation=0.5, **CLONED),
    "td3": RelmasAlgorithm(name="td3", period_layers=0.5, **CLONED),
    "ppo": PpoAlgorithm(name="ppo", epochs=2, minibatch=64, **PLAYED),
    "sac": SacAlgorithm(name="sac", batch=8, replay=150, every=12, **PLAYED),
    "bdq": BdqAlgorithm(
        name="bdq", batch=16, replay=150, every=12, copy_every=5, auxiliaries=["next_demand"], **PLAYED
    ),
    "deferrable": DeferrableAlgorithm(name="deferrable", population=4, episodes=2),
    "a2c": PlacementAlgorithm(
        name="a2c", workers=2, traces=1, steps=6, units=4, rate=0.01, tasks=6, devices=2
    ),
}


def agent_of(name: str, settings: Section | None = None) -> Agent:
    """A small agent of every name."""
    settings = settings or SETTINGS.get(name) or OwnAlgorithm(name="own", agent=name)
    task = task_of(SmallSampler(), {"hit_rate": 1.0})
    if isinstance(settings, PlacementAlgorithm):
        task = placement_task(settings, 3, 3)
    if isinstance(settings, DeferrableAlgorithm):
        task = Task(SmallSampler(), partial(worth, share=0.5))
    made = make_agent(name, settings, Context(task, 3, base_weights(RULE), name == "ddpg", rule=RULE))
    if name == "sac":
        made.first, made.critic_first = 20, 5  # type: ignore[attr-defined]
    return made


def same(one: Trained, other: Trained) -> bool:
    """Whether two trainings are equal to the bit."""
    return str(one.curve) == str(other.curve) and all(
        value.tobytes() == other.tensors[key].tobytes() for key, value in one.tensors.items()
    )


def stop_at(iteration: int) -> Callable[[Progress], None]:
    def interrupt(progress: Progress) -> None:
        if progress.entry["iteration"] == iteration:
            raise KeyboardInterrupt

    return interrupt


def test_settings_are_those_of_agents_and_other_names_are_refused() -> None:
    assert set(SETTINGS) < set(AGENTS)
    with pytest.raises(UnknownNameError, match="training algorithm 'dqn'"):
        make_agent("dqn", None, Context(task_of(SmallSampler(), {"hit_rate": 1.0})))


@pytest.mark.parametrize(
    "name", [name for name in AGENTS if name != "a3c"]
)  # the asynchronous one never repeats
def test_a_training_stopped_anywhere_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    plan = Plan(3, 1 if name == "expert" else 2, "x")
    first = agent_of(name)
    start, whole = first.tensors(), train(first, plan)
    for stop in (1, 2):
        folder = tmp_path / str(stop)
        with pytest.raises(KeyboardInterrupt):
            train(agent_of(name), plan, folder, tell=stop_at(stop))
        resumed = agent_of(name)
        assert same(whole, train(resumed, plan, folder))
        final = resumed.tensors()
        assert any(not np.array_equal(value, start[key]) for key, value in final.items())
    assert whole.values.mean() >= whole.start_values.mean()
    kept = {path.stem for path in (folder / PIECES).glob("*")}
    assert kept == set(resumed.pieces())
    with pytest.raises(RecordError, match="other settings"):
        train(agent_of(name), Plan(3, 2, "y"), folder)
    (folder / FILE).write_bytes(b"cut")
    with pytest.raises(RecordError, match="cannot be read"):
        train(agent_of(name), plan, folder)


def test_a_policy_goes_to_other_processes_and_is_worth_the_same_there() -> None:
    plan = Plan(1, 1)
    assert same(train(agent_of("evolution"), plan), train(agent_of("evolution"), plan, workers=2))


OWN = """
from eunomia.learning.agents.deferrable import DeferrableAgent

class Mine(DeferrableAgent):
    def __init__(self, section, context):
        from eunomia.config.algorithm import DeferrableAlgorithm
        super().__init__(DeferrableAlgorithm(name="deferrable", **section["settings"]), context)
"""


def test_an_agent_of_ones_own_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    section = {"settings": {"population": 4}}
    task = Task(SmallSampler(), partial(worth, share=0.5))
    made = make_agent(f"{tmp_path}/mine.py:Mine", section, Context(task))
    assert len(train(made, Plan(1, 1)).values) == 2
    for wrong, complaint in (
        ("mine.py:Yours", "mine.py 'Yours'"),
        ("none.py:Mine", "no training algorithm file"),
    ):
        with pytest.raises((ConfigError, UnknownNameError), match=complaint):
            make_agent(f"{tmp_path}/{wrong}", section, Context(task))
