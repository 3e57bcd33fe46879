"""Predictors that know little: nothing, the average, and a sum of utilisations (Horus' proxy)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.sharing.interference.co_run import CoRun


@dataclass
class NoInterference:
    """Slowdown 1."""

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Nothing to learn."""

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """Always 1, spread 0."""
        return 1.0, 0.0


@dataclass
class Mean:
    """Geometric mean of what was seen on this kind with as many neighbours; else over all."""

    _groups: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    _all: tuple[float, float] = (0.0, 0.0)

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Means of log slowdown."""
        logs = np.log([row.slowdown for row in rows])
        self._all = float(logs.mean()), float(logs.std())
        keys = [(row.kind, len(row.neighbours)) for row in rows]
        for key in set(keys):
            mine = logs[[k == key for k in keys]]
            self._groups[key] = float(mine.mean()), float(mine.std())

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """The group's mean."""
        mean, spread = self._groups.get((kind, len(neighbours)), self._all)
        return math.exp(mean), spread


@dataclass
class UtilisationSum:
    """max(1, a + b * U), U = sum of the utilisations (0 to 1) of target and neighbours; a, b by least squares.

    Does badly where jobs compete for something else than utilisation shows (memory bandwidth, caches): published
    measurements find utilisation not additive.
    """

    utilisation: Mapping[str, float]
    _line: tuple[float, float] = (1.0, 0.0)
    _spread: float = 0.0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Least squares of slowdown over U."""
        total = np.array([self._sum(row.target, row.neighbours) for row in rows])
        seen = np.array([row.slowdown for row in rows])
        design = np.stack([np.ones(len(rows)), total], axis=1)
        a, b = np.linalg.lstsq(design, seen, rcond=None)[0].tolist()
        self._line = a, b
        self._spread = float(np.log(seen / np.maximum(1.0, a + b * total)).std())

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """The line, never below 1."""
        a, b = self._line
        return max(1.0, a + b * self._sum(target, neighbours)), self._spread

    def _sum(self, target: str, neighbours: Sequence[str]) -> float:
        return float(sum(self.utilisation[name] for name in (target, *neighbours)))
