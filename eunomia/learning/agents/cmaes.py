"""A training run: ask, value, tell, keep; stage by stage; stopped at any moment and resumed to the same bits."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.evolution import new_evolution
from eunomia.learning.episodes import Episode, Sampler
from eunomia.learning.objectives import check_objective
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import TrainingState, read_state, write_state
from eunomia.learning.workers import Crew, Workers

Floats = npt.NDArray[np.float64]
Tell = Callable[["Progress"], None]

# What each stage trains; ``sharing``: the price of a start where bandwidth is shared, alone.
# The pointer's inner layers stay as they were drawn (or taught); its output layer is searched.
STAGES: dict[str, tuple[str, ...]] = {
    "linear": ("job", "pair", "start", "gate"),
    "sharing": ("share", "gate"),
    "hidden": ("W1", "b1", "out", "out_start"),
    "pointer": ("out", "out_start"),
}


@dataclass(frozen=True)
class Settings:
    """One stage of training. ``start``: weights that it begins with; its kind of network is that of ``stage``."""

    start: Weights
    stage: str = "linear"
    generations: int = 60
    population: int = 16  # 0 = 4 + 3 ln n
    episodes: int = 8  # per generation
    sigma: float = 0.3
    seed: int = 0
    validate_every: int = 5
    objective: Mapping[str, float] = field(default_factory=lambda: {"hit_rate": 1.0})
    tenants: bool = False  # train on features of promises
    promises: bool = False  # train on them alone
    diagonal: bool = False
    trained: tuple[str, ...] | None = None  # tensors; None = those of the stage
    about: str = ""  # where episodes come from; part of the run's identity

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.stage not in STAGES or self.start.kind not in ("linear", self.stage):
            raise ConfigError(
                f"stage '{self.stage}' cannot train a {self.start.kind} policy; stages: {', '.join(STAGES)}"
            )
        for name, least in (("generations", 1), ("episodes", 1), ("validate_every", 1), ("population", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if 0 < self.population < 4:
            raise ConfigError(f"population is {self.population}; it must be at least 4, or 0 for the default")
        if not self.sigma > 0.0:
            raise ConfigError(f"sigma is {self.sigma}; it must be positive (0.3 is usual)")

    @property
    def codec(self) -> Codec:
        """Search coordinates of this stage."""
        names = self.trained or STAGES[self.stage]
        return Codec(self.start, names, self.tenants, self.promises)

    @property
    def hash(self) -> str:
        """Identity of the run: everything that its numbers depend on."""
        plain = {name: getattr(self, name) for name in
                 ("stage", "population", "episodes", "sigma", "seed", "validate_every", "tenants", "diagonal",
                  "trained", "about")}  # fmt: skip
        plain |= {"promises": True} if self.promises else {}  # hashes of other runs stay as they were
        digest = hashlib.sha256(json.dumps([plain, dict(self.objective)], sort_keys=True).encode())
        digest.update(self.start.pack().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Progress:
    """What is known after a generation. ``entry``: its line of the curve (validation where it was measured)."""

    entry: dict[str, float]
    generations: int
    start: float  # validation of the weights that the run began with
    elapsed_s: float
    left_s: float


@dataclass(frozen=True, eq=False)
class Trained:
    """The outcome of a stage. ``values``, ``start_values``: per validation episode, for the paired comparison."""

    weights: Weights
    values: Floats
    start_values: Floats
    cpu_s: float
    curve: tuple[dict[str, float], ...]

    @property
    def gain(self) -> float:
        """Mean paired difference to the start."""
        return float((self.values - self.start_values).mean())

    @property
    def error(self) -> float:
        """Standard error of the gain over validation episodes."""
        difference = self.values - self.start_values
        return (
            float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else float("inf")
        )


def train(
    settings: Settings,
    sampler: Sampler,
    folder: Path | None = None,
    workers: Crew = 1,
    tell: Tell | None = None,
) -> Trained:
    """Run the remaining generations of a stage. With ``folder``, state is kept there after each generation.

    Equal settings give equal weights for any number of workers and of interruptions. ``generations`` may be raised
    to go on with a finished run, whose last weights were validated and stay candidates.
    Raises RecordError where ``folder`` holds a run with other settings.
    """
    codec = settings.codec
    state = read_state(folder, settings.hash) if folder is not None else None
    state = state or _new_state(settings, codec)
    with Workers(codec, settings.objective, workers) as crew:
        run = _Run(settings, sampler, crew, sampler.validation())
        began, first = time.perf_counter(), state.evolution.generation
        while state.evolution.generation < settings.generations:
            state = run.generation(state)
            if folder is not None:
                write_state(state, folder, settings.hash)
            if tell is not None:
                elapsed_s = time.perf_counter() - began
                each_s = elapsed_s / (state.evolution.generation - first)
                left_s = each_s * (settings.generations - state.evolution.generation)
                tell(Progress(state.curve[-1], settings.generations, run.start, elapsed_s, left_s))
        best = state.best if state.best_value > run.start else np.zeros(codec.size)
        values = crew.values(best[None], run.validation)[0]
    return Trained(codec.decode(best), values, run.start_values, state.cpu_s, state.curve)


def _new_state(settings: Settings, codec: Codec) -> TrainingState:
    zero = np.zeros(codec.size)
    evolution = new_evolution(zero, settings.sigma, settings.population, settings.seed, settings.diagonal)
    return TrainingState(evolution, zero, -np.inf)


class _Run:
    """What all generations of a run share."""

    def __init__(
        self, settings: Settings, sampler: Sampler, crew: Workers, validation: Sequence[Episode]
    ) -> None:
        self.settings, self.sampler, self.crew, self.validation = settings, sampler, crew, validation
        self.start_values = self.crew.values(np.zeros((1, crew.codec.size)), validation)[0]
        self.start = float(self.start_values.mean())

    def generation(self, state: TrainingState) -> TrainingState:
        """Ask, value, tell; validate the new mean when that is due."""
        began_s, old = self.crew.cpu_s, state.evolution
        candidates = old.ask()
        episodes = self.sampler.training(old.generation, self.settings.episodes)
        values = self.crew.values(candidates, episodes).mean(axis=1)
        evolution = old.tell(candidates, values)
        entry = {"generation": float(evolution.generation), "mean": float(values.mean()),
                 "best": float(values.max()), "sigma": evolution.sigma}  # fmt: skip
        best, best_value = state.best, state.best_value
        last = evolution.generation == self.settings.generations
        if last or evolution.generation % self.settings.validate_every == 0:
            validated = float(self.crew.values(evolution.mean[None], self.validation)[0].mean())
            entry |= {"validation": validated, "gain": validated - self.start}
            if validated > best_value:
                best, best_value = evolution.mean, validated
        cpu_s = state.cpu_s + self.crew.cpu_s - began_s
        return TrainingState(evolution, best, best_value, cpu_s, (*state.curve, entry))
