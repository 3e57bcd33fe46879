"""Networks, optimisers and generators of PyTorch as named arrays, and back, bit for bit; what agents in it share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.config.algorithm import BdqAlgorithm, PpoAlgorithm, SacAlgorithm
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.bdq.policy import BranchingPolicy
from eunomia.learning.agents.pointer_policy import PointerPolicy
from eunomia.learning.gym.stage import Stage
from eunomia.learning.loop import Agent
from eunomia.learning.state import Arrays, Pieces

Played = PpoAlgorithm | SacAlgorithm | BdqAlgorithm
Part = nn.Module | torch.optim.Optimizer | torch.Generator | Tensor


class TorchState:
    """What has its state in attributes: ``PARTS`` of PyTorch, and whole numbers ``COUNTERS``."""

    PARTS: tuple[str, ...] = ()
    COUNTERS: tuple[str, ...] = ()

    def kept(self) -> Arrays:
        """Everything that the next step depends on, under ``part.name``."""
        parts = {part: _tensors(getattr(self, part)) for part in self.PARTS}
        arrays: Arrays = {
            f"{part}.{name}".removesuffix("."): value.numpy().copy()
            for part, tensors in parts.items()
            for name, value in tensors.items()
        }
        return arrays | {name: np.array(getattr(self, name)) for name in self.COUNTERS}

    def put_back(self, arrays: Arrays) -> None:
        """Undo ``kept``, in place."""
        for part in self.PARTS:
            mine = {
                name[len(part) + 1 :]: torch.from_numpy(value.copy())
                for name, value in arrays.items()
                if name == part or name.startswith(f"{part}.")
            }
            _take(getattr(self, part), mine)
        for name in self.COUNTERS:
            setattr(self, name, int(arrays[name]))


def _tensors(part: Part) -> dict[str, Tensor]:
    """Its tensors by name; that of a part which is one tensor is empty."""
    if isinstance(part, nn.Module):
        return dict(part.state_dict())
    if isinstance(part, torch.optim.Optimizer):
        states = part.state_dict()["state"].items()
        return {f"{number}.{name}": value for number, state in states for name, value in state.items()}
    return {"": part.get_state() if isinstance(part, torch.Generator) else part.detach()}


def _take(part: Part, tensors: dict[str, Tensor]) -> None:
    if isinstance(part, nn.Module):
        part.load_state_dict(tensors)
    elif isinstance(part, torch.optim.Optimizer):
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            number, key = name.split(".", 1)
            states.setdefault(int(number), {})[key] = value
        part.load_state_dict({**part.state_dict(), "state": states})
    elif isinstance(part, torch.Generator):
        part.set_state(tensors[""])
    else:
        with torch.no_grad():
            part.copy_(tensors[""])


class Network(Protocol):
    """What is trained, and the tensors that a policy without PyTorch needs of it."""

    def numbers(self) -> Arrays:
        """By name."""


class TorchAgent(TorchState, Agent):
    """An agent in PyTorch that plays whole episodes on a stage with the encoding ``ENCODING``; trains a ``SERVED``."""

    ENCODING = "start_eft"
    SERVED: type[PointerPolicy] | type[BranchingPolicy] = PointerPolicy
    network: Network
    settings: Played

    def __init__(self, settings: Played, context: Context) -> None:
        super().__init__(context.task)
        self.settings, self.seed, self.done = settings, context.seed, 0  # decisions so far

    def stage(self, number: int) -> Stage:
        """The episodes of iteration ``number``, at their first decisions."""
        s = self.settings
        return Stage.of(self.task.training(number, s.episodes), self.ENCODING, s.reward, s.most)

    def arrays(self) -> Arrays:
        """Networks, optimisers, random numbers, counters."""
        return self.kept()

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        self.put_back(arrays)

    def tensors(self) -> Arrays:
        """The network as numbers."""
        return self.network.numbers()

    def policy(self, tensors: Arrays, name: str = "") -> PointerPolicy | BranchingPolicy:
        """The network without PyTorch."""
        return self.SERVED(tensors, name or self.SERVED.FAMILY, self.settings.most)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn within follows from ``seed``; PyTorch's own generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def follow(slow: nn.Module, own: Iterable[nn.Module], tau: float) -> None:
    """theta' <- (1 - tau) theta' + tau theta, for the parameters of ``own`` in turn."""
    with torch.no_grad():
        values: list[Tensor] = [value for module in own for value in module.parameters()]
        torch._foreach_lerp_(list(slow.parameters()), values, tau)


def descend(
    loss: Tensor, step: torch.optim.Optimizer, clipped: nn.Module | None = None, most: float = 1.0
) -> None:
    """One step against the gradient; the gradient of ``clipped`` has a norm of ``most`` at the most."""
    step.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    if clipped is not None:
        nn.utils.clip_grad_norm_(clipped.parameters(), most)
    step.step()
