"""The branching network in torch, for training; formulas in serve.py, which it is tested to equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from eunomia.core.errors import UnknownNameError
from eunomia.learning.agents.bdq.policy import REACH, BranchingWeights, shapes
from eunomia.learning.observation.table import GLOBAL

# What auxiliary heads foretell from the trunk: a global feature at the next decision.
AUXILIARIES = {
    "next_demand": GLOBAL.index("demand_share"),  # bandwidth demand
    "next_waiting": GLOBAL.index("waiting"),  # arrivals less departures
    "next_hopeless": GLOBAL.index("hopeless_share"),  # misses to come
}
Observed = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class BranchingQ(torch.nn.Module):
    """Dueling branches over a shared trunk. ``shared``: one head for all branches (unibranch).

    Observed: jobs (B, N, JOB), pairs (B, N, S, PAIR), overall (B, GLOBAL), waiting (B, N), mask (B, S, N + 1).
    """

    def __init__(
        self,
        branches: int,
        units: int = 32,
        shared: bool = False,
        auxiliaries: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name in auxiliaries:
            if name not in AUXILIARIES:
                raise UnknownNameError("auxiliary loss", name, AUXILIARIES)
        self.branches, self.units, self.heads = branches, units, 1 if shared else branches
        self.auxiliaries = tuple(auxiliaries)
        generator = torch.Generator().manual_seed(seed)
        self.tensors = torch.nn.ParameterDict()
        for name, shape in shapes(units, self.heads).items():
            matrix = name.startswith("W")
            drawn = torch.randn(shape, generator=generator) / shape[-2 if matrix else -1] ** 0.5
            self.tensors[name] = torch.nn.Parameter(
                drawn if matrix or name in ("v", "wa", "wh") else drawn * 0.0
            )
        self.foretell = torch.nn.Linear(units, len(auxiliaries)) if auxiliaries else None
        if self.foretell is not None:
            with torch.no_grad():
                self.foretell.weight.copy_(
                    torch.randn(len(auxiliaries), units, generator=generator) / units**0.5
                )
                self.foretell.bias.zero_()

    def trunk(self, seen: Observed) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, N, units) of sub-jobs and (B, units) of the whole."""
        t = self.tensors
        jobs, _, overall, waiting, _ = seen
        jobs, overall = jobs.clamp(-REACH, REACH), overall.clamp(-REACH, REACH)
        everyone = torch.cat([jobs, overall[:, None, :].expand(-1, jobs.shape[1], -1)], -1)
        hidden = torch.relu(everyone @ t["W1"] + t["b1"]) * waiting[:, :, None]
        mean = hidden.sum(1) / waiting.sum(1, keepdim=True).clamp(min=1.0)
        return hidden, torch.relu(torch.cat([mean, overall], -1) @ t["Wz"] + t["bz"])

    def forward(self, seen: Observed) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(B, S, N + 1) values, -1e9 where the mask forbids, and (B, auxiliaries) forecasts.

        The trunk's gradient from the branches is scaled by 1 / (branches + 1).
        """
        t = self.tensors
        _, pairs, _, _, mask = seen
        hidden, z = self.trunk(seen)
        forecasts = None if self.foretell is None else self.foretell(z)
        hidden, z = (_scaled(x, 1.0 / (self.branches + 1)) for x in (hidden, z))
        lanes = pairs.shape[2]
        own = hidden[:, :, None, :].expand(-1, -1, lanes, -1)
        whole = z[:, None, None, :].expand(-1, hidden.shape[1], lanes, -1)
        joint = torch.cat([own, pairs.clamp(-REACH, REACH), whole], -1)
        heads = [name.expand(lanes, *name.shape[1:]) for name in (t["Wa"], t["ba"], t["wa"], t["ca"])]
        first = torch.relu(torch.einsum("bnsj,sju->bnsu", joint, heads[0]) + heads[1])
        serve = torch.einsum("bnsu,su->bsn", first, heads[2]) + heads[3][None, :, None]
        holds = [name.expand(lanes, *name.shape[1:]) for name in (t["Wh"], t["bh"], t["wh"], t["ch"])]
        quiet = torch.relu(torch.einsum("bj,sju->bsu", z, holds[0]) + holds[1])
        hold = torch.einsum("bsu,su->bs", quiet, holds[2]) + holds[3]
        advantage = torch.cat([serve, hold[:, :, None]], -1)
        mean = (advantage * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1.0)
        value = z @ t["v"] + t["bv"]
        return torch.where(mask > 0, value[:, None, None] + advantage - mean, -1e9), forecasts

    def weights(self) -> BranchingWeights:
        """The numbers, for serving without torch."""
        tensors = {name: value.detach().numpy().astype(np.float64) for name, value in self.tensors.items()}
        return BranchingWeights(self.units, self.heads, tensors)


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The same value, ``factor`` times its gradient."""
    return x * factor + x.detach() * (1.0 - factor)
