"""Distilling a learned policy on scenarios: rules, how well they imitate, and what they are worth in closed loop."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eunomia.config import load_scenario
from eunomia.config.load import read_table
from eunomia.config.training import TrainingConfig, load_training
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Crew
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.distill.file import save_rules
from eunomia.learning.distill.fitting.fidelity import agreement
from eunomia.learning.distill.fitting.fit import FitOptions, distil, rules_of
from eunomia.learning.distill.fitting.teacher import ByTeacher
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.episodes import Episode
from eunomia.learning.evolve.short import Short, ShortOptions
from eunomia.learning.load import checkpoint_of
from eunomia.learning.loop import Plan, Progress, Trained, train
from eunomia.learning.objectives import attainment, hit_rate, task_of
from eunomia.learning.objectives import value as worth
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.checkpoint import Checkpoint
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.metrics.statistics import interval
from eunomia.study.learning.scenarios import ScenarioSampler, is_promised

TEST_GENERATION = 50_000  # of training seeds: no training reaches it
TESTS = 24


@dataclass(frozen=True, eq=False)
class Distilled:
    """Rules, their file, and test figures: per-seed values of heuristic, teacher and rules, and fidelity."""

    rules: RuleSet
    path: Path
    values: dict[str, Floats]
    fidelity: dict[str, float]

    @property
    def share(self) -> float:
        """Share of the teacher's gain over its heuristic that the rules keep; nan without a gain."""
        gain = float((self.values["teacher"] - self.values["heuristic"]).mean())
        return (
            float((self.values["rules"] - self.values["heuristic"]).mean()) / gain if gain > 0.0 else np.nan
        )


def distil_policy(
    policy: str,
    on: Path | TrainingConfig | None = None,
    out: Path | None = None,
    options: ShortOptions | FitOptions | None = None,
    tell: Callable[[str], None] | None = None,
    folder: Path | None = None,
) -> Distilled:
    """Distil a shipped policy or a card, test the rules on episodes that nothing was chosen on, write the file.

    ``on``: a training file or its content, or a scenario; without one, the training file that the card names, if it
    is there. ``out``: the file to write, by default POLICY-rules.toml. ``options``: of one short rule, by default,
    whose search goes on from its state in ``folder``; ``FitOptions`` of trees.
    Raises ConfigError, UnknownNameError, RecordError, OutputError.
    """
    checkpoint = checkpoint_of(policy)
    out, options = out or Path(f"{Path(policy).stem}-rules.toml"), options or ShortOptions()
    config = on if isinstance(on, TrainingConfig) else _episodes_from(checkpoint, on)
    sampler = ScenarioSampler(config)
    objective = dict(config.objective)
    if isinstance(options, ShortOptions):
        fit = FitOptions(seed=options.seed, objective=objective)
        agent, done = shorten(checkpoint, sampler, objective, options, folder, tell=tell)
        found = replace(
            agent.policy(done.tensors, out.stem).rule_set,
            ranges=rules_of(ByTeacher(checkpoint.weights, {}), "").ranges,
        )
        sizes: Data = {
            "nodes": found.nodes,
            "generations": options.generations,
            "cpu_s": round(done.cpu_s, 1),
        }
    else:
        fit = replace(options, objective=objective)
        found = distil(checkpoint.weights, out.stem, sampler, fit, tell).rules
        sizes = {"most_leaves": fit.leaves, "most_terms": fit.terms}
    episodes = sampler.training(TEST_GENERATION, TESTS)
    heuristic = checkpoint.facts.get("validation", {}).get("heuristic", config.base)
    values = closed_loop_values(checkpoint, found, heuristic, episodes, objective)
    short = isinstance(options, ShortOptions)
    fidelity = {} if short else agreement(checkpoint.weights, found, episodes[:4], fit)
    made = {**_facts(checkpoint, config, fit, heuristic, values, fidelity), **sizes}
    rules = replace(found, made={**made, "stamp": found.stamp})
    return Distilled(rules, save_rules(rules, out), values, fidelity)


