"""Tolerated plus caused interference per job: what two probes can place (Paragon's idea)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.sharing.interference.co_run import CoRun


@dataclass
class Factorised:
    """log slowdown = base(kind) + t(target) + sum of c(neighbour): tolerance and cause, by ridge least squares.

    A job without observations counts as average; two probes (one as target, one as neighbour) place it. Does badly
    where pairs interact (two jobs that both need the same cache).
    """

    ridge: float = 0.1  # observations that the assumption of being average is worth
    tolerated: dict[str, float] = field(default_factory=dict)
    caused: dict[str, float] = field(default_factory=dict)
    base: dict[str, float] = field(default_factory=dict)
    _spread: float = 0.0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """One sparse system for all kinds together."""
        names = sorted({name for row in rows for name in (row.target, *row.neighbours)})
        kinds = sorted({row.kind for row in rows})
        at = {name: i for i, name in enumerate(names)}
        design = np.zeros((len(rows), len(kinds) + 2 * len(names)))
        for r, row in enumerate(rows):
            design[r, kinds.index(row.kind)] = 1.0
            design[r, len(kinds) + at[row.target]] += 1.0
            for name in row.neighbours:
                design[r, len(kinds) + len(names) + at[name]] += 1.0
        logs = np.log([row.slowdown for row in rows])
        penalty = np.diag([1e-9] * len(kinds) + [self.ridge] * 2 * len(names)) * max(
            len(rows) / len(names), 1.0
        )
        weights = np.linalg.solve(design.T @ design + penalty, design.T @ logs)
        self._spread = float((logs - design @ weights).std())
        self.base = dict(zip(kinds, weights[: len(kinds)].tolist(), strict=True))
        self.tolerated = {name: float(weights[len(kinds) + i]) for name, i in at.items()}
        self.caused = {name: float(weights[len(kinds) + len(names) + i]) for name, i in at.items()}

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """Sum of the parts; unknown names and kinds are average."""
        base = self.base.get(kind, float(np.mean(list(self.base.values()))))
        total = (
            base + self.tolerated.get(target, 0.0) + sum(self.caused.get(name, 0.0) for name in neighbours)
        )
        return max(1.0, math.exp(total)), self._spread
