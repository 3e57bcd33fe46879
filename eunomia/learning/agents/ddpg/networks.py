"""Actor and critic in PyTorch, for training only."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.learning.agents.ddpg.network import Actor
from eunomia.learning.agents.ddpg.table import inputs


def mask_of(count: Tensor, length: int) -> Tensor:
    """(B, n) True where there is a sub-job."""
    return torch.arange(length)[None, :] < count[:, None]


class ActorNet(nn.Module):
    """LSTM over the list, and per sub-job priority and S scores in (-1, 1)."""

    def __init__(self, lanes: int, promises: bool, units: int) -> None:
        super().__init__()
        self.lanes, self.promises = lanes, promises
        self.lstm = nn.LSTM(inputs(lanes, promises), units, batch_first=True)
        self.head = nn.Linear(units, 1 + lanes)

    def forward(self, seen: Tensor) -> Tensor:
        """(B, n, F) -> (B, n, 1 + S). Padding comes last, so it changes nothing before it."""
        return torch.tanh(self.head(self.lstm(seen)[0]))

    def numbers(self) -> Actor:
        """The weights for serving; PyTorch's two biases become one."""
        t = {name: value.numpy().astype(np.float64) for name, value in self.state_dict().items()}
        return Actor(
            self.lanes, self.promises, np.ascontiguousarray(t["lstm.weight_ih_l0"].T),
            np.ascontiguousarray(t["lstm.weight_hh_l0"].T), t["lstm.bias_ih_l0"] + t["lstm.bias_hh_l0"],
            np.ascontiguousarray(t["head.weight"].T), t["head.bias"],
        )  # fmt: skip

    def take(self, actor: Actor) -> None:
        """Set the weights from numbers."""
        plain = {
            "lstm.weight_ih_l0": actor.x.T, "lstm.weight_hh_l0": actor.h.T, "lstm.bias_ih_l0": actor.bias,
            "lstm.bias_hh_l0": np.zeros_like(actor.bias), "head.weight": actor.out.T, "head.bias": actor.out_bias,
        }  # fmt: skip
        self.load_state_dict(
            {name: torch.from_numpy(np.array(value, np.float32)) for name, value in plain.items()}
        )


class CriticNet(nn.Module):
    """Q: LSTM over (features, action) of the list, mean of its states over the sub-jobs, one hidden layer."""

    def __init__(self, lanes: int, promises: bool, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs(lanes, promises) + 1 + lanes, units, batch_first=True)
        self.head = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 1))

    def forward(self, seen: Tensor, action: Tensor, count: Tensor) -> Tensor:
        """(B,) value; 0 for an empty list."""
        states = self.lstm(torch.cat([seen, action], dim=2))[0]
        mask = mask_of(count, seen.shape[1])[:, :, None]
        mean = (states * mask).sum(dim=1) / count.clamp(min=1)[:, None]
        value: Tensor = self.head(mean)[:, 0]
        return value * (count > 0)
