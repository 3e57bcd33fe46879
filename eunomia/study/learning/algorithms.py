"""Training by a named algorithm: from a training file to a card. A new trainer is a function and a line in the table.

Each trains on episodes of the scenarios, keeps the weights that were best on validation, and is compared with the best
heuristic there. Unlike the search in stages it keeps its own policy even where that one does not win; the card says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from eunomia.config.algorithm import (
    BdqAlgorithm,
    DeferrableAlgorithm,
    PlacementAlgorithm,
    PpoAlgorithm,
    RelmasAlgorithm,
    SacAlgorithm,
)
from eunomia.config.training import TrainingConfig
from eunomia.core.errors import ConfigError
from eunomia.learning.objectives import check_objective
from eunomia.study.learning.training import Heuristic, ScenarioSampler, best_heuristic, episode_facts

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """One iteration: what the curve shows, how many there are, how long the rest will take."""

    entry: dict[str, float]
    iterations: int
    left_s: float


Tell = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class Learned:
    """What a trainer hands back: the objective on validation episodes, and how to write its card."""

    values: Floats
    start_values: Floats  # of what it began with
    cpu_s: float
    curve: tuple[dict[str, float], ...]
    save: Callable[[Path, Mapping[str, Any]], Path]


@dataclass(frozen=True, eq=False)
class AlgorithmOutcome:
    """A finished training beside the best heuristic on the same validation episodes."""

    name: str
    path: Path
    learned: Learned
    heuristic: Heuristic
    gain: float  # over the heuristic, mean paired difference
    error: float  # its standard error over episodes


def train_by_algorithm(
    config: TrainingConfig, folder: Path, tell: Tell | None = None, command: str = ""
) -> AlgorithmOutcome:
    """Train, compare, write the card. A stopped training goes on where it was. Raises ConfigError, RecordError."""
    assert config.algorithm is not None, "asked for with a table [algorithm]"
    if isinstance(config.algorithm, PlacementAlgorithm):
        return _placement(config, config.algorithm, folder, tell, command)
    if isinstance(config.algorithm, DeferrableAlgorithm):
        return _deferrable(config, config.algorithm, folder, tell, command)
    check_objective(config.objective)
    sampler = ScenarioSampler(config)
    learned = TRAINERS[config.algorithm.name](config, sampler, folder, tell)
    episodes = sampler.validation()
    tenants = config.targets is not None or any((e.problem.jobs.slo_kind >= 0).any() for e in episodes)
    heuristic = best_heuristic(episodes, config.objective, tenants)
    return _outcome(config, folder, learned, heuristic, command, episode_facts(episodes))


def _outcome(
    config: TrainingConfig, folder: Path, learned: Learned, heuristic: Heuristic, command: str, more: Mapping[str, Any]
) -> AlgorithmOutcome:  # fmt: skip
    """Compare on validation and write the card."""
    difference = learned.values - heuristic.values
    gain = float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0
    facts = {
        "command": command, "training": config.model_dump(mode="json", exclude={"scenarios", "start_from", "stage"}),
        **more, "iterations": int(learned.curve[-1]["iteration"]), "cpu_s": round(learned.cpu_s, 1),
        "validation": {
            "episodes": len(difference), "heuristic": heuristic.name, "heuristic_mean": float(heuristic.values.mean()),
            "start_mean": float(learned.start_values.mean()), "gain": gain, "error": error,
        },
    }  # fmt: skip
    return AlgorithmOutcome(
        config.name, learned.save(folder / config.name, facts), learned, heuristic, gain, error
    )


def _relmas(config: TrainingConfig, sampler: ScenarioSampler, folder: Path, tell: Tell | None) -> Learned:
    """DDPG or TD3 over lists of sub-jobs; with targets, Fair/Firm's features."""
    from eunomia.learning.agents.ddpg.agent import Progress, Settings, train
    from eunomia.learning.agents.ddpg.card import save_relmas
    from eunomia.learning.agents.ddpg.ddpg import Rates
    from eunomia.learning.agents.ddpg.policy import RelmasPolicy
    from eunomia.learning.rewards import RewardSettings

    a = cast("RelmasAlgorithm", config.algorithm)
    promises = config.targets is not None
    settings = Settings(
        _lanes(sampler), promises, a.reward, RewardSettings(spread=a.spread), a.scale,
        Rates(gamma=a.gamma, units=a.units, twin=a.name == "td3"), a.period_layers,
        clone_episodes=a.clone_episodes, clone_steps=a.clone_steps, iterations=a.iterations, episodes=a.episodes,
        updates=a.updates, critic_first=a.critic_first, imitation=a.imitation, validate_every=a.validate_every,
        objective=config.objective, seed=config.seed, about=sampler.about,
    )  # fmt: skip

    def told(progress: Progress) -> None:
        if tell is not None:
            tell(Step(progress.entry, progress.iterations, progress.left_s))

    done = train(settings, sampler, folder / "state", told)
    policy = RelmasPolicy(done.actor, config.name, a.period_layers, settings.hold, settings.period_mode)
    return Learned(done.values, done.clone_values, done.cpu_s, done.curve,
                   lambda path, facts: save_relmas(policy, path, dict(facts)))  # fmt: skip


