"""Evolving a rule on scenarios: the search, the validation gate, figures on fresh traces, the files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eunomia.config.evolve import EvolveConfig
from eunomia.config.training import TrainingConfig, load_training
from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.engines.crew import Crew
from eunomia.learning.distill.file import save_rules
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.episodes import Episode
from eunomia.learning.evolve.rule import write_rule
from eunomia.learning.evolve.search import Evolve
from eunomia.learning.evolve.variation import known
from eunomia.learning.load import checkpoint_of
from eunomia.learning.loop import Plan, Progress, paired_error, train
from eunomia.learning.objectives import task_of, value
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.learning.distilling import TEST_GENERATION, TESTS, training_of
from eunomia.study.learning.outcome import Heuristic
from eunomia.study.learning.scenarios import ScenarioSampler, is_promised
from eunomia.study.learning.training import best_heuristic

Tell = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Evolved:
    """The rule with its file, the best known rule on validation, and both on fresh traces."""

    rules: RuleSet
    path: Path
    archive: Path
    heuristic: Heuristic
    gain: float  # over the heuristic, mean paired difference on validation
    error: float  # its standard error over episodes
    kept_heuristic: bool
    fresh: Mapping[str, Floats]  # per fresh trace: heuristic, rule
    cpu_s: float

    @property
    def gains(self) -> list[float]:
        """The rule minus the heuristic on every trace that nothing was chosen on."""
        return list(map(float, self.fresh["rule"] - self.fresh["heuristic"]))

    def facts(self) -> Data:
        """As plain data."""
        fresh = interval(self.gains)
        return {
            "rule": write_rule(self.rules),
            "path": str(self.path),
            "archive": str(self.archive),
            "heuristic": self.heuristic.name,
            "heuristic_value": float(self.heuristic.values.mean()),
            "gain": self.gain,
            "error": self.error,
            "kept_heuristic": self.kept_heuristic,
            "fresh_gain": fresh.mean,
            "fresh_half_width": fresh.half_width,
            "fresh_traces": len(self.fresh["rule"]),
            "cpu_s": round(self.cpu_s, 1),
        }


def evolve(
    on: str | Path | TrainingConfig,
    out: str | Path | None = None,
    settings: EvolveConfig | None = None,
    *,
    workers: Crew = 1,
    tell: Tell | None = None,
) -> Evolved:
    """Search a rule by genetic programming; a search that was stopped goes on from its state in ``out``.

    ``on``: a training file (or its content), or a scenario. ``out``: folder of state, rule and archive, else
    ``runs/evolve-NAME``. The rule is kept only where it beats the best known rule on validation by more than the
    paired standard error. Does badly where episodes are slow or hits are noisy: a generation of 32 rules runs 256
    episodes. Raises ConfigError, RecordError, OutputError.
    """
    config = on if isinstance(on, TrainingConfig) else training_of(Path(on))
    chosen = settings or EvolveConfig()
    folder = Path("runs") / f"evolve-{config.name}" if out is None else Path(out)
    sampler, objective = ScenarioSampler(config), dict(config.objective)
    task, episodes = task_of(sampler, objective), sampler.validation()
    promised = is_promised(config, episodes)
    heuristic = best_heuristic(episodes, objective, promised)
    base = heuristic.name if config.base == "best" else config.base
    about = json.dumps([chosen.model_dump(exclude={"generations"}), objective, base, sampler.about])
    plan = Plan(chosen.generations, chosen.validate_every, hashlib.sha256(about.encode()).hexdigest())
    agent = Evolve(chosen, task, base, promised)
    done = train(agent, plan, folder / "state", workers, tell)
    difference = done.values - heuristic.values
    gain, error = float(difference.mean()), paired_error(difference)
    kept = not gain > error
    rules = (
        known(heuristic.name).rules(config.name) if kept else agent.policy(done.tensors, config.name).rule_set
    )
    traces = sampler.training(TEST_GENERATION, TESTS)
    fresh = fresh_values({"heuristic": known(heuristic.name).rules(), "rule": rules}, traces, objective)
    found = Evolved(
        rules,
        folder / f"{config.name}.toml",
        folder / f"{config.name}-archive.json",
        heuristic,
        gain,
        error,
        kept,
        fresh,
        done.cpu_s,
    )
    write_text(found.archive, json.dumps(_archive(agent), indent=1) + "\n")
    return replace(found, rules=_saved(found, config.name, chosen))


def folder_of(on: Path) -> Path:
    """Where a search stands unless told otherwise. Raises ConfigError."""
    return Path("runs") / f"evolve-{training_of(on).name}"


def fresh_values(
    rules: Mapping[str, RuleSet], traces: Sequence[Episode], objective: Mapping[str, float]
) -> dict[str, Floats]:
    """The objective of every rule on every trace."""
    return {
        name: np.array([value(RulePolicy(rule), trace, objective) for trace in traces])
        for name, rule in rules.items()
    }


def _saved(found: Evolved, name: str, settings: EvolveConfig) -> RuleSet:
    """The rule with where it comes from, on disk."""
    facts = {key: told for key, told in found.facts().items() if key not in ("rule", "path", "archive")}
    numbers = {key: round(told, 5) if isinstance(told, float) else told for key, told in facts.items()}
    per_seed = {key: [round(float(v), 5) for v in column] for key, column in found.fresh.items()}
    made = {"on": name, **settings.model_dump(), **numbers, "per_seed": per_seed}
    rules = replace(found.rules, made={**made, "stamp": found.rules.stamp})
    save_rules(rules, found.path)
    return rules


def _archive(agent: Evolve) -> list[Data]:
    """Unlike rules, best first; their advantage over the first rule is that of training episodes."""
    return [
        {
            "rule": each.genome.text,
            "nodes": each.genome.nodes,
            "training_advantage": each.total / max(each.seen, 1),
            "training_episodes": each.seen,
            "apart_from_first": agent.probes.distance(each.genome, agent.archive[0].genome),
        }
        for each in agent.archive
    ]


# What ``python -m benchmarks evolve`` measures; its columns, and a row.
SIZE = EvolveConfig(generations=40, population=24, episodes=6)
QUICK = EvolveConfig(generations=2, population=8, episodes=1)
COLUMNS = (
    "seed; minutes|.1f; nodes; best known rule; validation: rule - it|+.2p; standard error|.2p; fresh: rule - it|+.2p; "
    "fresh: `eunomia` - it|+.2p; share|.0%"
)


def examined(task: tuple[str, int, bool]) -> Data:
    """A search on a training file, and its rule beside ``eunomia(rehearse=0)`` on fresh traces, as plain data."""
    on, seed, quick = task
    settings = (QUICK if quick else SIZE).model_copy(update={"seed": seed})
    config = load_training(on, ("requests=40", "validation=2") if quick else ("requests=150",))
    found = evolve(config, Path("runs") / f"evolve-{config.name}-{seed}", settings, tell=_printed)
    learned = LearnedPolicy(checkpoint_of("eunomia").weights, alarm=np.inf)
    traces = ScenarioSampler(config).training(TEST_GENERATION, TESTS)
    values = [value(learned, trace, config.objective) for trace in traces]
    gains = (np.array(values) - found.fresh["heuristic"]).tolist()
    return {
        "seed": seed,
        **found.facts(),
        "nodes": found.rules.nodes,
        "learned_gains": gains,
        "gains": found.gains,
    }


def row_of(found: Data) -> list[str | float | Estimate]:
    """The cells of COLUMNS."""
    rule, learned = interval(found["gains"]), interval(found["learned_gains"])
    own = [str(found["seed"]), found["cpu_s"] / 60.0, found["nodes"], f"`{found['heuristic']}`"]
    share = rule.mean / learned.mean if learned.mean > 0.0 else np.nan
    return [*own, found["gain"], found["error"], rule, learned, share]


def _printed(progress: Progress) -> None:
    print(json.dumps(progress.entry), round(progress.left_s), flush=True)
