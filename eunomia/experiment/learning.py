"""Training and evaluating learned policies on scenarios: where episodes come from, and what becomes of the result."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config import Scenario, as_table, load_scenario, with_values
from eunomia.config.training import StageConfig, TrainingConfig
from eunomia.experiment.bench import prepare
from eunomia.experiment.files import file_stamps
from eunomia.experiment.run import engine_options, provenance
from eunomia.experiment.tuning import FIRST_VALIDATION_SEED
from eunomia.hardware.table import CostTable
from eunomia.inference.learning.checkpoint import Checkpoint, load, save
from eunomia.inference.learning.policy.bases import base_weights
from eunomia.inference.learning.policy.learned import LearnedPolicy
from eunomia.inference.learning.policy.weights import Floats, Weights
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import check_objective, value
from eunomia.inference.learning.training.run import Progress, Settings, Trained, train
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable

FIRST_TRAINING_SEED = 1_000_000_000  # apart from those of tests and of validation
SEEDS_PER_GENERATION = 10_000
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

Tell = Callable[[StageConfig, Progress], None]


class ScenarioSampler:
    """Episodes of scenarios: each takes the next combination of scenario and varied values, in a shuffled order."""

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.scenarios = tuple(
            with_values(scenario, dict(zip(config.vary, values, strict=True)))
            for scenario in map(load_scenario, config.scenarios)
            for values in itertools.product(*config.vary.values())
        )
        self._kept: list[Episode] | None = None

    @property
    def about(self) -> str:
        """What episodes depend on, as text."""
        tables = [as_table(scenario) for scenario in self.scenarios]
        return json.dumps([tables, [file_stamps(table) for table in tables], self.config.targets, self.config.requests,
                           self.config.validation, self.config.seed], sort_keys=True)  # fmt: skip

    def training(self, generation: int, count: int) -> list[Episode]:
        """Episodes of one generation."""
        first = FIRST_TRAINING_SEED + SEEDS_PER_GENERATION * generation
        return [self._episode(generation * count + i, first + i) for i in range(count)]

    def validation(self) -> list[Episode]:
        """The same episodes at every call, drawn once."""
        if self._kept is None:
            self._kept = [self._episode(i, FIRST_VALIDATION_SEED + i) for i in range(self.config.validation)]
        return self._kept

    def _episode(self, index: int, seed: int) -> Episode:
        lap, place = divmod(index, len(self.scenarios))
        order = np.random.default_rng([self.config.seed, lap]).permutation(len(self.scenarios))
        made = scenario_episode(self.scenarios[order[place]], seed, self.config.requests)
        if self.config.targets is None:
            return made
        low, high = self.config.targets
        return made.with_targets(low, high, np.random.default_rng([self.config.seed, seed]))


def scenario_episode(scenario: Scenario, seed: int, most: int | None = None) -> Episode:
    """One trace of a scenario, its first ``most`` requests, measured after its warm-up."""
    bench = prepare(scenario)
    requests = first_requests(bench.requests(seed), most)
    options = engine_options(scenario, seed, "requests")
    problem = build_problem(requests, bench.machine.table, bench.machine, options)
    return Episode(problem, options, f"{scenario.name}, load {scenario.load}, seed {seed}", scenario.warmup_s)


def first_requests(requests: RequestTable, most: int | None) -> RequestTable:
    """The first ``most`` rows; closed-loop tables stay whole."""
    if most is None or len(requests) <= most or (requests.after >= 0).any():
        return requests
    r = requests
    return RequestTable(r.agreements, r.pair[:most], r.arrival_s[:most], r.relative_deadline_s[:most],
                        r.priority[:most], r.deferrable[:most])  # fmt: skip


@dataclass(frozen=True, eq=False)
class Heuristic:
    """The best base heuristic on validation, with its value on each episode."""

    name: str
    values: Floats


def best_heuristic(episodes: Sequence[Episode], objective: Mapping[str, float], tenants: bool) -> Heuristic:
    """Every base on every episode; the greatest mean. Alike for training and for the gate at its end."""
    found = [
        Heuristic(name, np.array([value(LearnedPolicy(base_weights(name)), e, objective) for e in episodes]))
        for name in ((*TENANT_BASES, *OWN_TENANT_BASES) if tenants else BASES)
    ]
    return max(found, key=lambda heuristic: float(heuristic.values.mean()))


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished training: the checkpoint, and whether the policy passed the gate against the heuristic."""

    checkpoint: Checkpoint
    path: Path
    heuristic: Heuristic
    gain: float  # over the heuristic, mean paired difference on validation
    error: float  # its standard error over episodes
    kept_heuristic: bool


