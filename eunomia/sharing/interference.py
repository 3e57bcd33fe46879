"""How much slower a job runs beside others: one interface, several back ends.

A :class:`CoRun` is one observation: a target, its neighbours, the device kind, slowdown = time beside / time alone.
Predictors are fitted on such rows and asked for others; what they know of a job is a vector of features. Back ends
and whose idea they follow (written from descriptions, none of these systems publishes usable code):

* ``none``: slowdown 1; ``mean``: the average seen per device kind and number of neighbours.
* ``utilisation_sum``: max(1, a + b * sum of utilisations), Horus' proxy (TPDS 2022).
* ``linear``, ``forest``: of target's and neighbours' features; the forest is Co-scheML's learner (CLUSTER 2020).
* ``unified``: the forest with device kind and number of neighbours as columns, one model for all (Mendoza et al.,
  EuroMLSys 2021).
* ``factorised``: log slowdown = tolerated by the target + caused by each neighbour + kind, so that a new job needs two
  probes only (Paragon, ASPLOS 2013, without its second classification).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eunomia.errors import ConfigError, UnknownNameError

Floats = npt.NDArray[np.float64]
Features = Mapping[str, Floats]  # name of a job -> its features, all of one length


@dataclass(frozen=True, slots=True)
class CoRun:
    """``target`` ran ``slowdown`` times as long beside ``neighbours`` on ``kind`` as alone there."""

    target: str
    neighbours: tuple[str, ...]
    kind: str
    slowdown: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slowdown) and self.slowdown > 0.0):
            raise ConfigError(
                f"co-run of '{self.target}' on '{self.kind}': slowdown is {self.slowdown}, not positive"
            )


class Predictor(Protocol):
    """What every back end is."""

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Learn from observations."""

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """Slowdown and its spread (standard deviation of the residuals in log space) for one co-run."""


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
        design, logs, kinds = _design(rows, self.features)
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
        x = self._scaled(_row(target, neighbours, self.features)[None])[0]
        known = self._weights.get(kind)
        weights = np.mean(list(self._weights.values()), axis=0) if known is None else known
        return float(np.exp(np.clip(x @ weights, 0.0, 4.0))), self._spread

    def _scaled(self, design: Floats) -> Floats:
        centred = (design - self._scale[0]) / self._scale[1]
        return np.concatenate([np.ones((len(design), 1)), centred], axis=1)


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
        design, logs, kinds = _design(rows, self.features)
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
        x = _row(target, neighbours, self.features)
        if self.unified:
            x = np.concatenate([x, self._kind(kind), [len(neighbours)]])
        forest = self._forests.get(self._name(kind))
        votes = [_vote(f, x) for f in ([forest] if forest else self._forests.values())]
        return max(1.0, math.exp(float(np.mean(votes)))), self._spread

    def _name(self, kind: str) -> str:
        return "" if self.unified else kind

    def _kind(self, kind: str) -> Floats:
        return self.kind_features.get(kind, np.zeros(1))


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


BACK_ENDS = ("none", "mean", "utilisation_sum", "linear", "forest", "unified", "factorised")


def predictor(
    name: str,
    features: Features | None = None,
    utilisation: Mapping[str, float] | None = None,
    kind_features: Mapping[str, Floats] | None = None,
    seed: int = 0,
) -> Predictor:
    """A back end by name; UnknownNameError lists them, ConfigError says what a back end lacks."""
    if name not in BACK_ENDS:
        raise UnknownNameError("interference predictor", name, BACK_ENDS)
    if name in ("linear", "forest", "unified") and features is None:
        raise ConfigError(f"interference predictor '{name}' needs features of the jobs")
    if name == "utilisation_sum" and utilisation is None:
        raise ConfigError("interference predictor 'utilisation_sum' needs the jobs' utilisations")
    known = features or {}
    if name == "linear":
        return Linear(known)
    if name in ("forest", "unified"):
        return Forest(known, name == "unified", kind_features or {}, seed=seed)
    if name == "utilisation_sum":
        return UtilisationSum(utilisation or {})
    plain: dict[str, type[NoInterference] | type[Mean] | type[Factorised]] = {
        "none": NoInterference,
        "mean": Mean,
        "factorised": Factorised,
    }
    return plain[name]()


# --- features and trees


def _row(target: str, neighbours: Sequence[str], features: Features) -> Floats:
    for name in (target, *neighbours):
        if name not in features:
            raise UnknownNameError("job with features", name, features)
    beside = np.sum([features[name] for name in neighbours], axis=0)
    return np.concatenate([features[target], beside])


def _design(rows: Sequence[CoRun], features: Features) -> tuple[Floats, Floats, list[str]]:
    if not rows:
        raise ConfigError("an interference predictor was given no co-runs to learn from")
    design = np.array([_row(row.target, row.neighbours, features) for row in rows])
    return design, np.log([row.slowdown for row in rows]), [row.kind for row in rows]


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
