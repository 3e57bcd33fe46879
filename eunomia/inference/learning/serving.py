"""Learned policies to be used: shipped ones by name, others from their card; NumPy, numba and safetensors suffice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eunomia.errors import UnknownNameError
from eunomia.inference.learning.checkpoint import Checkpoint, load, read_card
from eunomia.inference.learning.policy.bases import with_promise
from eunomia.inference.learning.policy.learned import LearnedPolicy
from eunomia.inference.learning.relmas.card import is_relmas, load_relmas, read_relmas_card

SHIPPED = Path(__file__).parent / "checkpoints"
ALARM = 0.5  # share of decision points unlike those of training above which the heuristic takes over


def shipped() -> list[str]:
    """Names of the policies that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_policy(name: str | Path, starve: float = math.inf, alarm: float = ALARM) -> Any:
    """A policy by its name or by the path of its card, ready for the engine; its guards are on.

    ``starve``: requests older than this many isolated times go before all others (inf = never). ``alarm``: see
    policy/guards.py (inf = never). Raises UnknownNameError, or RecordError with the reason for refusal.
    """
    path = _find(name)
    if is_relmas(path):
        return load_relmas(path)
    checkpoint = load(path)
    return LearnedPolicy(checkpoint.weights, checkpoint.name, starve, alarm)


def _find(name: str | Path) -> Path:
    path = Path(name)
    if path.suffix in (".json", ".safetensors") or path.with_name(f"{path.name}.json").is_file():
        return path
    if str(name) not in shipped():
        raise UnknownNameError(
            "learned policy", str(name), shipped(), " (or give the path of its .json card)"
        )
    return SHIPPED / str(name)


def checkpoint_of(name: str | Path) -> Checkpoint:
    """Weights and card of a policy, shipped or elsewhere. Raises what ``load_policy`` raises."""
    return load(_find(name))


def card_of(name: str | Path) -> dict[str, Any]:
    """The card of a policy, shipped or elsewhere, as plain data. Raises what ``load_policy`` raises."""
    path = _find(name)
    return read_relmas_card(path) if is_relmas(path) else read_card(path)


def eunomia(
    promise: str = "none", strength: float = 2.0, starve: float = math.inf, alarm: float = ALARM
) -> LearnedPolicy:
    """Learned: a score of set features, a placement and a decision to hold, trained by CMA-ES for hits in time.

    ``promise``: what becomes of promised hit rates (policy/bases.py): ``keep`` = as many kept as possible, ``mend`` =
    as little missing as possible, ``level`` = the worst as little broken as possible; ``strength``: how much they
    weigh against hits. Begins as a gated heuristic and falls back to it on states unlike those of its training.
    """
    policy: LearnedPolicy = load_policy("eunomia", starve, alarm)
    if promise == "none":
        return policy
    weights = with_promise(policy.weights, promise, strength)
    return LearnedPolicy(weights, f"eunomia, promises: {promise}", starve, alarm)
