"""Episodes of scenarios: which traces training, validation and tests see."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from eunomia.config import Scenario, as_table, load_scenario, with_values
from eunomia.config.load import scenario_from
from eunomia.config.training import TrainingConfig
from eunomia.inference.problem import build_problem
from eunomia.learning.episodes import Episode, Sampler
from eunomia.study.files import file_stamps
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.drawn import ZOO, Draws
from eunomia.study.inference.run import engine_options
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED

FIRST_TRAINING_SEED = 1_000_000_000  # apart from those of tests and of validation
SEEDS_PER_GENERATION = 10_000
RECORDINGS = Path("runs") / "drawn"  # traces made up for drawn places


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
            for scenario in (*map(load_scenario, config.scenarios), *drawn(config))
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


def drawn(config: TrainingConfig) -> list[Scenario]:
    """The scenarios of ``places``, with networks of the zoo alone."""
    if config.places is None:
        return []
    draws, (first, last) = (
        Draws(tuple(ZOO.split()), tuple(ZOO.split()), config.requests, RECORDINGS),
        config.places,
    )
    return [scenario_from(draws.place(number)) for number in range(first, last + 1)]


def is_promised(config: TrainingConfig, episodes: Sequence[Episode]) -> bool:
    """Whether anything is promised to anybody."""
    return config.targets is not None or any((e.problem.jobs.slo_kind >= 0).any() for e in episodes)


@dataclass(frozen=True, eq=False)
class Later:
    """The same sampler for a later stage: training begins after ``first`` generations, on traces not yet seen."""

    sampler: Sampler
    first: int

    def training(self, generation: int, count: int) -> Sequence[Episode]:
        """Episodes of one generation of the stage."""
        return self.sampler.training(self.first + generation, count)

    def validation(self) -> Sequence[Episode]:
        """Those of all stages."""
        return self.sampler.validation()


def scenario_episode(scenario: Scenario, seed: int, most: int | None = None) -> Episode:
    """One trace of a scenario, its first ``most`` requests, measured after its warm-up."""
    bench = prepare(scenario)
    requests = bench.requests(seed).first(most)
    options = engine_options(scenario, seed, "requests")
    problem = build_problem(requests, bench.machine.table, bench.machine, options)
    return Episode(problem, options, f"{scenario.name}, load {scenario.load}, seed {seed}", scenario.warmup_s)
