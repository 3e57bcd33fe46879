"""Bagged regression trees on log slowdown (the learner of Co-scheML, and of Mendoza et al. in one model)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.sharing.interference.co_run import CoRun, Features, design_of, row_of


@dataclass
class Forest:
    """Bagged regression trees on log slowdown. ``unified``: kind and number of neighbours are columns of one model.

    Without ``unified`` every device kind has a forest of its own, and an unseen kind gets the mean of all. Does
    badly outside the range of what was seen: trees do not extrapolate.
    """

    features: Features
    unified: bool = False
    kind_features: Mapping[str, Floats] = field(default_factory=dict)
    trees: int = 40
    depth: int = 6
    least: int = 4
    seed: int = 0
    _forests: dict[str, list[_Tree]] = field(default_factory=dict)
    _spread: float = 0.0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Bootstrap samples, a random half of the columns per split."""
        rng = np.random.default_rng(self.seed)
        design, logs, kinds = design_of(rows, self.features)
        groups = [self._name(kind) for kind in kinds]
        if self.unified:
            extra = [[*self._kind(row.kind), len(row.neighbours)] for row in rows]
            design = np.concatenate([design, np.array(extra)], axis=1)
        self._forests, errors = {}, []
        for name in dict.fromkeys(groups):
            mine = np.flatnonzero([group == name for group in groups])
            forest = []
            for _ in range(self.trees):
                drawn = rng.choice(mine, len(mine))
                forest.append(_grow(design[drawn], logs[drawn], self.depth, self.least, rng))
            self._forests[name] = forest
            errors += [logs[i] - _vote(forest, design[i]) for i in mine]
        self._spread = float(np.std(errors))

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """Mean of the trees."""
        x = row_of(target, neighbours, self.features)
        if self.unified:
            x = np.concatenate([x, self._kind(kind), [len(neighbours)]])
        forest = self._forests.get(self._name(kind))
        votes = [_vote(f, x) for f in ([forest] if forest else self._forests.values())]
        return max(1.0, math.exp(float(np.mean(votes)))), self._spread

    def _name(self, kind: str) -> str:
        return "" if self.unified else kind

    def _kind(self, kind: str) -> Floats:
        return self.kind_features.get(kind, np.zeros(1))


@dataclass(frozen=True, slots=True)
class _Tree:
    """Leaf: ``column`` -1 and ``value``; else rows with x[column] <= cut go ``low``."""

    value: float
    column: int = -1
    cut: float = 0.0
    low: _Tree | None = None
    high: _Tree | None = None


def _grow(x: Floats, y: Floats, depth: int, least: int, rng: np.random.Generator) -> _Tree:
    value = float(y.mean())
    if depth == 0 or len(y) < 2 * least or np.ptp(y) == 0.0:
        return _Tree(value)
    best, column, cut = 0.0, -1, 0.0
    useful = np.flatnonzero(np.ptp(x, axis=0) > 0.0)
    for c in rng.choice(useful, (len(useful) + 1) // 2, replace=False).tolist():
        order = np.argsort(x[:, c], kind="stable")
        values, sums = x[order, c], np.cumsum(y[order])
        number = np.arange(1, len(y))
        gain = (
            sums[:-1] ** 2 / number + (sums[-1] - sums[:-1]) ** 2 / (len(y) - number) - sums[-1] ** 2 / len(y)
        )
        legal = (values[1:] > values[:-1]) & (number >= least) & (len(y) - number >= least)
        gain = np.where(legal, gain, 0.0)
        i = int(np.argmax(gain))
        if gain[i] > best:
            best, column, cut = float(gain[i]), c, float((values[i] + values[i + 1]) / 2.0)
    if column < 0:
        return _Tree(value)
    goes_low = x[:, column] <= cut
    low = _grow(x[goes_low], y[goes_low], depth - 1, least, rng)
    return _Tree(value, column, cut, low, _grow(x[~goes_low], y[~goes_low], depth - 1, least, rng))


def _vote(forest: Sequence[_Tree], x: Floats) -> float:
    total = 0.0
    for tree in forest:
        node = tree
        while node.low is not None and node.high is not None:
            node = node.low if x[node.column] <= node.cut else node.high
        total += node.value
    return total / len(forest)
