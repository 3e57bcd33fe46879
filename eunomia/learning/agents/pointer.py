"""A Deep Sets pointer in PyTorch: one number per action of the encoding ``start_eft``, whatever the order of rows.

    h_j = g(x_j W + b);  z = (mean h, max h, overall);  logit_j = r(h_j, z) + p_j,  p_j = - 30 near_j - 300 hopeless_j
    logit of holding = q(z) + max p + 20 (D/B - 1), over the actions that are allowed;  value = v(z)

Both outputs start at 0: the best action is then that of the rule ``edf+f+eft+g1``. Masked actions get -1e9, never NaN.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from eunomia.learning.agents.pointer_policy import HASTE, LOST, REACH, STEEP, shapes
from eunomia.learning.gym.stage import Seen
from eunomia.learning.observation.table import DEMAND_SHARE, GLOBAL, HOPELESS, JOB, NEAR
from eunomia.learning.state import Arrays

MASKED = -1e9


class Pointer(nn.Module):
    """(B, N, JOB), (B, GLOBAL), (B, N) waiting, (B, N + 1) mask -> logits (B, N + 1) and value (B,)."""

    def __init__(self, units: int = 64, residual: bool = True) -> None:
        super().__init__()
        self.units, self.residual = units, residual
        self.inner = nn.Sequential(nn.Linear(len(JOB), units), nn.ReLU(), nn.Linear(units, units), nn.ReLU())
        context = 2 * units + len(GLOBAL)
        self.rho = nn.Sequential(nn.Linear(units + context, units), nn.ReLU(), nn.Linear(units, 1))
        self.hold = nn.Sequential(nn.Linear(context, units), nn.ReLU(), nn.Linear(units, 1))
        self.value = nn.Sequential(nn.Linear(context, units), nn.ReLU(), nn.Linear(units, 1))
        for head in (self.rho, self.hold):
            for parameter in head[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, seen: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits (B, N + 1) and value (B,)."""
        waiting = seen["waiting"].bool()
        jobs, overall = seen["jobs"].clamp(-REACH, REACH), seen["overall"].clamp(-REACH, REACH)
        hidden = self.inner(jobs) * waiting[:, :, None]
        count = waiting.sum(dim=1, keepdim=True).clamp(min=1)
        context = torch.cat([hidden.sum(dim=1) / count, hidden.amax(dim=1), overall], dim=1)
        wide = context[:, None, :].expand(-1, jobs.shape[1], -1)
        logits = self.rho(torch.cat([hidden, wide], dim=2))[:, :, 0]
        hold = self.hold(context)
        masked = ~torch.cat([waiting, torch.ones_like(waiting[:, :1])], dim=1) | (seen["mask"] == 0)
        if self.residual:
            rule = -HASTE * seen["jobs"][:, :, NEAR] - LOST * seen["jobs"][:, :, HOPELESS]
            top = rule.masked_fill(masked[:, :-1], MASKED).amax(dim=1, keepdim=True)
            logits, hold = logits + rule, hold + top + STEEP * (seen["overall"][:, [DEMAND_SHARE]] - 1.0)
        logits = torch.cat([logits, hold], dim=1)
        value: Tensor = self.value(context)[:, 0]
        return logits.masked_fill(masked, MASKED), value

    def numbers(self) -> Arrays:
        """The tensors that a policy without PyTorch needs: all but those of the value."""
        kept = self.state_dict()
        return {name: kept[name].detach().numpy().astype(np.float64) for name in shapes(self.units)}


KEYS = ("jobs", "overall", "waiting", "mask")


def tensors(seen: Seen) -> dict[str, Tensor]:
    """What the network reads of an observation; ``pairs`` is not read, as placement is by earliest finish."""
    return {name: torch.from_numpy(np.asarray(seen[name])) for name in KEYS}
