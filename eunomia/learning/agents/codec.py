"""Which weights are trained, and how a search's coordinates become weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import UnknownNameError
from eunomia.learning.observation.table import JOB, PAIR, SHARE, START
from eunomia.learning.policy.weights import Weights, network_shapes

Floats = npt.NDArray[np.float64]

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
        known = (
            "job",
            "pair",
            "start",
            "share",
            "gate",
            *network_shapes(self.origin.kind, self.origin.units),
        )
        for name in self.names:
            if name not in known:
                raise UnknownNameError("trained tensor", name, known, f" of a {self.origin.kind} policy")

    def _masks(self) -> dict[str, npt.NDArray[np.bool_]]:
        skip = {*IDLE_JOB, *(() if self.tenants else TENANT)}
        masks = {
            "job": np.array([name not in skip for name in JOB]), "pair": np.ones(len(PAIR), np.bool_),
            "start": np.array([name not in skip for name in START]), "share": np.ones(len(SHARE), np.bool_),
            "gate": np.ones(1, np.bool_),
        }  # fmt: skip
        if self.promises:
            masks |= {"job": np.array([name in PROMISES for name in JOB]), "pair": np.zeros(len(PAIR), np.bool_),
                      "start": np.array([name in PROMISED_STARTS for name in START]),
                      "share": np.zeros(len(SHARE), np.bool_)}  # fmt: skip
        for name, value in self.origin.network.items():
            masks[name] = np.ones(value.size, np.bool_)
        if self.origin.place == "any_idle":
            masks["pair"][PAIR.index("later")] = False  # all candidates are idle: the same as slower
        if not np.isfinite(self.origin.gate):
            masks["gate"][:] = False
        return masks

    def _scale(self, name: str) -> Floats:
        """What a step of 1 changes, for every number of a tensor."""
        if self.promises and name == "job":
            return np.array([PROMISES.get(feature, 0.0) for feature in JOB])
        size = 1 if name == "gate" else self.origin.tensors()[name].size
        return np.full(size, SCALES.get(name, INNER_SCALE))

    @property
    def size(self) -> int:
        """Number of coordinates."""
        masks = self._masks()
        return int(sum(masks[name].sum() for name in self.names))

    def gather(self, gradients: Mapping[str, Floats]) -> Floats:
        """The gradient by coordinates, from one by weights."""
        masks = self._masks()
        return np.concatenate(
            [(self._scale(name) * gradients[name].ravel())[masks[name]] for name in self.names]
        )

    def decode(self, x: Floats) -> Weights:
        """The weights at x."""
        masks, at, changed = self._masks(), 0, {}
        tensors = {**self.origin.tensors(), "gate": np.array([self.origin.gate])}
        for name in self.names:
            mask = masks[name]
            step = np.zeros(mask.size)
            step[mask] = self._scale(name)[mask] * x[at : at + int(mask.sum())]
            at += int(mask.sum())
            changed[name] = tensors[name] + step.reshape(tensors[name].shape)
        own: dict[str, Any] = {
            name: changed[name] for name in ("job", "pair", "start", "share") if name in changed
        }
        network = {name: changed.get(name, value) for name, value in self.origin.network.items()}
        gate = max(float(changed["gate"][0]), 0.05) if "gate" in changed else self.origin.gate
        return replace(self.origin, gate=gate, network=network, **own)
