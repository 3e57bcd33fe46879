"""A trained RELMAS policy on disk: ``NAME.safetensors`` with the LSTM, ``NAME.json`` with the card.

Refused, with the reason: files that are missing, cut short or changed (SHA-256), another format or feature version,
numbers that are not finite, weights whose shapes do not fit together. Nothing in them is code.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.atomic import write_bytes, write_text
from eunomia.errors import ConfigError, RecordError
from eunomia.inference.learning.checkpoint import card_hash, card_path_of, read_file
from eunomia.inference.learning.relmas.network import Actor
from eunomia.inference.learning.relmas.policy import RelmasPolicy
from eunomia.inference.learning.relmas.table import VERSION, names

FORMAT, FAMILY = 1, "relmas"


def save_relmas(policy: RelmasPolicy, path: str | Path, facts: dict[str, Any] | None = None) -> Path:
    """Write both files; ``path`` ends in .json or in nothing. ``facts``: more for the card. Raises OutputError."""
    from safetensors.numpy import save

    actor, place = policy.actor, card_path_of(path)
    content = save({name: np.array(value, np.float64, order="C") for name, value in actor.tensors().items()})
    card = {
        "format": FORMAT, "family": FAMILY, "name": policy.name,
        "features": {"version": VERSION, "job": names(actor.lanes, actor.promises)},
        "policy": {"kind": "lstm", "lanes": actor.lanes, "units": actor.units, "promises": actor.promises,
                   "period_layers": policy.period_layers, "period_mode": policy.period_mode, "hold": policy.hold},
        "sha256": hashlib.sha256(content).hexdigest(), **(facts or {}),
    }  # fmt: skip
    card = json.loads(json.dumps(card))
    write_bytes(place.with_suffix(".safetensors"), content)
    write_text(place, json.dumps({**card, "card_sha256": card_hash(card)}, indent=1) + "\n")
    return place


def is_relmas(path: str | Path) -> bool:
    """Whether a card is one of this family; False for what cannot be read."""
    try:
        card = json.loads(card_path_of(path).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(card, dict) and card.get("family") == FAMILY


def read_relmas_card(path: str | Path) -> dict[str, Any]:
    """The card, checked. Raises RecordError."""
    place = card_path_of(path)
    try:
        card = json.loads(read_file(place))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{place} is not a policy's card: {error}; it was damaged or cut short") from None
    if not isinstance(card, dict) or card.get("family") != FAMILY:
        raise RecordError(f"{place} is not the card of a '{FAMILY}' policy")
    if card.get("format") != FORMAT:
        raise RecordError(f"{place} has format {card.get('format')}; this version reads format {FORMAT}")
    stated = card.pop("card_sha256", None)
    if stated != card_hash(card):
        raise RecordError(
            f"{place} was changed after it was written (SHA-256 differs); train the policy again"
        )
    if card["features"]["version"] != VERSION:
        raise RecordError(
            f"{place} was trained on feature version {card['features']['version']}, this version computes {VERSION}; "
            "train it again"
        )
    return {**card, "card_sha256": stated}


def load_relmas(path: str | Path) -> RelmasPolicy:
    """The policy of a card, ready for the engine, without PyTorch. Raises RecordError with the reason for refusal."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    card, tensors = read_relmas_card(path), card_path_of(path).with_suffix(".safetensors")
    content = read_file(tensors)
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise RecordError(
            f"{tensors} is not the file that its card was written for (SHA-256 differs): it was changed or cut short; "
            "fetch or train the policy again"
        )
    policy = card["policy"]
    try:
        arrays = {name: np.array(value, np.float64) for name, value in load(content).items()}
        actor = Actor(policy["lanes"], policy["promises"], **arrays)
    except (SafetensorError, ConfigError, TypeError, ValueError) as error:
        raise RecordError(f"{tensors}: {error}") from None
    if not (math.isfinite(policy["period_layers"]) and policy["period_layers"] >= 0.0):
        raise RecordError(
            f"{card_path_of(path)}: period_layers is {policy['period_layers']}; it must be at least 0"
        )
    return RelmasPolicy(actor, card["name"], policy["period_layers"], policy["hold"], policy["period_mode"])
