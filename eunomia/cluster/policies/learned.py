"""A learned order of jobs: a linear score of what may be known, fitted on windows of a production trace, with a guard.

The weights stand in ``eunomia/data/cluster_learned.json``, written by ``python -m benchmarks.cluster_peers learned``,
which also decides whether they are used: only if they beat the heuristic on windows they were not fitted on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from eunomia.cluster.cluster import Floats
from eunomia.cluster.policies.attained_service import Tiresias
from eunomia.cluster.policies.serving_order import Types, serve
from eunomia.cluster.view import Allocation, ClusterView, Needs, Note
from eunomia.errors import ConfigError

FEATURES = (
    "service",  # log(1 + device-seconds received / 600)
    "relative service",  # log(1 + device-seconds received / mean of those present)
    "width",  # log2 of workers
    "starved",  # share of its life that it did not run, 0 to 1
    "runs",  # 1 if it holds devices
    "age",  # log(1 + age / mean age of those present)
    "tenant holds",  # devices its tenant holds over an equal part of all devices, at most 4
    "speed",  # speed on the best free type over its best speed anywhere
)
START = (-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # least attained service


def features(view: ClusterView) -> Floats:
    """(M, 8) in the order of ``FEATURES``; nothing of it needs to know how long jobs are."""
    service, age = view.service_s, view.age_s
    ran = service / view.scale
    held = view.held.sum(axis=1)
    tenants = np.bincount(view.tenant, held, len(view.tenants))
    part = view.cluster.counts.sum() / max(len(np.unique(view.tenant)), 1)
    speed = np.where(view.runnable, view.throughput, 0.0)
    free = view.capacity - view.held.sum(axis=0)
    now = np.where(view.scale[:, None] <= free[None, :], speed, 0.0).max(axis=1)
    return np.stack(
        [
            np.log1p(service / 600.0),
            np.log1p(service / max(float(service.mean()), 1.0)),
            np.log2(view.scale),
            np.where(age > 0.0, np.clip(1.0 - ran / np.maximum(age, 1e-9), 0.0, 1.0), 0.0),
            (held > 0).astype(float),
            np.log1p(age / max(float(age.mean()), 1.0)),
            np.minimum(tenants[view.tenant] / part, 4.0),
            now / np.maximum(speed.max(axis=1), 1e-300),
        ],
        axis=1,
    )


@cache
def shipped() -> dict[str, Any]:
    """What training left behind: weights, whether the gate was passed, and the figures that decided it."""
    text = files("eunomia").joinpath("data/cluster_learned.json").read_text(encoding="utf-8")
    made: dict[str, Any] = json.loads(text)
    return made


@dataclass
class Learned:
    """Serve jobs by a learned score, largest first, preemptive; Tiresias' queues where the guard says so.

    ``weights`` (8,): None takes the shipped ones. Guards: shipped weights that did not beat the heuristic on
    validation windows are not used, and a score that is not finite falls back for that moment; both are said in
    the answer's notes. Does badly on clusters unlike those it was fitted on (one trace, one load); there the
    heuristic is the safer choice, and nothing tells the policy so.
    """

    weights: tuple[float, ...] | None = None
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")
    _used: Floats | None = field(init=False, repr=False)
    _heuristic: Tiresias = field(init=False, repr=False)

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
        """The heuristic forgets."""
        self._heuristic.reset(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices by score."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        if self._used is None:
            return self._fall_back(view, "the shipped weights did not pass their gate")
        with np.errstate(invalid="ignore", over="ignore"):
            score = features(view) @ self._used
        if not np.isfinite(score).all():
            return self._fall_back(view, "a score is not finite")
        return Allocation(devices=serve(view, np.argsort(-score, kind="stable"), types=self.types))

    def _fall_back(self, view: ClusterView, why: str) -> Allocation:
        answer = self._heuristic.allocate(view)
        note = Note("fallback", f"{why}; served by Tiresias' queues")
        return Allocation(devices=answer.devices, notes=(note,))
