"""The one training loop: progress, validation, the best policy so far, and a state on disk after every iteration.

An :class:`Agent` is one algorithm; :mod:`eunomia.learning.agents` has the table of them. A :class:`Task` says where
episodes come from and what a policy is worth on one. Policies are chosen on validation episodes alone. Equal settings
give equal bits for any number of workers, however often a training was stopped.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.core import interrupts
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Crew, Workers
from eunomia.learning.episodes import Task
from eunomia.learning.state import Arrays, Entry, Pieces, State, read_state, write_state


class Agent(ABC):
    """One algorithm. What it learns are named *tensors*; ``policy`` turns them into a policy for the engine."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def begin(self, crew: Workers) -> Entry:
        """What comes before the first iteration, if anything; what the curve shows of it."""
        return {}

    @abstractmethod
    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn; what the curve shows of it. ``number`` counts from 1."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything that the next iteration depends on, but for ``pieces``."""

    def pieces(self) -> Pieces:
        """Large parts of the state that never change, by name."""
        return {}

    @abstractmethod
    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()`` and ``pieces()``."""

    @abstractmethod
    def tensors(self) -> Arrays:
        """The policy as it is now, as numbers."""

    @abstractmethod
    def policy(self, tensors: Arrays, name: str = "") -> Any:
        """The policy with these numbers, ready to be valued, served and saved."""

    def close(self) -> None:  # noqa: B027 - most agents have nothing to end
        """Free what the agent holds: processes of its own."""


@dataclass(frozen=True)
class Plan:
    """How long, and how often validated. ``identity``: hash of all that the numbers depend on."""

    iterations: int = 20
    validate_every: int = 5
    identity: str = ""

    def __post_init__(self) -> None:
        if min(self.iterations, self.validate_every) < 1:
            raise ConfigError(
                f"iterations is {self.iterations} and validate_every {self.validate_every}; both must be at least 1"
            )


@dataclass(frozen=True)
class Progress:
    """What is known after an iteration. ``entry``: its line of the curve."""

    entry: Entry
    iterations: int
    left_s: float


Tell = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """The best policy on validation with its values there, and those of the start: one number per episode."""

    tensors: Arrays
    values: Floats
    start_values: Floats
    cpu_s: float
    curve: tuple[Entry, ...]


def paired_error(difference: Floats) -> float:
    """Standard error of a mean paired difference; 0 where there is one episode only."""
    return float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0


def train(
    agent: Agent, plan: Plan, folder: Path | None = None, workers: Crew = 1, tell: Tell | None = None
) -> Trained:
    """Run what is left of a training. With ``folder``, its state is kept there after every iteration.

    ``iterations`` may be raised to go on with a finished training; its last iteration was validated too, as that of a
    longer one would not have been, and may be the best. Raises RecordError where ``folder`` holds a training
    with another identity.
    """
    try:
        with _one_thread(), Workers(workers) as crew:
            state = read_state(folder, plan.identity) if folder is not None else None
            if state is None:
                state = _begin(agent, crew)
                if folder is not None:
                    write_state(state, folder, plan.identity)
            else:
                agent.restore(state.agent, state.pieces, crew)
            began, first = time.perf_counter(), state.iteration
            while state.iteration < plan.iterations:
                state = _iterate(agent, plan, state, crew)
                if folder is not None:
                    write_state(state, folder, plan.identity)
                if tell is not None:
                    each_s = (time.perf_counter() - began) / (state.iteration - first)
                    left = plan.iterations - state.iteration
                    tell(Progress(state.curve[-1], plan.iterations, each_s * left))
                interrupts.check()
    finally:
        agent.close()
    return Trained(state.best, state.values, state.start_values, state.cpu_s, state.curve)


def _begin(agent: Agent, crew: Workers) -> State:
    began = time.process_time() + crew.away_s
    entry = agent.begin(crew)
    tensors = agent.tensors()
    values = worth_of(agent, tensors, crew)
    curve = ({"iteration": 0.0, **entry, "validation": float(values.mean())},) if entry else ()
    cpu_s = time.process_time() + crew.away_s - began
    return State(agent.arrays(), tensors, values, values, cpu_s=cpu_s, curve=curve, pieces=agent.pieces())


def _iterate(agent: Agent, plan: Plan, state: State, crew: Workers) -> State:
    began, number = time.process_time() + crew.away_s, state.iteration + 1
    entry = {"iteration": float(number), **agent.iterate(number, crew)}
    best, values = state.best, state.values
    if number == plan.iterations or number % plan.validate_every == 0:
        tensors = agent.tensors()
        found = worth_of(agent, tensors, crew)
        entry["validation"] = float(found.mean())
        entry["gain"] = entry["validation"] - float(state.start_values.mean())
        if found.mean() > values.mean():
            best, values = tensors, found
    cpu_s = state.cpu_s + time.process_time() + crew.away_s - began + entry.get("workers_cpu_s", 0.0)
    known = best, values, state.start_values, number, cpu_s, (*state.curve, entry)
    return State(agent.arrays(), *known, agent.pieces())


def worth_of(agent: Agent, tensors: Arrays, crew: Workers) -> Floats:
    """What the policy with these numbers is worth on every validation episode."""
    policy, task = agent.policy(tensors), agent.task
    return np.array(crew.map(_worth, [(task.worth, policy, episode) for episode in task.validation()]))


def _worth(task: tuple[Callable[[Any, Any], float], Any, Any]) -> float:
    worth, policy, episode = task
    return worth(policy, episode)


@contextmanager
def _one_thread() -> Iterator[None]:
    """PyTorch, where it is in use, sums in the same order on every machine; these networks are small."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def mean_of(told: Sequence[Entry]) -> Entry:
    """Means by name over the updates of an iteration; names that some updates lack are averaged over the others."""
    names = dict.fromkeys(name for one in told for name in one)
    return {name: float(np.mean([one[name] for one in told if name in one])) for name in names}