def shorten(
    checkpoint: Checkpoint,
    sampler: ScenarioSampler,
    objective: Mapping[str, float],
    options: ShortOptions,
    folder: Path | None = None,
    workers: Crew = 1,
    tell: Callable[[str], None] | None = None,
) -> tuple[Short, Trained]:
    """A policy as one short rule. With ``folder``, a stopped search goes on from its state there."""
    promised = is_promised(sampler.config, sampler.validation())
    agent = Short(options, task_of(sampler, objective), checkpoint.weights, promised)
    about = repr((replace(options, generations=1), dict(objective), promised, sampler.about))
    content = about.encode() + checkpoint.weights.pack().tobytes()
    plan = Plan(options.generations, max(options.generations // 4, 1), hashlib.sha256(content).hexdigest())

    def told(progress: Progress) -> None:
        if tell is not None:
            entry = progress.entry
            worth = f", validation {100 * entry['validation']:.2f}" if "validation" in entry else ""
            tell(
                f"generation {entry['iteration']:.0f}/{progress.iterations}: mean {100 * entry['mean']:.2f}{worth}"
            )

    return agent, train(agent, plan, folder, workers, told)


def closed_loop_values(
    checkpoint: Checkpoint,
    rules: RuleSet,
    heuristic: str,
    episodes: Sequence[Episode],
    objective: Mapping[str, float],
) -> dict[str, Floats]:
    """Objective of heuristic, teacher and rules on every episode, and (if promised) SLOs met by the last two."""
    policies = {
        "heuristic": LearnedPolicy(base_weights(heuristic)),
        "teacher": LearnedPolicy(checkpoint.weights, alarm=np.inf),
        "rules": RulePolicy(rules, alarm=np.inf),
    }
    found = {name: np.array([worth(p, e, objective) for e in episodes]) for name, p in policies.items()}
    if any((e.problem.jobs.slo_kind >= 0).any() for e in episodes):
        for name, policy in policies.items():
            runs = [simulate_problem(e.problem, policy, e.options).results for e in episodes]
            pairs = list(zip(runs, episodes, strict=True))
            found[f"{name}_attainment"] = np.array([attainment(r, e) for r, e in pairs])
            found[f"{name}_hit_rate"] = np.array([hit_rate(r, e) for r, e in pairs])
    return found


def _episodes_from(checkpoint: Checkpoint, on: Path | None) -> TrainingConfig:
    path = on or _named_training(checkpoint)
    if path is None:
        raise ConfigError(
            f"checkpoint '{checkpoint.name}' names no training file that is here; give --on TRAINING.toml, or a "
            "scenario, for the episodes to learn from"
        )
    return training_of(path, checkpoint.name)


def training_of(path: Path, name: str | None = None) -> TrainingConfig:
    """A training file's settings, or those of training on one scenario. Raises ConfigError."""
    if "scenarios" in read_table(path):
        return load_training(path)
    scenario = load_scenario(path)  # complains in its own words
    data = {"name": name or scenario.name, "scenarios": [str(path.resolve())]}
    return TrainingConfig.model_validate(data, context={"folder": path.parent})


def _named_training(checkpoint: Checkpoint) -> Path | None:
    """The training file of the card's command, where it was or, of a shipped policy, in ``studies/training``."""
    words = shlex.split(str(checkpoint.facts.get("command", "")))
    named = [Path(word) for word in words if word.endswith(".toml")][:1]
    places = [place for path in named for place in (path, Path("studies") / "training" / path.name)]
    return next((place for place in places if place.is_file()), None)


def _facts(
    checkpoint: Checkpoint, config: TrainingConfig, options: FitOptions, heuristic: str, values: dict[str, Floats],
    fidelity: dict[str, float],
) -> Data:  # fmt: skip
    """Where the rules come from and how they did, for the file."""
    gains = {
        name: interval((values[a] - values[b]).tolist())
        for name, a, b in (("teacher_gain", "teacher", "heuristic"), ("rules_gain", "rules", "heuristic"))
    }
    return {
        "teacher": checkpoint.name,
        "heuristic": heuristic,
        "objective": dict(options.objective),
        "episodes": config.name,
        "seed": options.seed,
        "fidelity": {name: round(value, 4) for name, value in fidelity.items()},
        **{name: round(gain.mean, 5) for name, gain in gains.items()},
        **{f"{name}_half_width": round(gain.half_width, 5) for name, gain in gains.items()},
        "per_seed": {name: [round(float(v), 5) for v in column] for name, column in values.items()},
    }
