"""Ridge regression of log slowdown on features of the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.sharing.interference.co_run import CoRun, Features, design_of, row_of


@dataclass
class Linear:
    """Ridge regression of log slowdown on the features of target and (summed) neighbours, per device kind."""

    features: Features
    ridge: float = 1e-2
    _weights: dict[str, Floats] = field(default_factory=dict)
    _scale: tuple[Floats, Floats] = field(default_factory=lambda: (np.zeros(1), np.ones(1)))
    _spread: float = 0.0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """One model per kind."""
        design, logs, kinds = design_of(rows, self.features)
        self._scale = design.mean(axis=0), np.maximum(design.std(axis=0), 1e-9)
        residuals = np.zeros(len(rows))
        for kind in dict.fromkeys(kinds):
            mine = np.array([k == kind for k in kinds])
            x, y = self._scaled(design[mine]), logs[mine]
            penalty = self.ridge * len(x) * np.diag([0.0, *np.ones(x.shape[1] - 1)])
            self._weights[kind] = np.linalg.solve(x.T @ x + penalty, x.T @ y)
            residuals[mine] = y - x @ self._weights[kind]
        self._spread = float(residuals.std())

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """exp of the linear form; the mean model for a kind never seen."""
        x = self._scaled(row_of(target, neighbours, self.features)[None])[0]
        known = self._weights.get(kind)
        weights = np.mean(list(self._weights.values()), axis=0) if known is None else known
        return float(np.exp(np.clip(x @ weights, 0.0, 4.0))), self._spread

    def _scaled(self, design: Floats) -> Floats:
        centred = (design - self._scale[0]) / self._scale[1]
        return np.concatenate([np.ones((len(design), 1)), centred], axis=1)
