"""Networks, optimisers and generators of PyTorch as named arrays, and back, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

Arrays = dict[str, np.ndarray[Any, Any]]
Part = Any  # nn.Module, torch.optim.Optimizer, torch.Generator, or a tensor


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
            states: dict[int, dict[str, torch.Tensor]] = {}
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
