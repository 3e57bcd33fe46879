"""A trained ``eunomia`` policy on disk: ``NAME.safetensors`` with the numbers, ``NAME.json`` with the card (family.py).

The card says what the numbers mean (features and their version, network, base, gate), what they come from
(training, hardware, loads, seeds, versions, processor time) and how they did (evaluation), and holds the SHA-256 of
the tensor file and of itself. Version 2 only added features at the end, so a linear one of version 1 is read as well.
A card without share features is read with nothing learned about them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.core.errors import ConfigError, RecordError
from eunomia.learning.card import Floats, card_path_of, read_family_card, read_tensors, write_card
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, SHARE, START, VERSION
from eunomia.learning.policy.weights import Weights

FAMILY = "eunomia"
KNOWN = (
    "format",
    "family",
    "name",
    "features",
    "policy",
    "sha256",
    "card_sha256",
)  # of a card; the rest are facts


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights and the card that goes with them. ``facts``: training, hardware, evaluation, as plain data."""

    name: str
    weights: Weights
    facts: dict[str, Any] = field(default_factory=dict)


def save(checkpoint: Checkpoint, path: str | Path) -> Path:
    """Write both files beside each other; ``path`` ends in .json (or in nothing). Raises OutputError."""
    weights = checkpoint.weights
    features = {
        "version": VERSION,
        "job": JOB,
        "pair": PAIR,
        "global": GLOBAL,
        "start": START,
        "share": SHARE,
    }
    gate = weights.gate if np.isfinite(weights.gate) else None
    policy = {"kind": weights.kind, "units": weights.units, "place": weights.place, "gate": gate}
    return write_card(path, FAMILY, checkpoint.name, features, policy, weights.tensors(), checkpoint.facts)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint back. Raises RecordError with the reason why it cannot be used."""
    card = read_card(path)
    weights = _weights(read_tensors(path, card, bounds=("low", "high")), card, card_path_of(path))
    return Checkpoint(card["name"], weights, {key: value for key, value in card.items() if key not in KNOWN})


def read_card(path: str | Path) -> dict[str, Any]:
    """The card alone, checked. Raises RecordError."""
    card = read_family_card(path, FAMILY, VERSION, _is_shorter)
    names = card["features"].get("share", list(SHARE))
    if names != list(SHARE):
        raise RecordError(
            f"{card_path_of(path)} was trained on share features {', '.join(names)}, this version computes "
            f"{', '.join(SHARE)}; train it again with: eunomia train"
        )
    return card


def _weights(tensors: dict[str, Floats], card: dict[str, Any], path: Path) -> Weights:
    policy = card["policy"]
    gate = np.inf if policy["gate"] is None else policy["gate"]
    own = {name: tensors.pop(name) for name in Weights().shapes() if name in tensors}
    if _is_shorter(card):
        own = {name: _lengthened(name, value) for name, value in own.items()}
    try:
        return Weights(policy["kind"], policy["units"], policy["place"], gate, **own, network=tensors)
    except (ConfigError, TypeError) as error:
        raise RecordError(f"{path}: {error}") from None


def _is_shorter(card: dict[str, Any]) -> bool:
    """Whether a card of version 1 can be read: version 2 added features at the end, a linear policy ignores them."""
    features = card["features"]
    grown = all(
        list(names[: len(features[kind])]) == features[kind]
        for kind, names in (("job", JOB), ("start", START))
    )
    return bool(features["version"] == 1 and VERSION == 2 and card["policy"]["kind"] == "linear" and grown)


def _lengthened(name: str, value: Floats) -> Floats:
    """A tensor of version 1 with what leaves version 2's new features without effect."""
    neutral = {"low": -np.inf, "high": np.inf, "spread": 1.0}.get(name, 0.0)
    size = Weights().shapes()[name][0]
    return np.concatenate([value, np.full(size - len(value), neutral)])
