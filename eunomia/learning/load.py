"""Learned policies to be used: shipped ones by name, others from their card; NumPy, numba and safetensors suffice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.core.own_file import as_path
from eunomia.inference.rehearsal import EVENTS
from eunomia.learning import card as cards
from eunomia.learning.policy.bases import TERMS, with_promise
from eunomia.learning.policy.checkpoint import Checkpoint
from eunomia.learning.policy.learned import LearnedPolicy

SHIPPED = Path(__file__).parent / "checkpoints"
ALARM = (
    math.inf
)  # share of strange decisions above which the heuristic decides: none, as acting cost hits (results)


def shipped() -> list[str]:
    """Names of the policies that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_policy(name: str | Path, starve: float = math.inf, alarm: float = ALARM, budget: int = 0) -> Any:
    """A policy by its name or by the path of its card, ready for the engine; its guards are on.

    ``starve``: requests older than this many isolated times go before all others (inf = never). ``alarm``: see
    policy/guards.py (inf = never). Raises UnknownNameError, RecordError, or ConfigError for another environment's.
    """
    found = cards.load(path := _find(name))
    if not isinstance(found, Checkpoint):
        if found.ELSEWHERE:
            raise ConfigError(f"{path}: {found.ELSEWHERE}")
        return found
    return LearnedPolicy(found.weights, found.name, starve, alarm, True, budget)


def _find(name: str | Path) -> Path:
    path = as_path(name, "a learned policy")
    if path.suffix in (".json", ".safetensors") or path.with_name(f"{path.name}.json").is_file():
        return path
    if str(name) in shipped():
        return SHIPPED / str(name)
    where = " (or give the path of its .json checkpoint)"
    raise UnknownNameError("learned policy", str(name), shipped(), where)


def checkpoint_of(name: str | Path) -> Checkpoint:
    """Weights and card of a policy, shipped or elsewhere. Raises what ``load_policy`` raises."""
    found: Checkpoint = cards.load(_find(name), Checkpoint.FAMILY)
    return found


def card_of(name: str | Path) -> cards.Card:
    """The card of a policy, whose tensors are there and its own. Raises what ``load_policy`` raises."""
    path = _find(name)
    card = cards.read_card(path)
    cards.read_content(path, card)
    return card


def eunomia(
    promise: str = "none",
    strength: float = 2.0,
    starve: float = math.inf,
    alarm: float = ALARM,
    rehearse: float = EVENTS,
) -> LearnedPolicy:
    """Learned: a score of set features, a placement and a decision to hold, trained by CMA-ES for the hit rate.

    ``promise``: what becomes of promised hit rates. ``attainment`` = as many kept as possible, ``shortfall`` = as
    little missing as possible, ``max_min`` = the worst as little broken as possible: the policy trained for it, where
    one ships, else ``keep``, ``mend``, ``level``: terms set by hand (policy/bases.py) that join the score;
    ``strength``: how much they weigh against hits. Above ``alarm``, a share of decisions at states unlike those of
    training, the heuristic decides with which it began. ``rehearse``: budget, in simulated events, of the rehearsal
    before a run (inference/rehearsal.py); 0 = none.
    """
    trained = f"eunomia-{promise.replace('_', '-')}"
    if promise in TERMS and trained in shipped():
        found: LearnedPolicy = load_policy(trained, starve, alarm)
        return found
    policy: LearnedPolicy = load_policy("eunomia", starve, alarm, int(rehearse) if promise == "none" else 0)
    if promise == "none":
        return policy
    weights = with_promise(policy.weights, TERMS.get(promise, promise), strength)
    return LearnedPolicy(weights, f"eunomia, promises: {promise}", starve, alarm, policy.shared)


def eunomia_attainment(starve: float = math.inf, alarm: float = ALARM) -> LearnedPolicy:
    """Learned for SLO attainment: as many tenant-model pairs as possible meet their SLO. Loses hits for it."""
    return eunomia("attainment", starve=starve, alarm=alarm)


def eunomia_shortfall(starve: float = math.inf, alarm: float = ALARM) -> LearnedPolicy:
    """Learned for a small mean shortfall of tenant-model pairs below their SLO. Loses hits for it."""
    return eunomia("shortfall", starve=starve, alarm=alarm)


def eunomia_max_min(starve: float = math.inf, alarm: float = ALARM) -> LearnedPolicy:
    """Learned for the worst tenant-model pair: its shortfall below its SLO as small as possible. Loses hits for it."""
    return eunomia("max_min", starve=starve, alarm=alarm)


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
