"""A predictor that corrects itself from what it sees while it serves."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from eunomia.sharing.interference.co_run import CoRun, Predictor
from eunomia.sharing.interference.factorised import Factorised


@dataclass
class Online:
    """A fitted ``base``, plus learned log corrections of target, target on kind, neighbour, and the very co-run.

    Each observation moves its corrections, the coarse ones first; correction i by 1 / (n_i + ``prior``) of what the
    coarser ones leave unexplained, where n_i counts its observations. Does badly where slowdowns drift: old
    observations weigh as much as new ones up to ``memory`` of them.
    """

    base: Predictor = field(default_factory=Factorised)
    prior: float = 1.0
    memory: int = 100
    _moved: dict[Hashable, float] = field(default_factory=dict)
    _seen: dict[Hashable, int] = field(default_factory=dict)
    _square: float = 0.0
    _count: int = 0

    def fit(self, rows: Sequence[CoRun]) -> None:
        """Fit the base, forget all corrections."""
        self.base.fit(rows)
        self._moved, self._seen, self._square, self._count = {}, {}, 0.0, 0

    def observe(self, row: CoRun) -> None:
        """Learn from one co-run."""
        keys = list(_keys(row.target, row.neighbours, row.kind))
        error = math.log(row.slowdown) - self._log(row.target, row.neighbours, row.kind)
        self._square, self._count = self._square + error * error, self._count + 1
        for key in keys:
            count = min(self._seen.get(key, 0) + 1, self.memory)
            step = error / (count + self.prior)
            self._moved[key] = self._moved.get(key, 0.0) + step
            self._seen[key] = count
            error -= step

    def predict(self, target: str, neighbours: Sequence[str], kind: str) -> tuple[float, float]:
        """The base's slowdown, corrected, never below 1; spread of the observed errors once there are ten."""
        spread = self.base.predict(target, neighbours, kind)[1]
        if self._count >= 10:
            spread = math.sqrt(self._square / self._count)
        return max(1.0, math.exp(min(self._log(target, neighbours, kind), 10.0))), spread

    def _log(self, target: str, neighbours: Sequence[str], kind: str) -> float:
        base = math.log(self.base.predict(target, neighbours, kind)[0])
        return base + sum(self._moved.get(key, 0.0) for key in _keys(target, neighbours, kind))


def _keys(target: str, neighbours: Sequence[str], kind: str) -> Iterator[Hashable]:
    """From coarse to fine; a neighbour that is there twice counts twice."""
    yield target
    yield target, kind
    for name in sorted(neighbours):
        yield "beside", name, kind
    yield target, tuple(sorted(neighbours)), kind
