"""RELMAS as the engine takes it: at the ticks of its own period or at every event, compiled, without PyTorch.

LSTM, one layer of H units, gates in the order input, forget, cell, output (as PyTorch has them):

    (i, f, g, o) = x W + h U + b;  c <- s(f) c + s(i) tanh(g);  h <- s(o) tanh(c);  a = tanh(h V + v)

s is the logistic function; x (F,) one sub-job, a (1 + S,) its priority and its score on every accelerator. The order of
sub-jobs matters: what comes later in the list does not change what came before (one direction only).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.policies.compiled import ask
from eunomia.inference.policies.knowledge import Knowledge
from eunomia.learning.agents.ddpg.decide import COUNTED, HEAD, decide
from eunomia.learning.agents.ddpg.features import VERSION, Floats, inputs, names
from eunomia.learning.card import Card, Parts, check_tensors

# Folders of what the decision calls.
FOLDERS = ("inference/kernel", "learning/observation", "learning/policy", "learning/agents/ddpg")
HOLD = -0.5
PERIOD_LAYERS = 0.1
MOST_UNITS = 512


@dataclass(frozen=True, eq=False)
class Actor:
    """The trained numbers. ``x``: (F, 4 H), ``h``: (H, 4 H), ``bias``: (4 H,), ``out``: (H, 1 + S), ``out_bias``."""

    lanes: int
    promises: bool
    x: Floats
    h: Floats
    bias: Floats
    out: Floats
    out_bias: Floats

    def __post_init__(self) -> None:
        if not 1 <= self.units <= MOST_UNITS:
            raise ConfigError(f"an LSTM of {self.units} units; give 1 to {MOST_UNITS}")
        check_tensors("LSTM", self.tensors(), self.shapes(self.lanes, self.units, self.promises), finite=True)

    @property
    def units(self) -> int:
        """H."""
        return self.h.shape[0] if self.h.ndim == 2 else 0

    @staticmethod
    def shapes(lanes: int, units: int, promises: bool) -> dict[str, tuple[int, ...]]:
        """Tensors by name, in the order in which compiled code reads them."""
        return {"x": (inputs(lanes, promises), 4 * units), "h": (units, 4 * units), "bias": (4 * units,),
                "out": (units, 1 + lanes), "out_bias": (1 + lanes,)}  # fmt: skip

    def tensors(self) -> dict[str, Floats]:
        """All tensors by name."""
        return {name: getattr(self, name) for name in ("x", "h", "bias", "out", "out_bias")}


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
    in blocks outside the engine, as those of other learned policies do. Raises PlatformError for a platform with
    another number of accelerators than in training.
    """

    FAMILY, VERSION = "relmas", VERSION
    rules = Rules(DECIDE)

    def __init__(
        self,
        actor: Actor,
        name: str = "relmas",
        period_layers: float = PERIOD_LAYERS,
        hold: float = HOLD,
        period_mode: str = "patch",
    ) -> None:
        self.actor, self.name, self.period_layers, self.hold = actor, name, period_layers, hold
        self.period_mode, self.period_s = period_mode, 0.0
        self.head = np.zeros(1, HEAD)
        self.head["units"], self.head["width"] = actor.units, len(actor.x)
        self.head["promises"] = actor.promises
        self.head["hold"], self.head["layer_s"] = hold, 1.0
        self.weights = np.concatenate([tensor.ravel() for tensor in actor.tensors().values()])
        self.log: tuple[
            npt.NDArray[Any], ...
        ] = ()  # while it explores: noise, and what is logged (episode.py)

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
        self.head["layer_s"] = mean_layer_s(knowledge)
        self.period_s = self.period_layers * mean_layer_s(knowledge)

    @property
    def decide(self) -> Any:
        """The compiled function."""
        return compiled_decision()

    decide_tick = decide

    @property
    def blocks(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that the compiled function reads and writes."""
        return (self.head, self.weights, *self.log)

    @property
    def counts(self) -> dict[str, int]:
        """What happened since the policy was made."""
        return {name: int(self.head[name][0]) for name in COUNTED}

    def __call__(self, view: View) -> list[Assign]:
        """The compiled function's answer to one View."""
        return ask(self, view)

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
