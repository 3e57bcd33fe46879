"""Who may be put beside whom: uncorrelated pods on a percentile (CBP), or where the near future has room (PP)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.sharing.harvest.series import Series

CUT, PERCENT = 0.5, 90.0


@dataclass
class Node:
    """``capacity`` of memory, and the pods on it."""

    capacity: float
    pods: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.capacity > 0.0:
            raise ConfigError(f"a node's capacity is {self.capacity}; more than 0")


def correlated(a: Floats, b: Floats, cut: float = CUT) -> bool:
    """Whether two series rise and fall together: Pearson's coefficient above ``cut``; a constant one never does."""
    spread = float(a.std() * b.std())
    if spread <= 1e-12:
        return False
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread > cut


def admit(pod: str, node: Node, known: Mapping[str, Floats], predict: bool) -> bool:
    """CBP: percentiles fit and nobody is correlated. ``predict``: or PP, the forecast of the node leaves room.

    PP needs a positive autocorrelation of the node's memory. Does badly when uncorrelated pods peak together once.
    """
    sizes = sum(Series(known[name]).percentile(PERCENT) for name in [*node.pods, pod])
    if sizes > node.capacity and not predict:
        return False
    if sizes <= node.capacity and not any(correlated(known[pod], known[name]) for name in node.pods):
        return True
    if not predict or not node.pods:
        return False
    whole = Series(np.sum([known[name] for name in node.pods], axis=0))
    return whole.autocorrelation > 0.0 and node.capacity - whole.forecast() >= Series(known[pod]).percentile(
        100.0
    )


def pack(known: Mapping[str, Floats], capacity: float, rule: str) -> list[Node]:
    """First fit, largest first, by ``peak``, ``percentile``, ``cbp`` or ``pp``; a pod that fits nowhere opens a node.

    A pod above the capacity has a node of its own.
    """
    if rule not in SIZES:
        raise ConfigError(f"unknown rule '{rule}'; choose one of: {', '.join(sorted(SIZES))}")
    nodes: list[Node] = []
    for pod in sorted(known, key=lambda name: (-Series(known[name]).percentile(SIZES[rule]), name)):
        fitting = next((node for node in nodes if _fits(pod, node, known, rule)), None)
        if fitting is None:
            nodes.append(fitting := Node(capacity))
        fitting.pods.append(pod)
    return nodes


SIZES = {"peak": 100.0, "percentile": PERCENT, "cbp": PERCENT, "pp": PERCENT}


def _fits(pod: str, node: Node, known: Mapping[str, Floats], rule: str) -> bool:
    if rule in ("cbp", "pp"):
        return admit(pod, node, known, predict=rule == "pp")
    return _total([*node.pods, pod], known, SIZES[rule]) <= node.capacity


def _total(pods: Sequence[str], known: Mapping[str, Floats], percent: float) -> float:
    return sum(Series(known[name]).percentile(percent) for name in pods)
