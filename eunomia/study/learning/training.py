"""Training from a file: which agents, compared with the best heuristic on the same episodes, to a card.

A training is a list of stages, or one algorithm in their place: each is an agent of the loop
(:mod:`eunomia.learning.agents`). A search in stages keeps the heuristic where it did not win by more than the error of
the comparison; an algorithm keeps its own policy, and the card says how it did.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config.algorithm import DeferrableAlgorithm, OwnAlgorithm, PlacementAlgorithm
from eunomia.config.training import NETWORKS, StageConfig, TrainingConfig
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Crew
from eunomia.hardware.table import CostTable
from eunomia.inference.problem import Problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning import card as cards
from eunomia.learning.agents import Context, make_agent
from eunomia.learning.agents.cmaes import WeightsAgent
from eunomia.learning.card import card_path_of
from eunomia.learning.episodes import Episode, Task
from eunomia.learning.load import checkpoint_of, shipped
from eunomia.learning.loop import Plan, Progress, Trained, paired_error, train
from eunomia.learning.objectives import PROMISED, task_of, value
from eunomia.learning.policy.bases import TERMS, base_weights, with_promise
from eunomia.learning.policy.checkpoint import Checkpoint, save
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from eunomia.study.learning.outcome import Heuristic, Outcome
from eunomia.study.learning.scenarios import Later, ScenarioSampler, Source, is_promised
from eunomia.study.run import provenance

FIRST_ROUND, FINALISTS = 8, 12  # episodes, and bases for promises that see the rest of validation
STRENGTH = 2.0  # of the terms for a promise, where a search for it begins
BASES = tuple(
    f"{order}+f+{place}+g{gate:g}"
    for order in ("edf", "sjf", "llf", "edf_bytes")
    for place in ("any_idle", "eft", "eft_ca")
    for gate in (1.0, 0.9, 0.75)
)
OWN_TENANT_BASES = tuple(
    f"{order}+f+eft+g{gate:g}"
    for order in ("promise_keep", "promise_mend", "promise_level")
    for gate in (1.0, 0.9)
)
TENANT_BASES = tuple(
    f"{order}+f+{place}+g{gate:g}"
    for order in ("triage_edf", "triage_sjf", "gap_first_edf", "gap_first_sjf", "shift_edf", "edf", "sjf")
    for place in ("any_idle", "eft")
    for gate in (1.0, 0.9, 0.75)
)

Tell = Callable[[str, Progress], None]  # name of the stage or algorithm, what is known


def best_heuristic(episodes: Sequence[Episode], objective: Mapping[str, float], tenants: bool) -> Heuristic:
    """The base of the greatest mean. Alike for training and for the gate at its end.

    Every base runs on every episode; of the many for promises, those that are not among the best FINALISTS on the
    first FIRST_ROUND episodes run no further.
    """
    if not tenants:
        return _best(BASES, episodes, objective)[0]
    found = _best((*TENANT_BASES, *OWN_TENANT_BASES), episodes[:FIRST_ROUND], objective)
    return _best([heuristic.name for heuristic in found[:FINALISTS]], episodes, objective)[0]


def _best(
    names: Sequence[str], episodes: Sequence[Episode], objective: Mapping[str, float]
) -> list[Heuristic]:
    """Bases with their values on each episode, in order of their means, greatest first."""
    found = [
        Heuristic(name, np.array([value(_rule(name), e, objective) for e in episodes])) for name in names
    ]
    return sorted(found, key=lambda heuristic: -float(heuristic.values.mean()))


def _rule(name: str) -> LearnedPolicy | str:
    """A base to be run: by its name, where the engine has it; the same decisions in a fraction of the time."""
    own = name.startswith("promise_")
    return LearnedPolicy(base_weights(name)) if own else name.replace("+any_idle", "")


def train_policy(
    config: TrainingConfig,
    folder: Path,
    workers: Crew = 1,
    tell: Tell | None = None,
    command: str = "",
    source: Source | None = None,
) -> Outcome:
    """Train, compare, write the card. A stopped training goes on where it was, from its state in ``folder``.

    ``source``: where episodes come from, in place of the file's scenarios. Raises ConfigError, RecordError,
    OutputError.
    """
    run = _Run(config, folder, workers, tell, command)
    return run.stages(source) if config.algorithm is None else run.algorithm(source)


@dataclass(frozen=True, eq=False)
class _Run:
    """One training: the file, the place of its state, workers, and a callback of progress."""

    config: TrainingConfig
    folder: Path
    workers: Crew
    tell: Tell | None
    command: str

    def train(
        self, name: str, settings: Any, context: Context, plan: Plan, place: str
    ) -> tuple[Any, Trained]:
        """One agent in the loop."""
        agent = make_agent(name, settings, context)
        told = None if self.tell is None else partial(self.tell, context.stage or name)
        return agent, train(agent, plan, self.folder / place, self.workers, told)

    def stages(self, source: Source | None) -> Outcome:
        """The search in stages: each goes on from the weights of the one before."""
        config, (searched, judged) = self.config, objectives(self.config)
        sampler = source or ScenarioSampler(config)
        task_of(sampler, searched)  # complains before anything runs
        episodes = sampler.validation()
        tenants = is_promised(config, episodes)
        heuristic = best_heuristic(episodes, judged, tenants)
        weights, trained = _start(config, heuristic), []
        for number, stage in enumerate(config.stage):
            if stage.stage in NETWORKS and weights.kind == "linear":
                weights = weights.with_network(stage.stage, stage.units, config.seed)
            later = Later(sampler, sum(done.generations for done in config.stage[:number]))
            expert = stage.trainer == "expert"
            task = task_of(later, config.objective if expert else searched)
            promises = config.promise is not None
            rule = _rollout_rule(stage, heuristic, episodes) if expert else ""
            context = Context(task, config.seed, weights, tenants, promises, rule, stage.stage)
            about = (
                stage.model_dump(exclude={"generations"}),
                dict(searched),
                [tenants, promises, rule],
                f"{number} {sampler.about}",
            )
            identity = _hash(about, weights.pack().tobytes())
            plan = Plan(stage.generations, 1 if expert else stage.validate_every, identity)
            agent, done = self.train(stage.trainer, stage, context, plan, f"stage-{number}")
            assert isinstance(agent, WeightsAgent), "stages search coordinates of weights"
            weights = agent.weights(done.tensors)
            trained.append(done)
        values = trained[-1].values
        if judged != searched:
            values = np.array(
                [value(LearnedPolicy(weights, alarm=np.inf, shared=True), e, judged) for e in episodes]
            )
        gain, error = _gain(values, heuristic)
        kept = not gain > error
        facts = self.facts({"algorithm"}, heuristic, gain, error, episodes)
        facts |= {**_beginning(config), "generations": [len(done.curve) for done in trained]}
        facts["cpu_s"] = round(sum(done.cpu_s for done in trained), 1)
        facts["validation"]["kept_heuristic"] = kept
        weights = base_weights(heuristic.name) if kept else _with_ranges(weights, episodes)
        path = save(Checkpoint(config.name, weights, facts), self.folder / config.name)
        return Outcome(config.name, path, heuristic, tuple(trained), gain, error, kept)

    def algorithm(self, source: Source | None) -> Outcome:
        """One algorithm in place of the stages."""
        config, settings = self.config, self.config.algorithm
        assert settings is not None, "asked for with a table [algorithm]"
        task, about, rivals = _task(config, source)
        context = Context(task, config.seed, tenants=config.targets is not None)
        plan = Plan(
            settings.iterations,
            settings.validate_every,
            _hash((settings.model_dump(), dict(config.objective), about)),
        )
        name = settings.agent if isinstance(settings, OwnAlgorithm) else settings.name
        agent, done = self.train(name, settings, context, plan, "state")
        heuristic = rivals(task.validation())
        gain, error = _gain(done.values, heuristic)
        episodes = [] if isinstance(settings, PlacementAlgorithm) else task.validation()
        facts = self.facts({"stage"}, heuristic, gain, error, episodes)
        facts |= {"iterations": int(done.curve[-1]["iteration"]), "cpu_s": round(done.cpu_s, 1)}
        facts["validation"] |= {
            "episodes": len(done.values),
            "start_mean": float(done.start_values.mean()),
        }
        path = cards.save(agent.policy(done.tensors, config.name), self.folder / config.name, facts)
        return Outcome(config.name, path, heuristic, (done,), gain, error, None)

    def facts(
        self, without: set[str], heuristic: Heuristic, gain: float, error: float, episodes: Sequence[Episode]
    ) -> Data:
        """What the card says beside the weights."""
        exclude = {"scenarios", "start_from", *without}
        return {
            "command": self.command,
            "training": self.config.model_dump(mode="json", exclude=exclude),
            **(episode_facts(episodes) if episodes else {}),
            "validation": {
                "episodes": len(episodes),
                "heuristic": heuristic.name,
                "heuristic_mean": float(heuristic.values.mean()),
                "gain": gain,
                "error": error,
            },
        }


def _rollout_rule(stage: StageConfig, heuristic: Heuristic, episodes: Sequence[Episode]) -> str:
    """What rollouts follow: the heuristic of validation, or the best for hits where rollouts cannot follow that one."""
    if stage.rule != "best":
        return stage.rule
    followed = heuristic.name in BASES
    return heuristic.name if followed else best_heuristic(episodes, {"hit_rate": 1.0}, tenants=False).name


def _gain(values: Floats, heuristic: Heuristic) -> tuple[float, float]:
    """Mean paired difference to the heuristic, and its standard error."""
    difference = values - heuristic.values
    return float(difference.mean()), paired_error(difference)


def _hash(about: object, content: bytes = b"") -> str:
    """Identity of a training: everything that its numbers depend on."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode() + content).hexdigest()


