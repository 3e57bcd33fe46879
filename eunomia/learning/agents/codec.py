"""Which weights are trained, and how a search's coordinates become weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError
from eunomia.learning.observation.table import JOB, PAIR, SHARE, START
from eunomia.learning.policy.weights import Weights, network_shapes

FEATURES = {"job": JOB, "pair": PAIR, "start": START, "share": SHARE}
# A step of 1 in the search changes a weight by this much: start margins are shares of B, scores are not.
SCALES = {"job": 1.0, "pair": 0.3, "start": 0.1, "share": 0.1, "gate": 0.1, "out": 1.0, "out_start": 0.1}
INNER_SCALE = 0.5  # of all other tensors of a network
TENANT = (
    "gap", "shortfall", "below", "lost", "target", "filled", "gap_deadline", "weight",
    "owed", "spare", "sinks", "thin", "close", "whole", "needy_whole", "needy_size",
)  # fmt: skip
# What a search for promises alone moves, and how far a step of 1 goes.
PROMISES = {
    "gap": 4.0, "shortfall": 6.0, "below": 1.0, "lost": 1.0, "target": 3.0, "filled": 2.0, "owed": 1.0, "spare": 1.0,
    "sinks": 1.0, "thin": 1.0, "close": 1.0, "whole": 1.0, "needy_whole": 1.0, "needy_size": 1.0, "size": 1.0,
    "cost": 1.0, "started": 1.0, "done": 1.0,
}  # fmt: skip
PROMISED_STARTS = ("shortfall", "owed", "spare", "sinks")
IDLE_JOB = ("hopeless",)  # hopeless ones are a tier of their own


@dataclass(frozen=True, eq=False)
class Codec:
    """Search coordinates x (n,) <-> weights = origin + scale x at the trained places; all others stay."""

    origin: Weights
    names: tuple[str, ...]  # trained tensors, "gate" among them
    tenants: bool  # whether features of promises are trained
    promises: bool = False  # whether they alone are, with what weighs them against size; other weights stay

    def __post_init__(self) -> None:
        o = self.origin
        known = (*FEATURES, "gate", *network_shapes(o.kind, o.units))
        for name in self.names:
            if name not in known:
                raise UnknownNameError("trained tensor", name, known, f" of a {o.kind} policy")

    def _step(self, name: str) -> Floats:
        """What a step of 1 changes, for every number of a tensor; 0 where it is not trained."""
        o, step = self.origin, SCALES.get(name, INNER_SCALE)
        if name not in FEATURES:
            idle = name == "gate" and not np.isfinite(o.gate)
            return np.full(1 if name == "gate" else o.network[name].size, 0.0 if idle else step)
        moved = dict.fromkeys(FEATURES[name], step)
        if self.promises:
            moved = {"job": PROMISES, "start": dict.fromkeys(PROMISED_STARTS, step)}.get(name, {})
        elif name in ("job", "start"):
            skip = {*IDLE_JOB, *(() if self.tenants else TENANT)}
            moved = {feature: step for feature in moved if feature not in skip}
        elif name == "pair" and o.place == "any_idle":
            del moved["later"]  # all candidates are idle: the same as slower
        return np.array([moved.get(feature, 0.0) for feature in FEATURES[name]])

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(int(np.count_nonzero(self._step(name))) for name in self.names)

    def gather(self, gradients: Mapping[str, Floats]) -> Floats:
        """The gradient by coordinates, from one by weights."""
        steps = {name: self._step(name) for name in self.names}
        return np.concatenate([(step * gradients[name].ravel())[step != 0.0] for name, step in steps.items()])

    def decode(self, x: Floats) -> Weights:
        """The weights at x."""
        o, at = self.origin, 0
        tensors = {**o.tensors(), "gate": np.array([o.gate])}
        for name in self.names:
            step = self._step(name)
            trained = np.flatnonzero(step)
            step[trained] *= x[at : at + len(trained)]
            at += len(trained)
            tensors[name] = tensors[name] + step.reshape(tensors[name].shape)
        gate = max(float(tensors["gate"][0]), 0.05) if "gate" in self.names else o.gate
        network = {name: tensors[name] for name in o.network}
        job, pair, start, share = (tensors[name] for name in FEATURES)
        return replace(o, gate=gate, network=network, job=job, pair=pair, start=start, share=share)
