"""RELMAS as the engine takes it: at the ticks of its own period or at every event, compiled, without PyTorch.

LSTM, one layer of H units, gates in the order input, forget, cell, output (as PyTorch has them):

    (i, f, g, o) = x W + h U + b;  c <- s(f) c + s(i) tanh(g);  h <- s(o) tanh(c);  a = tanh(h V + v)

s is the logistic function; x (F,) one sub-job, a (2 + S,) its action (decide.py). The order of sub-jobs matters: what
comes later in the list does not change what came before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import ClassVar

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats, Tensor
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.policies.compiled import ask
from eunomia.inference.policies.knowledge import Knowledge
from eunomia.learning.agents.ddpg.act import SCORES
from eunomia.learning.agents.ddpg.decide import COUNTED, HEAD, decide
from eunomia.learning.agents.ddpg.features import VERSION, inputs, names
from eunomia.learning.agents.served import Served, Shapes

# Folders of what the decision calls.
FOLDERS = ("inference/kernel", "learning/observation", "learning/policy", "learning/agents/ddpg")
PERIOD_LAYERS = 0.1
# The rule that actions correct, or that the actor is cloned from (``residual`` = 0), and the length of the list.
CORRECTED = {"gate": 1e6, "toll": 0.0, "residual": 1, "most": 64}
Function = Callable[..., int]


def shapes(lanes: int, units: int, promises: bool) -> Shapes:
    """Names and shapes of all tensors (W, U, b, V, v), in the order in which compiled code reads them."""
    return {
        "x": (inputs(lanes, promises), 4 * units), "h": (units, 4 * units), "bias": (4 * units,),
        "out": (units, SCORES + lanes), "out_bias": (SCORES + lanes,),
    }  # fmt: skip


@cache
def compiled_decision() -> Function:
    """The decision as machine code; loaded from the cache if there."""
    compiled: Function = compile_cached(decide, DECIDE_SIGNATURE, "relmas", *FOLDERS)
    return compiled


def mean_layer_s(knowledge: Knowledge) -> float:
    """Mean over all layers of all networks of the best-case time."""
    return float(knowledge.latency_s.min(axis=1).mean())


class RelmasPolicy(Served):
    """An LSTM that queues waiting sub-jobs every T_s = ``period_layers`` mean best-case layer times; 0 = every event.

    It brings its own period (``period_s``, known once the networks are), unless the scenario sets one. ``period_mode``:
    "patch" or "wait", for layers that become ready in between. The weights stand in blocks outside the engine, as
    those of other learned policies do. Raises PlatformError for a platform with another number of accelerators than in
    training.
    """

    FAMILY, KIND, VERSION = "relmas", "lstm", VERSION
    NOTED: ClassVar[tuple[str, ...]] = ("lanes", "promises", "period_layers", "period_mode", "corrected")
    GIVEN, WIDTH, FINITE = ("period_layers", "period_mode", "corrected"), "h", True
    rules = Rules(DECIDE)

    def __init__(
        self,
        tensors: Mapping[str, Floats],
        name: str = "relmas",
        period_layers: float = PERIOD_LAYERS,
        period_mode: str = "patch",
        corrected: Mapping[str, float] | None = None,
    ) -> None:
        if not (math.isfinite(period_layers) and period_layers >= 0.0):
            raise ConfigError(f"period_layers is {period_layers}; it must be at least 0")
        self.period_layers, self.period_mode, self.period_s = period_layers, period_mode, 0.0
        self.corrected = CORRECTED | dict(corrected or {})
        self.lanes, self.promises = self.about(tensors)
        self.FEATURES = {"job": self.features()}
        super().__init__(tensors, name, self.shapes_of)
        self.head = np.zeros(1, HEAD)
        self.head["units"], self.head["width"] = self.units, inputs(self.lanes, self.promises)
        self.head["promises"], self.head["layer_s"] = self.promises, 1.0
        self.head["sets"] = self.KIND == "sets"
        for key, value in self.corrected.items():
            self.head[key] = value
        self.weights = np.concatenate([self.tensors[tensor].ravel() for tensor in self.shapes])
        self.log: tuple[Tensor, ...] = ()  # while it explores: noise, and what is logged (episode.py)

    def about(self, tensors: Mapping[str, Floats]) -> tuple[int, bool]:
        """Number of accelerators, and whether promises are seen, by the shapes of tensors."""
        lanes = len(tensors.get("out_bias", ())) - SCORES
        return lanes, len(tensors.get("x", ())) == inputs(lanes, True)

    def shapes_of(self, units: int) -> Shapes:
        """Of its tensors."""
        return shapes(self.lanes, units, self.promises)

    def features(self) -> tuple[str, ...]:
        """Names of the features of a sub-job."""
        return names(self.lanes, self.promises)

    def __reduce__(self) -> tuple[type[RelmasPolicy], tuple[object, ...]]:
        return type(self), (self.tensors, self.name, self.period_layers, self.period_mode, self.corrected)

    def prepare(self, knowledge: Knowledge) -> None:
        """Take the mean layer time from the deployed networks, and T_s with it."""
        self._fits(knowledge.latency_s.shape[1])
        self.head["layer_s"] = mean_layer_s(knowledge)
        self.period_s = self.period_layers * mean_layer_s(knowledge)

    def _fits(self, lanes: int) -> None:
        if lanes != self.lanes:
            raise PlatformError(
                f"policy '{self.name}' was trained for {self.lanes} accelerators and the platform has {lanes}; "
                "an LSTM with one output per accelerator cannot be moved: train it for this platform"
            )

    @property
    def decide(self) -> Function:
        """The compiled function."""
        return compiled_decision()

    decide_tick = decide

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """Arrays that the compiled function reads and writes."""
        return (self.head, self.weights, *self.log)

    @property
    def counts(self) -> dict[str, int]:
        """What happened since the policy was made."""
        return {name: int(self.head[name][0]) for name in COUNTED}

    def __call__(self, view: View) -> list[Assign]:
        """The compiled function's answer to one View; raises PlatformError where nobody has called ``prepare``."""
        self._fits(len(view.accelerators))
        return ask(self, view)
