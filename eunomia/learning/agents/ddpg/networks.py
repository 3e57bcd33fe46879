"""Actor and critic in PyTorch: an LSTM over the list of sub-jobs (RELMAS), or Deep Sets, in whatever order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.core.arrays import Floats
from eunomia.learning.agents.ddpg.act import N_EACH, SCORES
from eunomia.learning.agents.ddpg.features import N_JOB, inputs
from eunomia.learning.agents.ddpg.sets import width_of


def mask_of(count: Tensor, length: int) -> Tensor:
    """(B, n) True where there is a sub-job."""
    return torch.arange(length)[None, :] < count[:, None]


class Sets(nn.Module):
    """k of sets.py: (B, n, F) and (B, n) where there is a sub-job -> (B, n, units)."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.first, self.mix = nn.Linear(width, units), nn.Linear(3 * units, units)

    def forward(self, seen: Tensor, there: Tensor) -> Tensor:
        """Every sub-job, with mean and maximum of all."""
        each, mask = nn.functional.softsign(self.first(seen)), there[:, :, None]
        mean = (each * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        most = each.masked_fill(~mask, -1.0).amax(dim=1)
        wide = torch.cat([mean, most], dim=1)[:, None, :].expand(-1, seen.shape[1], -1)
        return nn.functional.softsign(self.mix(torch.cat([each, wide], dim=2)))


class Listed(nn.Module):
    """A network over sub-jobs whose features are shifted and scaled by what was seen at the beginning."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def read(self, seen: Tensor) -> Tensor:
        """What the network reads of features."""
        return seen

    def normalise(self, seen: Tensor) -> None:
        """Take mean and deviation of (n, F) sub-jobs; what hardly varies is left alone."""
        seen = self.read(seen)
        self.mean.copy_(seen.mean(dim=0))
        deviation = seen.std(dim=0)
        self.scale.copy_(torch.where(deviation > 1e-3, deviation, torch.ones_like(deviation)))


class ActorNet(Listed):
    """LSTM over the list, and per sub-job priority, margin and S scores in (-1, 1); ``still``: all 0 at first."""

    def __init__(self, lanes: int, promises: bool, units: int, still: bool = False) -> None:
        super().__init__(inputs(lanes, promises))
        self.lstm = nn.LSTM(inputs(lanes, promises), units, batch_first=True)
        self.head = nn.Linear(units, SCORES + lanes)
        for part in self.head.parameters() if still else ():
            nn.init.zeros_(part)

    def forward(self, seen: Tensor, count: Tensor) -> Tensor:
        """(B, n, F) -> (B, n, 2 + S). Padding comes last, so it changes nothing before it."""
        return torch.tanh(self.head(self.lstm((seen - self.mean) / self.scale)[0]))

    def numbers(self) -> dict[str, Floats]:
        """The tensors of policy.py; PyTorch's two biases become one, and take in the shift."""
        t = {name: value.numpy().astype(np.float64) for name, value in self.state_dict().items()}
        x, bias = t["lstm.weight_ih_l0"] / t["scale"], t["lstm.bias_ih_l0"] + t["lstm.bias_hh_l0"]
        plain = {
            "x": x.T, "h": t["lstm.weight_hh_l0"].T, "out": t["head.weight"].T,
            "bias": bias - x @ t["mean"], "out_bias": t["head.bias"],
        }  # fmt: skip
        return {name: np.ascontiguousarray(value) for name, value in plain.items()}


class SetActor(Listed):
    """The Deep Sets of sets.py; ``still``: all actions are 0 at first."""

    def __init__(self, lanes: int, promises: bool, units: int, still: bool = False) -> None:
        super().__init__(width_of(promises))
        self.lanes, self.sets = lanes, Sets(width_of(promises), units)
        self.head = nn.Linear(units, SCORES + N_EACH)
        for part in self.head.parameters() if still else ():
            nn.init.zeros_(part)

    def each(self, seen: Tensor) -> Tensor:
        """(..., EACH, S) features of accelerators."""
        return seen[..., N_JOB : N_JOB + N_EACH * self.lanes].reshape(*seen.shape[:-1], N_EACH, self.lanes)

    def read(self, seen: Tensor) -> Tensor:
        """u of sets.py."""
        each, rest = self.each(seen), seen[..., N_JOB + N_EACH * self.lanes :]
        return torch.cat([seen[..., :N_JOB], rest, each.mean(dim=-1), each.amax(dim=-1)], dim=-1)

    def forward(self, seen: Tensor, count: Tensor) -> Tensor:
        """(B, n, F) -> (B, n, 2 + S)."""
        there = mask_of(count, seen.shape[1])
        out = self.head(self.sets((self.read(seen) - self.mean) / self.scale, there))
        scores = (out[..., SCORES:, None] * self.each(seen)).sum(dim=-2)
        return torch.tanh(torch.cat([out[..., :SCORES], scores], dim=-1))

    def numbers(self) -> dict[str, Floats]:
        """The tensors of sets.py, which take in the shift."""
        t = {name: value.numpy().astype(np.float64) for name, value in self.state_dict().items()}
        first = t["sets.first.weight"] / t["scale"]
        plain = {"first": first.T, "first_bias": t["sets.first.bias"] - first @ t["mean"]}
        plain |= {"mix": t["sets.mix.weight"].T, "mix_bias": t["sets.mix.bias"]}
        plain |= {"out": t["head.weight"].T, "out_bias": t["head.bias"]}
        return {name: np.ascontiguousarray(value) for name, value in plain.items()}


def actor_of(lanes: int, promises: bool, settings: RelmasAlgorithm) -> ActorNet | SetActor:
    """The actor that settings ask for."""
    kind = SetActor if settings.network == "sets" else ActorNet
    return kind(lanes, promises, settings.units, settings.residual)


class CriticNet(Listed):
    """Q, compatible or joint."""

    def __init__(self, lanes: int, promises: bool, settings: RelmasAlgorithm) -> None:
        joint, units, outs = settings.critic == "joint", settings.units, SCORES + lanes
        super().__init__(inputs(lanes, promises))
        width = inputs(lanes, promises) + (outs if joint else 0)
        self.lstm = nn.LSTM(width, units, batch_first=True, bidirectional=True)
        self.slopes = None if joint else nn.Linear(2 * units, outs)
        self.head = nn.Sequential(nn.Linear(2 * units, units), nn.ReLU(), nn.Linear(units, 1))

    def forward(self, seen: Tensor, action: Tensor, usual: Tensor, count: Tensor) -> Tensor:
        """(B,) value of actions where ``usual`` ones are mu'; 0 for an empty list."""
        given = (seen - self.mean) / self.scale
        given = torch.cat([given, action], dim=2) if self.slopes is None else given
        packed = pack_padded_sequence(given, count.clamp(min=1), batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=seen.shape[1])[0]
        mask = mask_of(count, seen.shape[1])[:, :, None]
        mean = (states * mask).sum(dim=1) / count.clamp(min=1)[:, None]
        value: Tensor = self.head(mean)[:, 0]
        if self.slopes is not None:
            value = value + (self.slopes(states) * (action - usual) * mask).sum(dim=(1, 2))
        return value * (count > 0)
