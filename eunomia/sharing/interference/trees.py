"""Trees on log slowdown, by scikit-learn: a forest (Co-scheML's learner, and Mendoza's in one model), and boosting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.sharing.interference.co_run import CoRun, Features, design_of, row_of


class Regressor(Protocol):
    """What is used of scikit-learn's."""

    def fit(self, x: Floats, y: Floats) -> object:
        """Learn."""

    def predict(self, x: Floats) -> Floats:
        """(rows,)."""


@dataclass
class Trees:
    """Regression trees on log slowdown. ``unified``: kind and number of neighbours are columns of one model.

    Without ``unified`` every device kind has a model of its own, and an unseen kind gets the mean of all. ``boosting``:
    trees that correct each other, in place of a forest's mean. Does badly outside the range of what was seen: trees do
    not extrapolate. Raises ConfigError without scikit-learn.
    """

    features: Features
    unified: bool = False
    kind_features: Mapping[str, Floats] = field(default_factory=dict)
    boosting: bool = False
    seed: int = 0
    _models: dict[str, Regressor] = field(default_factory=dict)
    _spread: float = 0.0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """One model, or one per kind."""
        design, logs, kinds = design_of(rows, self.features)
        if self.unified:
            extra = [[*self._kind(row.kind), len(row.neighbours)] for row in rows]
            design = np.concatenate([design, np.array(extra)], axis=1)
        groups = np.array([self._name(kind) for kind in kinds])
        self._models, errors = {}, []
        for name in dict.fromkeys(groups.tolist()):
            mine, model = groups == name, self._regressor()
            model.fit(design[mine], logs[mine])
            self._models[name] = model
            errors.append(logs[mine] - model.predict(design[mine]))
        self._spread = float(np.concatenate(errors).std())

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """The kind's model; the mean of all for a kind never seen."""
        x = row_of(target, neighbours, self.features)
        if self.unified:
            x = np.concatenate([x, self._kind(kind), [len(neighbours)]])
        known = self._models.get(self._name(kind))
        votes = [_asked(model, x) for model in ([known] if known else self._models.values())]
        return max(1.0, math.exp(float(np.mean(votes)))), self._spread

    def _regressor(self) -> Regressor:
        try:
            from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
        except ImportError:
            raise ConfigError(
                "predictors by trees need scikit-learn, which is not installed: pip install 'eunomia[sharing]'"
            ) from None
        made: Regressor
        if self.boosting:
            made = GradientBoostingRegressor(
                n_estimators=200, learning_rate=0.05, max_depth=3, subsample=0.7, random_state=self.seed
            )
        else:
            made = RandomForestRegressor(
                40, max_depth=6, min_samples_leaf=4, max_features=0.5, random_state=self.seed
            )
        return made

    def _name(self, kind: str) -> str:
        return "" if self.unified else kind

    def _kind(self, kind: str) -> Floats:
        return self.kind_features.get(kind, np.zeros(1))


def _asked(model: Regressor, x: Floats) -> float:
    """One prediction. A forest's own way costs ten times as long, for it may use threads."""
    trees = getattr(model, "estimators_", None)
    if isinstance(trees, list):  # of a forest; boosting has an array
        row = np.asarray(x[None], np.float32)
        return float(np.mean([tree.tree_.predict(row) for tree in trees]))
    return float(model.predict(x[None])[0])
