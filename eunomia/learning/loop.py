"""One loop for trainers that play and learn in iterations: progress, validation, the best policy, resuming to the bit.

An ``Agent`` is one algorithm. Its state after an iteration is all that the next one depends on; it replaces the old
one on disk in one step, so that a kill loses at most one iteration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.torch_state import Arrays
from eunomia.learning.episodes import Sampler
from eunomia.learning.objectives import check_objective, value
from eunomia.learning.state import read_arrays, write_arrays

Floats = npt.NDArray[np.float64]


class Agent(Protocol):
    """One algorithm, as the loop sees it."""

    def iterate(self, number: int) -> dict[str, float]:
        """Play and learn; what the curve shows of it. ``number`` counts from 1."""

    def arrays(self) -> Arrays:
        """Everything that the next iteration depends on."""

    def restore(self, arrays: Arrays) -> None:
        """Go on from ``arrays()``."""

    def tensors(self) -> dict[str, Floats]:
        """The policy as it is now, as numbers."""

    def validate(self, tensors: dict[str, Floats]) -> Floats:
        """The objective of a policy on every validation episode."""


@dataclass(frozen=True)
class Plan:
    """How long, and how often validated. ``identity``: hash of all that the numbers depend on."""

    iterations: int = 20
    validate_every: int = 5
    objective: dict[str, float] = field(default_factory=lambda: {"hit_rate": 1.0})
    identity: str = ""

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if min(self.iterations, self.validate_every) < 1:
            raise ConfigError("iterations and validate_every must be at least 1")


@dataclass(frozen=True)
class Progress:
    """What is known after an iteration."""

    entry: dict[str, float]
    iterations: int
    left_s: float


@dataclass(frozen=True, eq=False)
class Trained:
    """The best policy on validation with its values there, and those of the untrained start."""

    tensors: dict[str, Floats]
    values: Floats
    start_values: Floats
    cpu_s: float
    curve: tuple[dict[str, float], ...]


@dataclass(frozen=True, eq=False)
class _State:
    agent: Arrays
    best: dict[str, Floats]
    values: Floats
    start_values: Floats
    iteration: int = 0
    cpu_s: float = 0.0
    curve: tuple[dict[str, float], ...] = ()


def valued(policy: Any, sampler: Sampler, objective: Mapping[str, float]) -> Floats:
    """The objective of a policy on every validation episode."""
    return np.array([value(policy, episode, objective) for episode in sampler.validation()])


def train(
    agent: Agent, plan: Plan, folder: Path | None = None, tell: Callable[[Progress], None] | None = None
) -> Trained:
    """Run what is left. Equal plans give equal bits, however often the run was stopped. Raises RecordError."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in the same order on every machine; these networks are small
    try:
        state = _read(folder, plan.identity) if folder is not None else None
        if state is None:
            start = agent.tensors()
            values = agent.validate(start)
            state = _State(agent.arrays(), start, values, values)
        else:
            agent.restore(state.agent)
        began, first = time.perf_counter(), state.iteration
        while state.iteration < plan.iterations:
            state = _iterate(agent, plan, state)
            if folder is not None:
                _write(state, folder, plan.identity)
            if tell is not None:
                each_s = (time.perf_counter() - began) / (state.iteration - first)
                tell(Progress(state.curve[-1], plan.iterations, each_s * (plan.iterations - state.iteration)))
    finally:
        torch.set_num_threads(before)
    return Trained(state.best, state.values, state.start_values, state.cpu_s, state.curve)


def _iterate(agent: Agent, plan: Plan, state: _State) -> _State:
    began, number = time.process_time(), state.iteration + 1
    entry = {"iteration": float(number), **agent.iterate(number)}
    best, values = state.best, state.values
    if number == plan.iterations or number % plan.validate_every == 0:
        tensors = agent.tensors()
        found = agent.validate(tensors)
        entry["validation"] = float(found.mean())
        if found.mean() > values.mean():
            best, values = tensors, found
    cpu_s = state.cpu_s + time.process_time() - began
    return _State(agent.arrays(), best, values, state.start_values, number, cpu_s, (*state.curve, entry))


def _write(state: _State, folder: Path, identity: str) -> None:
    arrays = {f"agent.{name}": value for name, value in state.agent.items()}
    arrays |= {f"best.{name}": value for name, value in state.best.items()}
    arrays |= {"values": state.values, "start_values": state.start_values}
    notes = {"iteration": state.iteration, "cpu_s": state.cpu_s, "curve": state.curve}
    write_arrays(arrays, notes, folder, identity)


def _read(folder: Path, identity: str) -> _State | None:
    found = read_arrays(folder, identity)
    if found is None:
        return None
    arrays, notes = found

    def part(name: str) -> dict[str, Any]:
        return {key.removeprefix(name): value for key, value in arrays.items() if key.startswith(name)}

    return _State(part("agent."), part("best."), arrays["values"], arrays["start_values"], notes["iteration"],
                  notes["cpu_s"], tuple(notes["curve"]))  # fmt: skip
