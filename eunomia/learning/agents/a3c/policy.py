"""The learned placement policy in NumPy: what it sees, its network; no PyTorch.

h_p = relu(x_p W1 + b1) of every legal pair p; z = (mean h, max h, g)
logit_p = relu((h_p, z) W2 + b2) w2 + c2 + BASE gain_p;  logit of deferring = relu(z W3 + b3) w3 + c3 + DEFER
value = relu(z W4 + b4) w4 + c4

Illegal pairs are never scored; deferring is always legal. With w2 = 0 the policy is ``greedy_gain``, which it begins
as (ours). Any number of tasks, devices and tenants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.environments.edge_cloud.features import GLOBAL, PAIR, observe
from eunomia.inference.environments.edge_cloud.rules import Answer
from eunomia.inference.environments.edge_cloud.world import World
from eunomia.learning.agents.served import Served, Shapes, relu

BASE, DEFER = 4.0, -2.0


def shapes(units: int) -> Shapes:
    """Names and shapes of all tensors."""
    context = 2 * units + len(GLOBAL)
    return {
        "W1": (len(PAIR), units), "b1": (units,), "W2": (units + context, units), "b2": (units,), "w2": (units,),
        "c2": (1,), "W3": (context, units), "b3": (units,), "w3": (units,), "c3": (1,), "W4": (context, units),
        "b4": (units,), "w4": (units,), "c4": (1,),
    }  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """Legal pairs (P, 2), their odds and at last that of deferring (P + 1,), and the value of the state."""

    pairs: Ints
    odds: Floats
    value: float


class PreferencePlacement(Served):
    """A placement policy; a rule as those of rules.py. ``hidden``: without anything that tells likes."""

    FAMILY, VERSION = "placement", 1
    FEATURES = {"pair": PAIR, "global": GLOBAL}
    NOTED = GIVEN = ("hidden",)
    ELSEWHERE = "it places whole tasks on devices (environments/edge_cloud); it cannot schedule layers"

    def __init__(self, tensors: Mapping[str, Floats], name: str = "placement", hidden: bool = False) -> None:
        self.hidden = hidden
        super().__init__(tensors, name, shapes)

    def decision(self, world: World, mask: Flags | None = None) -> Decision:
        """Odds over legal pairs and deferring; ``mask``: other pairs than the legal ones."""
        t, (features, overall) = self.tensors, observe(world, self.hidden)
        pairs = np.argwhere(world.mask() if mask is None else mask)
        x = features[pairs[:, 0], pairs[:, 1]]
        hidden = relu(x @ t["W1"] + t["b1"])
        pooled = (hidden.mean(axis=0), hidden.max(axis=0)) if len(x) else (np.zeros(self.units),) * 2
        z = np.concatenate([*pooled, overall])
        joint = np.hstack([hidden, np.repeat(z[None, :], len(x), axis=0)])
        scores = relu(joint @ t["W2"] + t["b2"]) @ t["w2"] + t["c2"] + BASE * x[:, PAIR.index("gain")]
        defer = relu(z @ t["W3"] + t["b3"]) @ t["w3"] + t["c3"][0] + DEFER
        logits = np.append(scores, defer)
        odds = np.exp(logits - logits.max())
        value = float(relu(z @ t["W4"] + t["b4"]) @ t["w4"] + t["c4"][0])
        return Decision(pairs, odds / odds.sum(), value)

    def __call__(self, world: World) -> Answer:
        """The likeliest choice."""
        found = self.decision(world)
        choice = int(np.argmax(found.odds))
        if choice == len(found.pairs):
            return None
        row, device = found.pairs[choice].tolist()
        return row, device
