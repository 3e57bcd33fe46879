"""Networks, optimisers and generators of PyTorch as named arrays, and back, bit for bit; what agents in it share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.learning.loop import Agent
from eunomia.learning.state import Arrays, Pieces
from eunomia.learning.workers import Workers

if TYPE_CHECKING:
    from eunomia.learning.agents import Context

Part = nn.Module | torch.optim.Optimizer | torch.Generator | Tensor


def kept(parts: Mapping[str, Part]) -> Arrays:
    """Everything that the next step of these parts depends on, under ``part.name``."""
    arrays: Arrays = {}
    for part, thing in parts.items():
        if isinstance(thing, nn.Module):
            arrays |= {f"{part}.{name}": value.numpy().copy() for name, value in thing.state_dict().items()}
        elif isinstance(thing, torch.optim.Optimizer):
            for number, state in thing.state_dict()["state"].items():
                arrays |= {f"{part}.{number}.{name}": value.numpy().copy() for name, value in state.items()}
        elif isinstance(thing, torch.Generator):
            arrays[part] = thing.get_state().numpy().copy()
        else:
            arrays[part] = thing.detach().numpy().copy()
    return arrays


def put_back(parts: Mapping[str, Part], arrays: Arrays) -> None:
    """Undo ``kept``, in place."""
    for part, thing in parts.items():
        if isinstance(thing, nn.Module):
            thing.load_state_dict(
                {name: torch.from_numpy(arrays[f"{part}.{name}"].copy()) for name in thing.state_dict()}
            )
        elif isinstance(thing, torch.optim.Optimizer):
            states: dict[int, dict[str, Tensor]] = {}
            for name, value in arrays.items():
                if name.startswith(f"{part}."):
                    _, number, key = name.split(".", 2)
                    states.setdefault(int(number), {})[key] = torch.from_numpy(value.copy())
            thing.load_state_dict({**thing.state_dict(), "state": states})
        elif isinstance(thing, torch.Generator):
            thing.set_state(torch.from_numpy(arrays[part].copy()))
        else:
            with torch.no_grad():
                thing.copy_(torch.from_numpy(arrays[part]))


class TorchAgent(Agent):
    """An agent whose state is made of its attributes ``PARTS`` and whole numbers ``COUNTERS``."""

    PARTS: tuple[str, ...] = ()
    COUNTERS: tuple[str, ...] = ()

    def __init__(self, settings: Any, context: Context) -> None:
        super().__init__(context.task)
        self.settings, self.seed = settings, context.seed

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.PARTS}

    def arrays(self) -> Arrays:
        """Networks, optimisers, random numbers, counters."""
        return kept(self._parts()) | {name: np.array(getattr(self, name)) for name in self.COUNTERS}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        put_back(self._parts(), arrays)
        for name in self.COUNTERS:
            setattr(self, name, int(arrays[name]))


def descend(
    loss: Tensor, step: torch.optim.Optimizer, clipped: nn.Module | None = None, most: float = 1.0
) -> None:
    """One step against the gradient; the gradient of ``clipped`` has a norm of ``most`` at the most."""
    step.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    if clipped is not None:
        nn.utils.clip_grad_norm_(clipped.parameters(), most)
    step.step()
