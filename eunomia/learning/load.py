"""Learned policies to be used: shipped ones by name, others from their card; NumPy, numba and safetensors suffice."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

from eunomia.core.errors import UnknownNameError
from eunomia.learning.card import family_of, read_content
from eunomia.learning.checkpoint import Checkpoint, load, read_card
from eunomia.learning.policy.bases import TERMS, with_promise
from eunomia.learning.policy.learned import APART, LearnedPolicy

SHIPPED = Path(__file__).parent / "checkpoints"
FAMILIES = {  # family of a card -> module, and its functions that load a policy and read a card
    "relmas": ("eunomia.learning.agents.ddpg.card", "load_relmas", "read_relmas_card"),
    "pointer": ("eunomia.learning.agents.pointer_policy", "load_pointer", "read_pointer_card"),
    "deferrable": ("eunomia.learning.agents.deferrable.policy", "load_deferring", "read_deferring_card"),
    "placement": ("eunomia.learning.agents.a3c.policy", "refuse_engine", "read_placement_card"),
    "branching": (
        "eunomia.learning.agents.bdq.policy",
        "load_branching_policy",
        "read_branching_card",
    ),
}
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
    other = FAMILIES.get(family_of(path) or "")
    if other is not None:
        return getattr(import_module(other[0]), other[1])(path)
    checkpoint = load(path)
    seen = checkpoint.facts.get("contention", [])
    shared = bool(seen) and not set(seen) & set(APART)
    return LearnedPolicy(checkpoint.weights, checkpoint.name, starve, alarm, shared)


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
    """The card of a policy, shipped or elsewhere, as plain data; its tensors are there, and those it was written for.

    Raises what ``load_policy`` raises.
    """
    path = _find(name)
    other = FAMILIES.get(family_of(path) or "")
    card: dict[str, Any] = getattr(import_module(other[0]), other[2])(path) if other else read_card(path)
    read_content(path, card)
    return card


def eunomia(
    promise: str = "none", strength: float = 2.0, starve: float = math.inf, alarm: float = ALARM
) -> LearnedPolicy:
    """Learned: a score of set features, a placement and a decision to hold, trained by CMA-ES for hits in time.

    ``promise``: what becomes of promised hit rates. ``attainment`` = as many kept as possible, ``shortfall`` = as
    little missing as possible, ``max_min`` = the worst as little broken as possible: the policy trained for it, where
    one ships, else ``keep``, ``mend``, ``level``: terms set by hand (policy/bases.py) that join the score;
    ``strength``: how much they weigh against hits. Begins as a gated heuristic and falls back to it on states unlike
    those of its training.
    """
    trained = f"eunomia-{promise.replace('_', '-')}"
    if promise in TERMS and trained in shipped():
        found: LearnedPolicy = load_policy(trained, starve, alarm)
        return found
    policy: LearnedPolicy = load_policy("eunomia", starve, alarm)
    if promise == "none":
        return policy
    weights = with_promise(policy.weights, TERMS.get(promise, promise), strength)
    return LearnedPolicy(weights, f"eunomia, promises: {promise}", starve, alarm, policy.shared)