def _task(
    config: TrainingConfig, source: Source | None
) -> tuple[Task, str, Callable[[Sequence[Any]], Heuristic]]:
    """What an algorithm is trained for, what its episodes depend on, and the best of its rivals on given episodes."""
    settings = config.algorithm
    if isinstance(settings, PlacementAlgorithm):
        from eunomia.inference.environments.edge_cloud.rules import RULES, find_rule
        from eunomia.learning.agents.a3c.agent import placement_task

        task = placement_task(settings, config.validation, config.seed)
        return task, repr(task.sampler), partial(_best_of, {name: find_rule(name) for name in RULES}, task)
    sampler = source or ScenarioSampler(config)
    if isinstance(settings, DeferrableAlgorithm):
        from eunomia.inference.policies.deferring import RULES as STARTS
        from eunomia.inference.policies.deferring import deferring
        from eunomia.learning.agents.deferrable import worth

        if not any(episode.problem.jobs.deferrable.any() for episode in sampler.validation()):
            raise ConfigError(
                "no request of these scenarios is deferrable; give a tenant defer_s = [shortest, longest]"
            )
        task = Task(sampler, partial(worth, share=settings.share))
        rules = [deferring(when, settings.base) for when in STARTS]
        return task, sampler.about, partial(_best_of, {rule.name: rule for rule in rules}, task)
    task = task_of(sampler, config.objective)

    def rivals(episodes: Sequence[Episode]) -> Heuristic:
        return best_heuristic(episodes, config.objective, is_promised(config, episodes))

    return task, sampler.about, rivals


