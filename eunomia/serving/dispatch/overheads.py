"""What a run costs a device beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

from collections.abc import Sequence
from random import random

import numpy as np

from eunomia.core.arrays import Floats

LEARN = 0.0005  # weight of a new measurement; single ones may be a thousand times the middle one
LONGEST_S, LONGEST_MOVE_S = 0.1, 2.0
FEW, FEW_MOVES = (
    50.0,
    1.0,
)  # with so many values, a device's own mean counts as much as that of all; some are far
KEPT, DRAWS = 2048, 64  # latest values of a kind, and the numbers that stand for them
FAR, MANY_DRAWS = (
    2.0,
    512,
)  # if the largest value is so many times the last of them, more stand for whole runs
# What a run begins with: a device that was idle before its request came; one that has ended a run, and gets its next
# order only then, or has it already; one that has run this very request last; or tensors on another device.
# What it ends with: the front end hears of it. A look at it between two boundaries, and how much too late that comes.
DELAYS = ("first", "asked", "ahead", "again", "moved", "heard", "look", "wake")
FIRST, ASKED, AHEAD, AGAIN, MOVED, HEARD, LOOK, WAKE = DELAYS
BESIDE = (HEARD, LOOK, WAKE)  # those that no run begins with
KEPT_DELAYS, SAMPLED = 512, 20  # and of how many times as many they are a sample
HOLD_S = 0.002  # an order that comes so long after it could have come was not meant to come before


class Latest:
    """The latest values of a kind, and what each of them weighs; ``of``: a sample of about so many times as many."""

    def __init__(self, kept: int = KEPT, of: int = 1) -> None:
        self._values, self._weights, self.count = np.zeros(kept), np.ones(kept), 0
        self._of, self._sum = of * kept, 0.0

    def add(self, values: Floats, weights: Floats | float = 1.0) -> None:
        """In their order."""
        at, kept = self.count % len(self._values), len(self._values)
        where = (
            slice(at, at + len(values)) if at + len(values) <= kept else (at + np.arange(len(values))) % kept
        )
        self._values[where], self._weights[where] = values, weights
        self.count += len(values)

    def put(self, value: float, weight: float = 1.0) -> None:
        """One; between two runs of a device."""
        at, kept = self.count % len(self._values), len(self._values)
        if self.count >= kept < self._of:
            at = int(random() * min(self.count + 1, self._of))
        if at < kept:
            self._sum += value - self._values[at]
            self._values[at], self._weights[at] = value, weight
        self.count += 1

    @property
    def mean(self) -> float:
        """Of values that were ``put``, whatever they weigh; 0 without values."""
        return self._sum / max(1, min(self.count, len(self._values)))

    @property
    def most(self) -> float:
        """The largest; 0 without values."""
        return float(self._values[: self.count].max(initial=0.0))

    def draws(self, most: int = DRAWS) -> list[float]:
        """Numbers of equal chance, in ascending order, with the weighted mean of the values: none without values.

        Up to ``most`` where few would say wrong: one stall of 0.2 s among 512 runs is not one of 25 ms in each 64.
        """
        kept = min(self.count, len(self._values))
        order = np.argsort(self._values[:kept])
        values, weights = np.maximum(self._values[order], 0.0), self._weights[order]
        up_to, sums = np.append(0.0, weights.cumsum()), np.append(0.0, (values * weights).cumsum())

        def means(count: int) -> list[float]:
            ends = np.linspace(0.0, up_to[-1], min(count, kept) + 1)
            found: list[float] = (np.diff(np.interp(ends, up_to, sums)) / np.diff(ends)).tolist()
            return found

        found = means(DRAWS) if kept else []
        return means(most) if kept > DRAWS < most and values[-1] > FAR * found[-1] else found


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
        self.latest.put(value_s)
        self.mean_s += max(LEARN, 1.0 / self.count) * (value_s - self.mean_s)


class Overheads:
    """Of one device. ``turn``: what is lost when it goes from one request to another that waits.

    Until the run begins, once device and request are free, and what it takes beside its blocks. A hold counts
    as lost time too, unless it is longer than a tenth of a second. Such gaps, and those of a device that was
    away, are left out. ``move``: what another device loses on top where the request has run here last and its tensors
    are fetched from here, over a network perhaps. ``delays``: of all runs, by kind; what was moved counts where it came
    from.
    """

    def __init__(self) -> None:
        self.turn, self.move = Mean(), Mean()
        self.delays = {kind: Latest(KEPT_DELAYS, SAMPLED) for kind in DELAYS}

    def turned(self, lost_s: float, holder: Overheads | None = None) -> None:
        """A run began here that could have begun earlier, with the tensors of ``holder`` if that is not None."""
        if holder is None and lost_s <= LONGEST_S:
            self.turn.learn(lost_s)
        elif holder is not None and lost_s <= LONGEST_MOVE_S:
            holder.move.learn(lost_s - self.turn.mean_s)

    def leaving_s(self, to: Overheads) -> float:
        """What a request that leaves this device for another one loses; a turn for the move while none was measured."""
        return to.turn.mean_s + (max(0.0, self.move.mean_s) if self.move.count else to.turn.mean_s)


def lost_s(could_s: float, began_s: float, beside_s: float) -> float:
    """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
    return max(0.0, began_s - could_s) + max(0.0, beside_s)


def means_s(means: Sequence[Mean], few: float = FEW) -> list[float]:
    """One for each device; the fewer values it has, the more it counts as like the others: half for ``few``."""
    count = sum(mean.count for mean in means)
    all_s = sum(mean.count * mean.mean_s for mean in means) / max(count, 1)
    return [max(0.0, (m.count * m.mean_s + few * all_s) / (m.count + few)) for m in means]
