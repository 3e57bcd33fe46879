"""A learned correction of Tiresias' order, fitted on windows of a production trace, with a guard.

The weights stand in ``eunomia/data/cluster_learned.json``, written by ``python -m benchmarks learned-order``,
which also decides whether they are used: only if they beat the heuristic on windows they were not fitted on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from eunomia.cluster.policies.attained_service import Tiresias
from eunomia.cluster.policies.learned_features import FEATURES, History, features
from eunomia.cluster.policies.serving_order import Types, serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs, Note
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

START = (0.0,) * len(FEATURES)  # Tiresias itself


@cache
def shipped() -> dict[str, Any]:
    """What training left behind: weights, whether the gate was passed, and the figures that decided it."""
    text = files("eunomia").joinpath("data/cluster_learned.json").read_text(encoding="utf-8")
    made: dict[str, Any] = json.loads(text)
    return made


@dataclass
class Learned:
    """Serve jobs by score, largest first, preemptive; Tiresias' queues where the guard says so.

    Score = -(queue + rank of first start within those present, 0 to 1) + weights . features, so that weights
    of 0 are Tiresias. ``weights`` (9,): None takes the shipped ones. Guards: shipped weights that did not
    beat the heuristic on validation windows are not used. A score that is not finite falls back for that
    moment. The answer's notes report both. Does badly on clusters unlike those it was fitted on (one trace,
    one load); there the heuristic is the safer choice, which the policy cannot detect.
    """

    weights: tuple[float, ...] | None = None
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")
    _used: Floats | None = field(init=False, repr=False)
    _heuristic: Tiresias = field(init=False, repr=False)
    _history: History = field(default_factory=History, repr=False)

    def __post_init__(self) -> None:
        given = self.weights
        if given is None:
            made = shipped()
            given = tuple(made["weights"]) if made["kept"] else None
        elif len(given) != len(FEATURES):
            raise ConfigError(
                f"learned: {len(given)} weights; there are {len(FEATURES)}: {', '.join(FEATURES)}"
            )
        self._used = None if given is None else np.array(given, float)
        self._heuristic = Tiresias(types=self.types)

    def reset(self, seed: int) -> None:
        """Heuristic and history forget."""
        self._heuristic.reset(seed)
        self._history = History()

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices by score."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        if self._used is None:
            answer = self._heuristic.allocate(view)
            return _told(answer, "the shipped weights did not pass their gate")
        self._history.see(view)
        queue = self._heuristic.queues(view)
        started = np.where(np.isnan(view.first_start_s), np.inf, view.first_start_s)
        rank = np.empty(len(view))
        rank[np.argsort(started, kind="stable")] = np.arange(len(view)) / len(view)
        with np.errstate(invalid="ignore", over="ignore"):
            score = features(view, self._history) @ self._used - queue - rank
        if not np.isfinite(score).all():
            answer = Allocation(
                devices=serve(view, np.argsort(queue + rank, kind="stable"), types=self.types)
            )
            return _told(answer, "a score is not finite")
        return Allocation(devices=serve(view, np.argsort(-score, kind="stable"), types=self.types))


def _told(answer: Allocation, why: str) -> Allocation:
    note = Note("fallback", f"{why}; served by Tiresias' queues")
    return Allocation(devices=answer.devices, notes=(note,))