def _ppo(config: TrainingConfig, sampler: ScenarioSampler, folder: Path, tell: Tell | None) -> Learned:
    """PPO with a masked pointer."""
    from eunomia.learning.agents.ppo import PPOAgent, Settings

    a = cast("PpoAlgorithm", config.algorithm)
    settings = Settings(epochs=a.epochs, minibatch=a.minibatch, rate=a.rate, gamma=a.gamma,
                        entropy_weight=a.entropy, units=a.units, seed=config.seed)  # fmt: skip
    agent = PPOAgent(settings, _play(a, "priority_eft"), sampler, config.objective)
    return _looped(agent, config, sampler.about, folder, tell, _save_pointer(config, a.most))


def _sac(config: TrainingConfig, sampler: ScenarioSampler, folder: Path, tell: Tell | None) -> Learned:
    """Discrete SAC with masked pointers."""
    from eunomia.learning.agents.sac import SACAgent, Settings

    a = cast("SacAlgorithm", config.algorithm)
    settings = Settings(every=a.every, batch=a.batch, replay=a.replay, rate=a.rate, gamma=a.gamma, units=a.units,
                        seed=config.seed)  # fmt: skip
    agent = SACAgent(settings, _play(a, "priority_eft"), sampler, config.objective)
    return _looped(agent, config, sampler.about, folder, tell, _save_pointer(config, a.most))


def _bdq(config: TrainingConfig, sampler: ScenarioSampler, folder: Path, tell: Tell | None) -> Learned:
    """Branching Q, with or without auxiliary losses."""
    from eunomia.learning.agents.bdq.agent import BranchingAgent, BranchingSettings
    from eunomia.learning.agents.bdq.policy import BranchingPolicy, BranchingWeights, save_branching

    a = cast("BdqAlgorithm", config.algorithm)
    settings = BranchingSettings(
        a.iterations, a.units, a.shared, a.gamma, a.rate, a.batch, a.replay, a.every, a.copy_every,
        auxiliaries=tuple(a.auxiliaries), auxiliary=a.auxiliary, seed=config.seed,
    )  # fmt: skip
    heads = 1 if a.shared else _lanes(sampler)

    def save(tensors: dict[str, Floats], path: Path, facts: Mapping[str, Any]) -> Path:
        weights = BranchingWeights(a.units, heads, tensors)
        return save_branching(BranchingPolicy(weights, config.name, a.most), path, dict(facts))

    agent = BranchingAgent(settings, _play(a, "branch"), sampler, config.objective)
    return _looped(agent, config, sampler.about, folder, tell, save)


Trainer = Callable[[TrainingConfig, ScenarioSampler, Path, "Tell | None"], Learned]
TRAINERS: dict[str, Trainer] = {"ddpg": _relmas, "td3": _relmas, "ppo": _ppo, "sac": _sac, "bdq": _bdq}


