"""RELMAS as the engine takes it: asked at the ticks of its own period or at every event, compiled, without PyTorch."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.policies.knowledge import Knowledge
from eunomia.learning.agents.ddpg.decide import decide
from eunomia.learning.agents.ddpg.network import COUNTED, COUNTERS, LAYER_S, Actor, Floats
from eunomia.learning.agents.ddpg.table import VERSION, names
from eunomia.learning.card import Card, Parts

FOLDERS = (
    "inference/kernel",
    "learning/observation",
    "learning/policy",
    "learning/agents/ddpg",
)  # of what the decision calls
HOLD = -0.5
PERIOD_LAYERS = 0.1


@cache
def compiled_decision() -> Any:
    """The decision as machine code; loaded from the cache if there."""
    return compile_cached(decide, DECIDE_SIGNATURE, "relmas", *FOLDERS)


def mean_layer_s(knowledge: Knowledge) -> float:
    """Mean over all layers of all networks of the best-case time."""
    return float(knowledge.latency_s.min(axis=1).mean())


class RelmasPolicy:
    """An LSTM that queues waiting sub-jobs every T_s = ``period_layers`` mean best-case layer times; 0 = every event.

    It brings its own period (``period_s``, known once the networks are), unless the scenario sets one. ``period_mode``:
    "patch" or "wait", for layers that become ready in between. ``hold``: see decide.py; -1 = never. The weights stand
    in one block outside the engine, as those of other learned policies do. Raises PlatformError for a platform with
    another number of accelerators than in training.
    """

    FAMILY, VERSION = "relmas", VERSION
    rules = Rules(DECIDE)

    def __init__(
        self, actor: Actor, name: str = "relmas", period_layers: float = PERIOD_LAYERS, hold: float = HOLD,
        period_mode: str = "patch",
    ) -> None:  # fmt: skip
        self.actor, self.name, self.period_layers, self.hold = actor, name, period_layers, hold
        self.period_mode = period_mode
        self.period_s = 0.0
        self.block = actor.pack(hold)
        self.log: tuple[
            npt.NDArray[Any], ...
        ] = ()  # of one who explores: noise and what is written down (episode.py)

    def __reduce__(self) -> tuple[Any, ...]:
        return RelmasPolicy, (self.actor, self.name, self.period_layers, self.hold, self.period_mode)

    def prepare(self, knowledge: Knowledge) -> None:
        """Take the mean layer time from the deployed networks, and T_s with it."""
        lanes = knowledge.latency_s.shape[1]
        if lanes != self.actor.lanes:
            raise PlatformError(
                f"policy '{self.name}' was trained for {self.actor.lanes} accelerators and the platform has {lanes}; "
                "an LSTM with one output per accelerator cannot be moved: train it for this platform"
            )
        self.block[LAYER_S] = mean_layer_s(knowledge)
        self.period_s = self.period_layers * float(self.block[LAYER_S])

    @property
    def decide(self) -> Any:
        """The compiled function."""
        return compiled_decision()

    decide_tick = decide

    @property
    def blocks(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that the compiled function reads and writes."""
        return (self.block, *self.log)

    @property
    def counts(self) -> dict[str, int]:
        """What happened since the policy was made."""
        return {name: int(self.block[COUNTERS + i]) for i, name in enumerate(COUNTED) if "logged" not in name}

    def __call__(self, view: View) -> list[Assign]:
        """Ask the compiled function about one View."""
        rows = max(len(view), len(view.accelerators))
        answer, priority = np.zeros((rows, 2), np.int64), np.zeros(rows)
        count = self.decide(
            view.ready, view.latency_s, view.demand_bytes_s, view.energy_j, view.accelerators, view.system, answer,
            priority,
        )  # fmt: skip
        return [view.assign(int(i), int(s), float(priority[n])) for n, (i, s) in enumerate(answer[:count])]

    def parts(self) -> Parts:
        """What its card says of it."""
        a = self.actor
        kind = {"kind": "lstm", "lanes": a.lanes, "units": a.units, "promises": a.promises}
        kind |= {"period_layers": self.period_layers, "period_mode": self.period_mode, "hold": self.hold}
        return Parts({"job": names(a.lanes, a.promises)}, kind, a.tensors())

    @classmethod
    def of_card(cls, card: Card, tensors: dict[str, Floats]) -> RelmasPolicy:
        """The policy of a checked card. Raises ConfigError for numbers that cannot be."""
        policy = card["policy"]
        period_layers = policy["period_layers"]
        if not (math.isfinite(period_layers) and period_layers >= 0.0):
            raise ConfigError(f"period_layers is {period_layers}; it must be at least 0")
        actor = Actor(policy["lanes"], policy["promises"], **tensors)
        return cls(actor, card["name"], period_layers, policy["hold"], policy["period_mode"])