def _best_of(rules: Mapping[str, object], task: Task, episodes: Sequence[Any]) -> Heuristic:
    """The rule of the greatest mean worth."""
    found = [
        Heuristic(name, np.array([task.worth(rule, e) for e in episodes])) for name, rule in rules.items()
    ]
    return max(found, key=lambda heuristic: float(heuristic.values.mean()))


def objectives(config: TrainingConfig) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """What the search climbs, and what the gate judges by: the same, but for a promise."""
    if config.promise is None:
        return config.objective, config.objective
    given = "objective" in config.model_fields_set
    return config.objective if given else PROMISED[config.promise], {config.promise: 1.0}


def _start(config: TrainingConfig, heuristic: Heuristic) -> Weights:
    if config.start_from is not None:
        weights = _started_from(config.start_from).weights
    else:
        weights = base_weights(heuristic.name if config.base == "best" else config.base)
    return weights if config.promise is None else with_promise(weights, TERMS[config.promise], STRENGTH)


def _started_from(text: str) -> Checkpoint:
    """The policy that training goes on from: a card, or a shipped policy where no such file is."""
    name = Path(text).name
    return checkpoint_of(name if name in shipped() and not card_path_of(text).is_file() else text)


def _with_ranges(weights: Weights, episodes: Sequence[Episode]) -> Weights:
    """The ranges of job features on validation episodes, which the alarm of the served policy compares with."""
    policy = LearnedPolicy(weights, alarm=np.inf, shared=True)
    policy.collect()
    for episode in episodes:
        simulate_problem(episode.problem, policy, episode.options)
    low, high = policy.seen
    return replace(weights, low=low, high=high)


def _beginning(config: TrainingConfig) -> Data:
    """Which policy training went on from, if any: its name, and the hash of its tensors."""
    if config.start_from is None:
        return {}
    origin = _started_from(config.start_from)
    digest = hashlib.sha256(origin.weights.pack().tobytes()).hexdigest()
    return {
        "started_from": {"name": origin.name, "file": Path(config.start_from).name, "weights_sha256": digest}
    }


def episode_facts(episodes: Sequence[Episode]) -> Data:
    """What a card says of the episodes that its policy was chosen on, and of the versions and machine."""
    problems = [episode.problem for episode in episodes]
    return {
        "trained_on": sorted({model.name for p in problems for model in p.table.models}),
        "hardware": sorted({_hardware(p) for p in problems}),
        "contention": sorted({p.contention for p in problems}),
        "bandwidth_bytes_s": sorted({p.bandwidth_bytes_s for p in problems}),
        "late": sorted({e.options.late for e in episodes}),
        "cost_tables": sorted({_table_hash(p.table) for p in problems}),
        "made_with": {key: value for key, value in provenance().items() if key != "command"},
    }


def _hardware(problem: Problem) -> str:
    types = [problem.table.types[c] for c in problem.columns[problem.type_of]]
    return " + ".join(f"{count} {name}" for name, count in Counter(types).items())


def _table_hash(table: CostTable) -> str:
    """Hash of names, latencies and traffic: which hardware the costs stand for."""
    digest = hashlib.sha256(json.dumps([[m.name for m in table.models], table.types]).encode())
    digest.update(table.latency_s.tobytes() + table.dram_bytes.tobytes())
    return digest.hexdigest()[:16]
