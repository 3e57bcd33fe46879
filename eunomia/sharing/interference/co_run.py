"""One observation of jobs side by side, what is known of jobs, and what every predictor is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError

Features = Mapping[str, Floats]  # name of a job -> its features, all of one length


@dataclass(frozen=True, slots=True)
class CoRun:
    """``target`` ran ``slowdown`` times as long beside ``neighbours`` on ``kind`` as alone there."""

    target: str
    neighbours: tuple[str, ...]
    kind: str
    slowdown: float
    width: float = 0.0  # of its 95 % interval, relative to it; 0 = not known

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


def row_of(target: str, neighbours: Sequence[str], features: Features) -> Floats:
    """Features of the target, then those of its neighbours summed; UnknownNameError for a job without features."""
    for name in (target, *neighbours):
        if name not in features:
            raise UnknownNameError("job with features", name, features)
    beside = np.sum([features[name] for name in neighbours], axis=0)
    return np.concatenate([features[target], beside])


def design_of(rows: Sequence[CoRun], features: Features) -> tuple[Floats, Floats, list[str]]:
    """(rows, columns) features, log slowdowns and device kinds; ConfigError for no rows."""
    if not rows:
        raise ConfigError("an interference predictor was given no co-runs to learn from")
    design = np.array([row_of(row.target, row.neighbours, features) for row in rows])
    return design, np.log([row.slowdown for row in rows]), [row.kind for row in rows]
