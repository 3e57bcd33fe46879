"""What a run costs a device beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats

LEARN = 0.0005  # weight of a new measurement; single ones may be a thousand times the middle one
LONGEST_S, LONGEST_MOVE_S = 0.1, 2.0
FEW = 50.0  # measurements: with so many, a device's own mean counts as much as that of all devices
KEPT, DRAWS = 2048, 64  # latest values of a kind, and the numbers that stand for them


class Latest:
    """The latest values of a kind."""

    def __init__(self) -> None:
        self._values, self.count = np.zeros(KEPT), 0

    def add(self, values: Floats) -> None:
        """In their order; no more than fit count."""
        at = (self.count + np.arange(len(values))[-KEPT:]) % KEPT
        self._values[at] = values[-KEPT:]
        self.count += len(values)

    @property
    def values(self) -> Floats:
        """In no order."""
        return self._values[: min(self.count, KEPT)]


class Mean:
    """Running mean [s] of some 2,000 values: where the front end shares its core with a device, one in thirty may be
    as much as all others together."""

    def __init__(self) -> None:
        self.mean_s, self.latest = 0.0, Latest()

    @property
    def count(self) -> int:
        """Values so far."""
        return self.latest.count

    def learn(self, value_s: float) -> None:
        """One more."""
        self.latest.add(np.array([value_s]))
        self.mean_s += max(LEARN, 1.0 / self.count) * (value_s - self.mean_s)


class Overheads:
    """Of one device. ``turn``: what is lost when it goes from one request to another that waits.

    Until the run begins, once device and request are free, and what it takes beside its blocks. A hold counts
    as lost time too, unless it is longer than a tenth of a second. Such gaps, and those of a device that was
    away, are left out. ``move``: what another device loses on top where the request has run here last and its tensors
    are fetched from here, over a network perhaps.
    """

    def __init__(self) -> None:
        self.turn, self.move = Mean(), Mean()

    def turned(self, lost_s: float, holder: Overheads | None = None) -> None:
        """A run began here that could have begun earlier, with the tensors of ``holder`` if that is not None."""
        if holder is None and lost_s <= LONGEST_S:
            self.turn.learn(lost_s)
        elif holder is not None and lost_s <= LONGEST_MOVE_S:
            holder.move.learn(lost_s - self.turn.mean_s)


def lost_s(could_s: float, began_s: float, beside_s: float) -> float:
    """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
    return max(0.0, began_s - could_s) + max(0.0, beside_s)


def means_s(means: Sequence[Mean]) -> list[float]:
    """One for each device; the fewer values it has, the more it counts as like the others."""
    count = sum(mean.count for mean in means)
    all_s = sum(mean.count * mean.mean_s for mean in means) / max(count, 1)
    return [max(0.0, (m.count * m.mean_s + FEW * all_s) / (m.count + FEW)) for m in means]


def draws(latest: Latest) -> list[float]:
    """Numbers of equal chance with the values' mean: each the mean of as many of them, in ascending order."""
    values = np.sort(np.maximum(latest.values, 0.0))
    return (
        [float(part.mean()) for part in np.array_split(values, min(DRAWS, len(values)))]
        if len(values)
        else []
    )
