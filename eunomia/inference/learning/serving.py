"""Learned policies to be used: shipped ones by name, others from their card; NumPy, numba and safetensors suffice."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

from eunomia.errors import UnknownNameError
from eunomia.inference.learning.checkpoint import Checkpoint, load, read_card
from eunomia.inference.learning.family import family_of
from eunomia.inference.learning.policy.bases import with_promise
from eunomia.inference.learning.policy.learned import LearnedPolicy

SHIPPED = Path(__file__).parent / "checkpoints"
FAMILIES = {  # family of a card -> module, and its functions that load a policy and read a card
    "relmas": ("eunomia.inference.learning.relmas.card", "load_relmas", "read_relmas_card"),
    "pointer": ("eunomia.inference.learning.trainers.serve", "load_pointer", "read_pointer_card"),
    "placement": ("eunomia.inference.learning.placement.policy", "refuse_engine", "read_placement_card"),
    "branching": (
        "eunomia.inference.learning.branching.serve",
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
    other = FAMILIES.get(family_of(path) or "")
    card: dict[str, Any] = getattr(import_module(other[0]), other[2])(path) if other else read_card(path)
    return card


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


def relmas() -> Any:
    """RELMAS, re-implemented: an LSTM gives every waiting sub-job a priority and an accelerator; DDPG.

    Trained on MoCA's mixed set for the six accelerators of simba3-eyeriss3; refused on another number of them.
    """
    return load_policy("relmas")


def relmas_slo() -> Any:
    """RELMAS with Fair/Firm's features and reward: sees target and indicator of every (tenant, network) pair.

    Trained as ``relmas`` is, on targets drawn per episode; refused on another number of accelerators than six.
    """
    return load_policy("relmas-slo")
