"""Training and evaluating learned policies on scenarios: where episodes come from, and what becomes of the result."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from eunomia.config import Scenario, as_table, load_scenario, with_values
from eunomia.config.training import NETWORKS, StageConfig, TrainingConfig
from eunomia.hardware.table import CostTable
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.cmaes import Progress, Settings, Trained, train
from eunomia.learning.agents.expert.agent import ExpertSettings, train_by_expert
from eunomia.learning.card import card_path_of
from eunomia.learning.checkpoint import Checkpoint, save
from eunomia.learning.episodes import Episode, Sampler
from eunomia.learning.load import checkpoint_of, shipped
from eunomia.learning.objectives import PROMISED, check_objective, value
from eunomia.learning.policy.bases import TERMS, base_weights, with_promise
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Floats, Weights
from eunomia.learning.workers import Crew
from eunomia.study.files import file_stamps
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.run import engine_options, provenance
from eunomia.workload.requests import RequestTable

FIRST_TRAINING_SEED = 1_000_000_000  # apart from those of tests and of validation
SEEDS_PER_GENERATION = 10_000
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

Tell = Callable[[StageConfig, Progress], None]


class Source(Sampler, Protocol):
    """A sampler that says what its episodes depend on."""

    @property
    def about(self) -> str:
        """Part of the training's identity."""


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


@dataclass(frozen=True, eq=False)
class Later:
    """The same sampler for a later stage: training begins after ``first`` generations, on traces not yet seen."""

    sampler: Sampler
    first: int

    def training(self, generation: int, count: int) -> list[Episode]:
        """Episodes of one generation of the stage."""
        return self.sampler.training(self.first + generation, count)

    def validation(self) -> list[Episode]:
        """Those of all stages."""
        return self.sampler.validation()


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
    config: TrainingConfig, folder: Path, workers: Crew = 1, tell: Tell | None = None, command: str = "",
    source: Source | None = None,
) -> Outcome:  # fmt: skip
    """Train all stages, keep the heuristic if it was not beaten by more than the paired error, write a checkpoint.

    ``source``: where episodes come from, in place of the file's scenarios. The state of each stage stands in
    ``folder``; a stopped training goes on where it was. Raises ConfigError, RecordError, OutputError.
    """
    searched, judged = objectives(config)
    check_objective(searched)
    sampler = source or ScenarioSampler(config)
    episodes = sampler.validation()
    tenants = config.targets is not None or any((e.problem.jobs.slo_kind >= 0).any() for e in episodes)
    heuristic = best_heuristic(episodes, judged, tenants)
    weights, trained = _start(config, heuristic), []
    for number, stage in enumerate(config.stage):
        if stage.stage in NETWORKS and weights.kind == "linear":
            weights = weights.with_network(stage.stage, stage.units, config.seed)
        about, place = f"{number} {sampler.about}", folder / f"stage-{number}"
        later = Later(sampler, sum(done.generations for done in config.stage[:number]))
        told = None if tell is None else lambda progress, stage=stage: tell(stage, progress)
        if stage.trainer == "expert":
            taught = _expert_settings(
                config, stage, weights, _rollout_rule(stage, heuristic, episodes), about
            )
            trained.append(train_by_expert(taught, later, place, workers, told))
        else:
            settings = _settings(config, stage, weights, tenants, searched, about)
            trained.append(train(settings, later, place, workers, told))
        weights = trained[-1].weights
    values = trained[-1].values
    if judged != searched:
        values = np.array([value(LearnedPolicy(weights, alarm=np.inf), e, judged) for e in episodes])
    difference = values - heuristic.values
    gain = float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0
    kept = not gain > error
    weights = base_weights(heuristic.name) if kept else _with_ranges(weights, episodes)
    facts = _facts(config, heuristic, trained, gain, error, kept, episodes, command)
    checkpoint = Checkpoint(config.name, weights, facts)
    return Outcome(checkpoint, save(checkpoint, folder / config.name), heuristic, gain, error, kept)


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


def _settings(
    config: TrainingConfig, stage: StageConfig, start: Weights, tenants: bool, objective: Mapping[str, float],
    about: str,
) -> Settings:  # fmt: skip
    return Settings(
        start, stage.stage, stage.generations, stage.population, stage.episodes, stage.sigma, config.seed,
        stage.validate_every, objective, tenants, config.promise is not None, stage.diagonal, about=about,
    )  # fmt: skip


def _rollout_rule(stage: StageConfig, heuristic: Heuristic, episodes: Sequence[Episode]) -> str:
    """What rollouts follow: the heuristic of validation, or the best for hits where rollouts cannot follow that one."""
    if stage.rule != "best":
        return stage.rule
    followed = heuristic.name in BASES
    return heuristic.name if followed else best_heuristic(episodes, {"hit_rate": 1.0}, tenants=False).name


def _expert_settings(
    config: TrainingConfig, stage: StageConfig, start: Weights, rule: str, about: str
) -> ExpertSettings:
    return ExpertSettings(
        start, rule.replace("+any_idle", ""), stage.generations, stage.episodes, config.seed, stage.share, stage.price,
        stage.hold, objective=config.objective, about=about,
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
    return {
        "command": command,
        "training": config.model_dump(mode="json", exclude={"scenarios", "start_from", "algorithm"}),
        **_beginning(config),
        **episode_facts(episodes),
        "generations": [len(t.curve) for t in trained],
        "cpu_s": round(sum(t.cpu_s for t in trained), 1),
        "validation": {
            "episodes": len(episodes), "heuristic": heuristic.name,
            "heuristic_mean": float(heuristic.values.mean()), "gain": gain, "error": error,
            "kept_heuristic": kept,
        },
    }  # fmt: skip


def _beginning(config: TrainingConfig) -> dict[str, Any]:
    """Which policy training went on from, if any: its name, and the hash of its tensors."""
    if config.start_from is None:
        return {}
    origin = _started_from(config.start_from)
    digest = hashlib.sha256(origin.weights.pack().tobytes()).hexdigest()
    return {
        "started_from": {"name": origin.name, "file": Path(config.start_from).name, "weights_sha256": digest}
    }


def episode_facts(episodes: Sequence[Episode]) -> dict[str, Any]:
    """What a card says of the episodes that its policy was chosen on, and of the versions and machine."""
    problems = [episode.problem for episode in episodes]
    return {
        "trained_on": sorted({model.name for p in problems for model in p.table.models}),
        "hardware": sorted({", ".join(p.table.types[c] for c in p.columns[p.type_of]) for p in problems}),
        "contention": sorted({p.contention for p in problems}),
        "bandwidth_bytes_s": sorted({p.bandwidth_bytes_s for p in problems}),
        "late": sorted({e.options.late for e in episodes}),
        "cost_tables": sorted({_table_hash(p.table) for p in problems}),
        "made_with": {key: value for key, value in provenance().items() if key != "command"},
    }


def _table_hash(table: CostTable) -> str:
    """Hash of names, latencies and traffic: which hardware the costs stand for."""
    digest = hashlib.sha256(json.dumps([[m.name for m in table.models], table.types]).encode())
    digest.update(table.latency_s.tobytes() + table.dram_bytes.tobytes())
    return digest.hexdigest()[:16]
