"""Weights of the family ``eunomia`` with the card that goes with them.

Version 2 of the features only added some at the end, so a linear policy of version 1 is read as well; a card without
share features is read with nothing learned about them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import RecordError
from eunomia.learning import card as cards
from eunomia.learning.card import Card, Family, Parts
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE, START, VERSION
from eunomia.learning.policy.weights import Weights


@dataclass(frozen=True, eq=False)
class Checkpoint(Family):
    """``facts``: training, hardware, evaluation, as plain data."""

    name: str
    weights: Weights
    facts: dict[str, Any] = field(default_factory=dict)
    FAMILY = "eunomia"
    VERSION = VERSION
    BOUNDS = ("low", "high")

    def parts(self) -> Parts:
        """What its card says of the weights."""
        w = self.weights
        features = {"job": JOB, "pair": PAIR, "global": GLOBAL, "start": START, "share": SHARE}
        gate = w.gate if np.isfinite(w.gate) else None
        return Parts(
            features, {"kind": w.kind, "units": w.units, "place": w.place, "gate": gate}, w.tensors()
        )

    @classmethod
    def of_card(cls, card: Card, tensors: dict[str, Floats]) -> Checkpoint:
        """The checkpoint of a checked card."""
        names = card["features"].get("share", list(SHARE))
        if names != list(SHARE):
            raise RecordError(
                f"card '{card['name']}' was trained on share features {', '.join(names)}, this version computes "
                f"{', '.join(SHARE)}; train it again with: eunomia train"
            )
        policy = card["policy"]
        gate = np.inf if policy["gate"] is None else policy["gate"]
        own = {name: tensors.pop(name) for name in Weights().shapes() if name in tensors}
        if cls.reads(card):
            own = {name: _lengthened(name, value) for name, value in own.items()}
        weights = Weights(policy["kind"], policy["units"], policy["place"], gate, **own, network=tensors)
        return cls(card["name"], weights, cards.facts_of(card))

    @staticmethod
    def reads(card: Card) -> bool:
        """Whether a card of version 1 can be read: version 2 added features, which a linear policy then ignores."""
        features = card["features"]
        grown = all(
            list(names[: len(features[kind])]) == features[kind]
            for kind, names in (("job", JOB), ("start", START))
        )
        return bool(
            features["version"] == 1 and VERSION == 2 and card["policy"]["kind"] == "linear" and grown
        )


def save(checkpoint: Checkpoint, path: str | Path) -> Path:
    """Write a checkpoint. Raises OutputError."""
    return cards.save(checkpoint, path, checkpoint.facts)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint back. Raises RecordError with the reason why it cannot be used."""
    found: Checkpoint = cards.load(path, Checkpoint.FAMILY)
    return found


def _lengthened(name: str, value: Floats) -> Floats:
    """A tensor of version 1 with what leaves version 2's new features without effect."""
    neutral = {"low": -np.inf, "high": np.inf, "spread": 1.0}.get(name, 0.0)
    size = Weights().shapes()[name][0]
    return np.concatenate([value, np.full(size - len(value), neutral)])
