"""A trained RELMAS policy on disk: ``NAME.safetensors`` with the LSTM, ``NAME.json`` with the card (family.py)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError, RecordError
from eunomia.learning.agents.ddpg.network import Actor
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.agents.ddpg.table import VERSION, names
from eunomia.learning.card import (
    card_path_of,
    read_family_card,
    read_tensors,
    write_card,
)

FAMILY = "relmas"
SHIPPED = Path(__file__).parents[2] / "checkpoints"


def save_relmas(policy: RelmasPolicy, path: str | Path, facts: dict[str, Any] | None = None) -> Path:
    """Write both files; ``path`` ends in .json or in nothing. ``facts``: more for the card. Raises OutputError."""
    actor = policy.actor
    features = {"version": VERSION, "job": names(actor.lanes, actor.promises)}
    kind = {"kind": "lstm", "lanes": actor.lanes, "units": actor.units, "promises": actor.promises,
            "period_layers": policy.period_layers, "period_mode": policy.period_mode, "hold": policy.hold}  # fmt: skip
    return write_card(path, FAMILY, policy.name, features, kind, actor.tensors(), facts)


def read_relmas_card(path: str | Path) -> dict[str, Any]:
    """The card, checked. Raises RecordError."""
    return read_family_card(path, FAMILY, VERSION)


def load_relmas(path: str | Path) -> RelmasPolicy:
    """The policy of a card, ready for the engine, without PyTorch. Raises RecordError with the reason for refusal."""
    card = read_relmas_card(path)
    policy, tensors = card["policy"], read_tensors(path, card)
    try:
        actor = Actor(policy["lanes"], policy["promises"], **tensors)
    except (ConfigError, TypeError, ValueError) as error:
        raise RecordError(f"{card_path_of(path)}: {error}") from None
    if not (math.isfinite(policy["period_layers"]) and policy["period_layers"] >= 0.0):
        raise RecordError(
            f"{card_path_of(path)}: period_layers is {policy['period_layers']}; it must be at least 0"
        )
    return RelmasPolicy(actor, card["name"], policy["period_layers"], policy["hold"], policy["period_mode"])


def relmas() -> RelmasPolicy:
    """RELMAS, re-implemented: an LSTM gives every waiting sub-job a priority and an accelerator; DDPG.

    Trained on MoCA's mixed set for the six accelerators of simba3-eyeriss3; refused on another number of them.
    """
    return load_relmas(SHIPPED / "relmas")


def relmas_slo() -> RelmasPolicy:
    """RELMAS with Fair/Firm's features and reward: sees target and indicator of every (tenant, network) pair.

    Trained as ``relmas`` is, on targets drawn per episode; refused on another number of accelerators than six.
    """
    return load_relmas(SHIPPED / "relmas-slo")
