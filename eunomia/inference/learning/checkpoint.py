"""A trained policy on disk: ``NAME.safetensors`` with the numbers, ``NAME.json`` with the card.

The card says what the numbers mean (features and their version, network, base, gate), what they come from
(training, hardware, loads, seeds, versions, processor time) and how they did (evaluation), and holds the SHA-256 of
the tensor file and of itself. A checkpoint is refused, with the reason, when a file is missing or cut short,
when a hash differs, when it was made for other features, and when a number in it is not finite. Version 2 only added
features at the end, so a linear policy of version 1 is read as well. Nothing in it is code, and nothing is executed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.atomic import write_bytes, write_text
from eunomia.errors import ConfigError, RecordError
from eunomia.inference.learning.observation.table import GLOBAL, JOB, PAIR, START, VERSION
from eunomia.inference.learning.policy.weights import Weights

FORMAT = 1
FAMILY = "eunomia"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights and the card that goes with them. ``facts``: training, hardware, evaluation, as plain data."""

    name: str
    weights: Weights
    facts: dict[str, Any] = field(default_factory=dict)

    def card(self, tensor_hash: str) -> dict[str, Any]:
        """The card as plain data, its own hash last."""
        gate = self.weights.gate if np.isfinite(self.weights.gate) else None
        card = {
            "format": FORMAT, "family": FAMILY, "name": self.name,
            "features": {"version": VERSION, "job": JOB, "pair": PAIR, "global": GLOBAL, "start": START},
            "policy": {
                "kind": self.weights.kind, "units": self.weights.units, "place": self.weights.place, "gate": gate,
            },
            "sha256": tensor_hash, **self.facts,
        }  # fmt: skip
        card = json.loads(json.dumps(card))
        return {**card, "card_sha256": card_hash(card)}


def save(checkpoint: Checkpoint, path: str | Path) -> Path:
    """Write both files beside each other; ``path`` ends in .json (or in nothing). Raises OutputError."""
    from safetensors.numpy import save as to_bytes

    card_path = card_path_of(path)
    content = to_bytes(
        {name: np.ascontiguousarray(value) for name, value in checkpoint.weights.tensors().items()}
    )
    card = checkpoint.card(hashlib.sha256(content).hexdigest())
    write_bytes(card_path.with_suffix(".safetensors"), content)
    write_text(card_path, json.dumps(card, indent=1) + "\n")
    return card_path


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint back. Raises RecordError with the reason why it cannot be used."""
    card_path = card_path_of(path)
    card = read_card(card_path)
    content = read_file(card_path.with_suffix(".safetensors"))
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise RecordError(
            f"{card_path.with_suffix('.safetensors')} is not the file that its card was written for (SHA-256 differs): "
            "it was changed or cut short; fetch or train the policy again"
        )
    weights = _weights(content, card, card_path)
    known = ("format", "family", "name", "features", "policy", "sha256", "card_sha256")
    return Checkpoint(card["name"], weights, {key: value for key, value in card.items() if key not in known})


def read_card(path: str | Path) -> dict[str, Any]:
    """The card alone, checked. Raises RecordError."""
    card_path = card_path_of(path)
    try:
        card = json.loads(read_file(card_path))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            f"{card_path} is not a policy's card: {error}; it was damaged or cut short"
        ) from None
    if not isinstance(card, dict) or card.get("family") != FAMILY:
        raise RecordError(f"{card_path} is not the card of a '{FAMILY}' policy")
    if card.get("format") != FORMAT:
        raise RecordError(f"{card_path} has format {card.get('format')}; this version reads format {FORMAT}")
    stated = card.pop("card_sha256", None)
    if stated != card_hash(card):
        raise RecordError(
            f"{card_path} was changed after it was written (SHA-256 differs); train the policy again"
        )
    if card["features"]["version"] != VERSION and not _is_shorter(card):
        raise RecordError(
            f"{card_path} was trained on feature version {card['features']['version']}, this version computes "
            f"{VERSION}; train it again with: eunomia train"
        )
    return {**card, "card_sha256": stated}


def card_path_of(path: str | Path) -> Path:
    """``x``, ``x.json`` or ``x.safetensors`` -> ``x.json``."""
    path = Path(path)
    return path if path.suffix == ".json" else path.with_suffix(".json") if path.suffix == ".safetensors" else Path(
        f"{path}.json"
    )  # fmt: skip


def _weights(content: bytes, card: dict[str, Any], path: Path) -> Weights:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    try:
        tensors = {name: np.array(value, np.float64) for name, value in from_bytes(content).items()}
    except (SafetensorError, ValueError) as error:
        raise RecordError(f"{path.with_suffix('.safetensors')} cannot be read: {error}") from None
    for name, value in tensors.items():
        if np.isnan(value).any() or (name not in ("low", "high") and np.isinf(value).any()):
            raise RecordError(
                f"{path}: weights '{name}' hold a value that is not a finite number; train it again"
            )
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


def _lengthened(name: str, value: Any) -> Any:
    """A tensor of version 1 with what leaves version 2's new features without effect."""
    neutral = {"low": -np.inf, "high": np.inf, "spread": 1.0}.get(name, 0.0)
    size = Weights().shapes()[name][0]
    return np.concatenate([value, np.full(size - len(value), neutral)])


def card_hash(card: dict[str, Any]) -> str:
    """SHA-256 over a card's content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def read_file(path: Path) -> bytes:
    """A card or its tensors; raises RecordError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"cannot read {path}: {error.strerror}; a policy is a .json card beside a .safetensors file"
        ) from None
