"""Expert iteration: label, descend, validate; round by round, stopped at any moment and resumed to the same bits.

Round r labels states to which the policy of round r - 1 comes (DAgger: Ross, Gordon and Bagnell, AISTATS 2011), and
descends on the labels of all rounds. Policies are chosen by closed-loop validation: neither loss nor agreement with the
teacher ranks them. The state on disk is the path of the coordinates; labels are made again from it where needed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.cmaes import Progress, Tell, Trained
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.expert.labels import Labels, collect, together
from eunomia.learning.agents.expert.regret import Descent, descend
from eunomia.learning.episodes import Episode, Sampler
from eunomia.learning.objectives import check_objective
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import read_arrays, write_arrays
from eunomia.learning.workers import Crew, Workers

Floats = npt.NDArray[np.float64]

# What is trained; decisions to hold only where they are asked for: labels overrate them (results/learned.md).
ORDER: dict[str, tuple[str, ...]] = {"linear": ("job",), "hidden": ("job", "W1", "b1", "out")}
HOLDING: dict[str, tuple[str, ...]] = {"linear": ("start", "gate"), "hidden": ("start", "gate", "out_start")}


@dataclass(frozen=True)
class ExpertSettings:
    """One stage. ``rule``: what rollouts follow; ``share``: of decision points that are labelled; ``price`` in hits."""

    start: Weights
    rule: str
    rounds: int = 4
    episodes: int = 8  # per round
    seed: int = 0
    share: float = 0.1
    price: float = 0.7
    hold: bool = False
    descent: Descent = field(default_factory=Descent)
    objective: Mapping[str, float] = field(default_factory=lambda: {"hit_rate": 1.0})  # of validation alone
    about: str = ""

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.start.kind not in ORDER:
            raise ConfigError(
                f"expert iteration cannot train a {self.start.kind} policy; kinds: {', '.join(ORDER)}"
            )
        for name, least in (("rounds", 1), ("episodes", 1), ("price", 0.0)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"share is {self.share}; it must be above 0, at most 1 (0.1 is usual)")

    @property
    def codec(self) -> Codec:
        """Coordinates of this stage; features of promises are left alone, for labels count hits."""
        names = (*ORDER[self.start.kind], *(HOLDING[self.start.kind] if self.hold else ()))
        return Codec(self.start, names, False)

    @property
    def hash(self) -> str:
        """Identity of the run: everything that its numbers depend on but the number of rounds."""
        plain = {name: getattr(self, name) for name in
                 ("rule", "episodes", "seed", "share", "price", "hold", "about")}  # fmt: skip
        text = json.dumps(["expert", plain, vars(self.descent), dict(self.objective)], sort_keys=True)
        digest = hashlib.sha256(text.encode())
        digest.update(self.start.pack().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class _State:
    """``path`` (rounds + 1, n): coordinates after each round, the start first."""

    path: Floats
    best: Floats
    best_value: float
    cpu_s: float = 0.0
    curve: tuple[dict[str, float], ...] = ()


def train_by_expert(
    settings: ExpertSettings, sampler: Sampler, folder: Path | None = None, workers: Crew = 1, tell: Tell | None = None
) -> Trained:  # fmt: skip
    """Run the remaining rounds of a stage; as ``training.run.train`` in all else."""
    codec, validation = settings.codec, sampler.validation()
    state = _read(folder, settings.hash) if folder is not None else None
    state = state or _State(np.zeros((1, codec.size)), np.zeros(codec.size), -np.inf)
    with Workers(codec, settings.objective, workers) as crew:
        start_values = crew.values(np.zeros((1, codec.size)), validation)[0]
        labels = [_labels(settings, crew, sampler, r, x) for r, x in enumerate(state.path[:-1])]
        began, first = time.perf_counter(), len(state.path)
        while len(state.path) <= settings.rounds:
            before_s, number = crew.cpu_s, len(state.path) - 1
            labels.append(_labels(settings, crew, sampler, number, state.path[-1]))
            state = _round(settings, crew, state, together(labels), validation, float(start_values.mean()))
            state = replace(state, cpu_s=state.cpu_s + crew.cpu_s - before_s)
            if folder is not None:
                _write(state, folder, settings.hash)
            if tell is not None:
                elapsed_s = time.perf_counter() - began
                left_s = elapsed_s / (len(state.path) - first) * (settings.rounds + 1 - len(state.path))
                start = float(start_values.mean())
                tell(Progress(state.curve[-1], settings.rounds, start, elapsed_s, left_s))
        best = state.best if state.best_value > start_values.mean() else np.zeros(codec.size)
        values = crew.values(best[None], validation)[0]
    return Trained(codec.decode(best), values, start_values, state.cpu_s, state.curve)


def _labels(settings: ExpertSettings, crew: Workers, sampler: Sampler, number: int, x: Floats) -> Labels:
    """Labels of one round, under the policy at ``x``."""
    weights = crew.codec.decode(x)
    tasks = [(weights, settings.rule, settings.price, settings.share, 1000 * number + i, episode)
             for i, episode in enumerate(sampler.training(number, settings.episodes))]  # fmt: skip
    made = together(crew.map(_collect, tasks))
    return made if settings.hold else replace(made, hold=made.regret)


def _collect(task: tuple[Any, ...]) -> Labels:
    return collect(*task)


def _round(
    settings: ExpertSettings, crew: Workers, state: _State, labels: Labels, validation: list[Episode], start: float
) -> _State:  # fmt: skip
    """Descend on all labels, and validate."""
    number = len(state.path)
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, number, 0xE1]))
    began = time.process_time()
    x, loss = descend(crew.codec, state.path[-1], labels, settings.descent, rng)
    cpu_s = time.process_time() - began
    validated = float(crew.values(x[None], validation)[0].mean())
    entry = {"generation": float(number), "points": float(labels.points), "loss": loss,
             "validation": validated, "gain": validated - start}  # fmt: skip
    better = validated > state.best_value
    return _State(
        np.vstack([state.path, x]), x if better else state.best, max(validated, state.best_value),
        state.cpu_s + cpu_s, (*state.curve, entry),
    )  # fmt: skip


def _write(state: _State, folder: Path, settings_hash: str) -> None:
    notes = {"best_value": state.best_value, "cpu_s": state.cpu_s, "curve": state.curve}
    write_arrays({"path": state.path, "best": state.best}, notes, folder, settings_hash)


def _read(folder: Path, settings_hash: str) -> _State | None:
    found = read_arrays(folder, settings_hash)
    if found is None:
        return None
    arrays, notes = found
    return _State(arrays["path"], arrays["best"], notes["best_value"], notes["cpu_s"], tuple(notes["curve"]))