def train_policy(
    config: TrainingConfig, folder: Path, workers: int = 1, tell: Tell | None = None, command: str = ""
) -> Outcome:
    """Train all stages, keep the heuristic if it was not beaten by more than the paired error, write a checkpoint.

    The state of each stage stands in ``folder``; a stopped training goes on where it was. Raises ConfigError,
    RecordError, OutputError.
    """
    check_objective(config.objective)
    sampler = ScenarioSampler(config)
    episodes = sampler.validation()
    tenants = config.targets is not None or any((e.problem.jobs.slo_kind >= 0).any() for e in episodes)
    heuristic = best_heuristic(episodes, config.objective, tenants)
    weights, trained = _start(config, heuristic), []
    for number, stage in enumerate(config.stage):
        if stage.stage != "linear" and weights.kind == "linear":
            weights = weights.with_network(stage.stage, stage.units, config.seed)
        settings = _settings(config, stage, weights, tenants, f"{number} {sampler.about}")
        told = None if tell is None else lambda progress, stage=stage: tell(stage, progress)
        trained.append(train(settings, sampler, folder / f"stage-{number}", workers, told))
        weights = trained[-1].weights
    difference = trained[-1].values - heuristic.values
    gain = float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0
    kept = not gain > error
    weights = base_weights(heuristic.name) if kept else _with_ranges(weights, episodes)
    facts = _facts(config, heuristic, trained, gain, error, kept, episodes, command)
    checkpoint = Checkpoint(config.name, weights, facts)
    return Outcome(checkpoint, save(checkpoint, folder / config.name), heuristic, gain, error, kept)


def _start(config: TrainingConfig, heuristic: Heuristic) -> Weights:
    if config.start_from is not None:
        return load(config.start_from).weights
    return base_weights(heuristic.name if config.base == "best" else config.base)


def _settings(
    config: TrainingConfig, stage: StageConfig, start: Weights, tenants: bool, about: str
) -> Settings:
    return Settings(
        start, stage.stage, stage.generations, stage.population, stage.episodes, stage.sigma, config.seed,
        stage.validate_every, config.objective, tenants, stage.diagonal, about=about,
    )  # fmt: skip


def _with_ranges(weights: Weights, episodes: Sequence[Episode]) -> Weights:
    """The ranges of job features on validation episodes, which the alarm of the served policy compares with."""
    policy = LearnedPolicy(weights, alarm=np.inf)
    policy.collect()
    for episode in episodes:
        simulate_problem(episode.problem, policy, episode.options)
    low, high = policy.seen
    return replace(weights, low=low, high=high)


def _facts(
    config: TrainingConfig, heuristic: Heuristic, trained: Sequence[Trained], gain: float, error: float, kept: bool,
    episodes: Sequence[Episode], command: str,
) -> dict[str, Any]:  # fmt: skip
    """What the card says beside the weights."""
    problems = [episode.problem for episode in episodes]
    return {
        "command": command,
        "training": config.model_dump(mode="json", exclude={"scenarios", "start_from"}),
        "trained_on": sorted({model.name for p in problems for model in p.table.models}),
        "hardware": sorted({", ".join(p.table.types[c] for c in p.columns[p.type_of]) for p in problems}),
        "contention": sorted({p.contention for p in problems}),
        "bandwidth_bytes_s": sorted({p.bandwidth_bytes_s for p in problems}),
        "late": sorted({e.options.late for e in episodes}),
        "cost_tables": sorted({_table_hash(p.table) for p in problems}),
        "generations": [len(t.curve) for t in trained],
        "cpu_s": round(sum(t.cpu_s for t in trained), 1),
        "validation": {
            "episodes": len(episodes), "heuristic": heuristic.name,
            "heuristic_mean": float(heuristic.values.mean()), "gain": gain, "error": error,
            "kept_heuristic": kept,
        },
        "made_with": {key: value for key, value in provenance().items() if key != "command"},
    }  # fmt: skip


def _table_hash(table: CostTable) -> str:
    """Hash of names, latencies and traffic: which hardware the costs stand for."""
    digest = hashlib.sha256(json.dumps([[m.name for m in table.models], table.types]).encode())
    digest.update(table.latency_s.tobytes() + table.dram_bytes.tobytes())
    return digest.hexdigest()[:16]
