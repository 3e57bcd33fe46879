"""A job behaves like a mixture of known jobs: completion of a sparse matrix of slowdowns (Paragon's idea)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.sharing.interference.co_run import CoRun, Predictor
from eunomia.sharing.interference.factorised import Factorised

Place = tuple[tuple[str, ...], str]  # neighbours in order, device kind


@dataclass
class Completed:
    """What the additive ``base`` misses of a job is a weighted sum of what it misses of others in the same company.

    Weights by ridge regression on the job's own co-runs, so they may be few; ``observe`` takes in more. A co-run that
    was measured counts as so many measurements against one of the estimate. Does badly for a job unlike all others,
    and in company that no other job had: there only the job's mean residual is left.
    """

    ridge: float = 0.1
    base: Predictor = field(default_factory=Factorised)
    _seen: dict[str, dict[Place, list[float]]] = field(default_factory=dict)
    _weights: dict[str, tuple[float, dict[str, float]]] = field(default_factory=dict)

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Fit the base, keep what it misses."""
        self.base.fit(rows)
        self._seen = {}
        for row in rows:
            self.observe(row)

    def observe(self, row: CoRun) -> None:
        """Take in one more co-run; the base stays."""
        place = tuple(sorted(row.neighbours)), row.kind
        missed = math.log(row.slowdown) - self._base(row.target, row.neighbours, row.kind)
        self._seen.setdefault(row.target, {}).setdefault(place, []).append(missed)
        self._weights = {}

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """Base and mixture, never below 1; spread as the base has it."""
        place = tuple(sorted(neighbours)), kind
        offset, weights = self._mixture(target)
        missed = offset + sum(w * self._missed(name, place) for name, w in weights.items())
        own = self._seen.get(target, {}).get(place, [])
        missed = (missed + sum(own)) / (1.0 + len(own))
        log = self._base(target, neighbours, kind) + missed
        return max(1.0, math.exp(min(log, 10.0))), self.base.predict(target, neighbours, kind)[1]

    def _mixture(self, target: str) -> tuple[float, dict[str, float]]:
        if target not in self._weights:
            mine = self._seen.get(target, {})
            others = [name for name in self._seen if name != target]
            self._weights[target] = (0.0, {})
            if mine and others:
                design: Floats = np.array([[1.0, *(self._missed(o, p) for o in others)] for p in mine])
                wanted = np.array([float(np.mean(found)) for found in mine.values()])
                penalty = self.ridge * np.eye(len(others) + 1)
                found = np.linalg.solve(design.T @ design + penalty, design.T @ wanted).tolist()
                self._weights[target] = found[0], dict(zip(others, found[1:], strict=True))
        return self._weights[target]

    def _missed(self, name: str, place: Place) -> float:
        """0 where the job was not measured in that company."""
        found = self._seen[name].get(place)
        return sum(found) / len(found) if found else 0.0

    def _base(self, target: str, neighbours: Sequence[str], kind: str) -> float:
        return math.log(self.base.predict(target, neighbours, kind)[0])