def _placement(
    config: TrainingConfig, a: PlacementAlgorithm, folder: Path, tell: Tell | None, command: str
) -> AlgorithmOutcome:
    """A3C or A2C on drawn traces; its heuristic is the rule of the greatest reward on the validation traces."""
    from eunomia.inference.environments.edge_cloud.rules import RULES, find_rule, measured
    from eunomia.inference.environments.edge_cloud.world import Goals
    from eunomia.learning.agents.a3c.agent import Cases, PlacementAgent
    from eunomia.learning.agents.a3c.learner import Settings
    from eunomia.learning.agents.a3c.policy import PreferencePlacement, save_placement

    goals = Goals(a.requester, a.provider, a.utilisation, a.waiting)
    settings = Settings(a.workers, a.name == "a2c", a.traces, a.steps, a.units, a.rate, entropy_weight=a.entropy,
                        goals=goals, seed=config.seed)  # fmt: skip
    cases = Cases(a.tasks, a.devices, a.tenants, a.load, a.bars, a.traces, config.validation, config.seed)

    def save(tensors: dict[str, Floats], path: Path, facts: Mapping[str, Any]) -> Path:
        return save_placement(PreferencePlacement(tensors, config.name), path, dict(facts))

    with PlacementAgent(settings, cases) as agent:
        learned = _looped(agent, config, repr(cases), folder, tell, save)
    rewards = {
        name: np.array([measured(case, find_rule(name), goals).reward for case in cases.validating()])
        for name in RULES
    }
    best = max(rewards, key=lambda name: float(rewards[name].mean()))
    return _outcome(config, folder, learned, Heuristic(best, rewards[best]), command, {})


def _deferrable(
    config: TrainingConfig, a: DeferrableAlgorithm, folder: Path, tell: Tell | None, command: str
) -> AlgorithmOutcome:
    """Start rules for deferrable requests; the heuristic is the best of the fixed rules on validation."""
    from eunomia.learning.agents.deferrable.agent import DeferrableAgent, Settings, worth
    from eunomia.learning.agents.deferrable.policy import RULES, Deferring, deferring, save_deferring

    sampler = ScenarioSampler(config)
    episodes = sampler.validation()
    if not any(episode.problem.jobs.deferrable.any() for episode in episodes):
        raise ConfigError(
            "no request of these scenarios is deferrable; give a tenant defer_s = [shortest, longest]"
        )
    settings = Settings(a.base, a.share, a.population, a.episodes, a.sigma, config.seed)

    def save(tensors: dict[str, Floats], path: Path, facts: Mapping[str, Any]) -> Path:
        policy = Deferring(a.base, tuple(tensors["weights"].tolist()), config.name)
        return save_deferring(policy, path, dict(facts))

    learned = _looped(DeferrableAgent(settings, sampler), config, sampler.about, folder, tell, save)
    values = {
        when: np.array([worth(deferring(when, a.base), episode, a.share) for episode in episodes])
        for when in RULES
    }
    best = max(values, key=lambda when: float(values[when].mean()))
    heuristic = Heuristic(deferring(best, a.base).name, values[best])
    return _outcome(config, folder, learned, heuristic, command, episode_facts(episodes))


def _lanes(sampler: ScenarioSampler) -> int:
    return len(sampler.validation()[0].problem.type_of)


def _play(a: PpoAlgorithm | SacAlgorithm | BdqAlgorithm, encoding: str) -> Any:
    from eunomia.learning.agents.replay import Play

    return Play(encoding, a.episodes, a.most, a.reward, a.scale)


def _save_pointer(
    config: TrainingConfig, most: int
) -> Callable[[dict[str, Floats], Path, Mapping[str, Any]], Path]:
    from eunomia.learning.agents.pointer_policy import PointerPolicy, save_pointer

    def save(tensors: dict[str, Floats], path: Path, facts: Mapping[str, Any]) -> Path:
        return save_pointer(PointerPolicy(tensors, config.name, most), path, dict(facts))

    return save


def _looped(
    agent: Any, config: TrainingConfig, about: str, folder: Path, tell: Tell | None,
    save: Callable[[dict[str, Floats], Path, Mapping[str, Any]], Path],
) -> Learned:  # fmt: skip
    """Run an agent in the common loop."""
    from eunomia.learning.loop import Plan, Progress, train

    a = cast("PpoAlgorithm", config.algorithm)
    identity = hashlib.sha256(json.dumps([a.model_dump(), config.objective, about]).encode()).hexdigest()
    plan = Plan(a.iterations, a.validate_every, config.objective, identity)

    def told(progress: Progress) -> None:
        if tell is not None:
            tell(Step(progress.entry, progress.iterations, progress.left_s))

    done = train(agent, plan, folder / "state", told)
    cpu_s = done.cpu_s + sum(entry.get("workers_cpu_s", 0.0) for entry in done.curve)
    return Learned(done.values, done.start_values, cpu_s, done.curve,
                   lambda path, facts: save(done.tensors, path, facts))  # fmt: skip
