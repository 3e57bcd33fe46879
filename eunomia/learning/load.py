"""Learned policies to be used: shipped ones by name, others from their card; NumPy, numba and safetensors suffice."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from eunomia.contract.objectives import mixture_of
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.core.own_file import as_path
from eunomia.inference.rehearsal import EVENTS, Aim
from eunomia.inference.rehearsal_promises import aim_for
from eunomia.learning import card as cards
from eunomia.learning.objectives import OBJECTIVES, measured
from eunomia.learning.policy.bases import PROMISES, with_promise
from eunomia.learning.policy.checkpoint import Checkpoint
from eunomia.learning.policy.learned import LearnedPolicy

SHIPPED = Path(__file__).parent / "checkpoints"
WIDE = Aim(beside=("eunomia-wide",), over=("eunomia", "eunomia-wide"))  # for hits


def shipped() -> list[str]:
    """Names of the policies that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_policy(name: str | Path, starve: float = inf, alarm: float = inf, budget: int = 0) -> Any:
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
    return cards.load(_find(name), Checkpoint.FAMILY)  # type: ignore[no-any-return]


def card_of(name: str | Path) -> cards.Card:
    """The card of a policy, whose tensors are there and its own. Raises what ``load_policy`` raises."""
    card = cards.read_card(path := _find(name))
    cards.read_content(path, card)
    return card


def eunomia(
    promise: str = "none",
    strength: float = 2.0,
    starve: float = inf,
    alarm: float = inf,
    rehearse: float = EVENTS,
) -> LearnedPolicy:
    """Learned: a score of set features, a placement and a decision to hold, trained by CMA-ES for the hit rate.

    ``promise``: an objective to rehearse for (inference/rehearsal_promises.py), or a mixture of them such as
    ``0.7*attainment+0.3*hit_rate``; ``keep``, ``mend``, ``level``: terms set by hand (policy/bases.py), weighed by
    ``strength``, unrehearsed. ``alarm``: as in ``load_policy``. ``rehearse``: simulated events before a run; 0 = none.
    """
    if not 0.0 <= rehearse < inf:
        raise ConfigError(f"rehearse is {rehearse:g}; give simulated events such as {EVENTS:g}, or 0 = none")
    name = f"eunomia-{promise.replace('_', '-')}"
    base = name if name in shipped() else "eunomia"
    policy: LearnedPolicy = load_policy(base, starve, alarm, int(rehearse))
    if promise in PROMISES:
        weights = with_promise(policy.weights, promise, strength)
        return LearnedPolicy(weights, f"eunomia, promises: {promise}", starve, alarm, policy.shared)
    hits = promise == "none"
    policy.aim = WIDE if hits else aim_for(promise, mixture_of(promise, OBJECTIVES), measured)
    return policy


def eunomia_wide(starve: float = inf, alarm: float = inf) -> LearnedPolicy:
    """Learned as ``eunomia``, at places of all kinds. Better where little is shared, worse at one scarce bus."""
    return load_policy("eunomia-wide", starve, alarm)  # type: ignore[no-any-return]


def eunomia_attainment(starve: float = inf, alarm: float = inf, rehearse: float = EVENTS) -> LearnedPolicy:
    """Learned for SLO attainment: as many tenant-model pairs as possible meet their SLO. Loses hits for it."""
    return eunomia("attainment", starve=starve, alarm=alarm, rehearse=rehearse)


def eunomia_shortfall(starve: float = inf, alarm: float = inf, rehearse: float = EVENTS) -> LearnedPolicy:
    """Learned for a small mean shortfall of tenant-model pairs below their SLO. Loses hits for it."""
    return eunomia("shortfall", starve=starve, alarm=alarm, rehearse=rehearse)


def eunomia_max_min(starve: float = inf, alarm: float = inf, rehearse: float = EVENTS) -> LearnedPolicy:
    """Learned for the worst tenant-model pair: its shortfall below its SLO as small as possible. Loses hits for it."""
    return eunomia("max_min", starve=starve, alarm=alarm, rehearse=rehearse)


def relmas() -> Any:
    """RELMAS, re-implemented: an LSTM gives every waiting sub-job a priority and an accelerator; DDPG.

    Trained on MoCA's mixed set for the six accelerators of simba3-eyeriss3; refused on another number of them.
    """
    return load_policy("relmas")


def relmas_slo() -> Any:
    """RELMAS with Fair/Firm's reward: sees target and indicator of every pair. As ``relmas``, targets drawn anew."""
    return load_policy("relmas-slo")
