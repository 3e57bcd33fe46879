"""Classes of input shapes that cost alike, and a curve through the classes that were measured.

A class holds requests of about the same rows (a power of two) and elements per row in each input (a fifth apart).
A class that never ran is read off the curve: straight lines between measured classes, logarithm of time over
logarithm of elements, each block by itself. One measured class gives proportion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

STEPS = 4  # classes to a doubling of an input's elements
MOST = 64  # classes of a network; beyond them, shapes of about the same rows and elements in all share one
STEEPEST = 2.0  # beyond what was measured, time grows with the square of elements at most

KEPT = 256  # shapes whose class is remembered
COARSE = -1  # begins the keys of classes beyond them
NOBODY = -1  # an owner without bounds of its own

Key = tuple[int, ...]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ShapeClass:
    """``rows``: its logarithm to base 2, rounded up; ``elements``: per row, of all inputs; ``first_row``: its times."""

    rows: int
    elements: float
    first_row: int


@dataclass(eq=False)
class ShapeClasses:
    """Of one network. ``found``: those that were seen, the one of the trial first.

    ``made``: how many classes were made for each owner's requests; none may have more than are left for the others.
    """

    found: dict[Key, ShapeClass] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    exact: int = 0  # classes that are not coarse
    _again: dict[tuple[int, tuple[int, ...]], Key] = field(
        default_factory=dict
    )  # shapes of late, of classes found

    def key(self, rows: int, sizes: Sequence[int], owner: int = NOBODY) -> Key:
        """The class of a shape: ``rows``, and elements per row of each input."""
        shape = rows, tuple(sizes)
        if (known := self._again.get(shape)) is not None:
            return known
        key = (_doublings(rows), *(round(STEPS * math.log2(max(size, 1))) for size in sizes))
        if key in self.found:
            if len(self._again) >= KEPT:
                self._again.clear()
            self._again[shape] = key
            return key
        if self.made.get(owner, 0) < MOST - self.exact:
            return key
        return (COARSE, _doublings(rows), _doublings(max(sum(sizes), 1)))

    def add(self, key: Key, sizes: Sequence[int], first_row: int, owner: int = NOBODY) -> ShapeClass:
        """A class that was not seen before; its first shape stands for all."""
        coarse = key[0] == COARSE
        if not coarse:
            self.exact += 1
            self.made[owner] = self.made.get(owner, 0) + (owner != NOBODY)
        self.found[key] = ShapeClass(key[1] if coarse else key[0], float(max(sum(sizes), 1)), first_row)
        return self.found[key]


def curve(wanted: ShapeClass, measured: Sequence[tuple[ShapeClass, Floats]]) -> Floats:
    """Time per row of each block of a class: what the measured classes suggest.

    Of classes with equal elements the one with about as many rows counts.
    """
    nearest: dict[float, tuple[int, Floats]] = {}
    for one, times in measured:
        distance = abs(one.rows - wanted.rows)
        if one.elements not in nearest or distance < nearest[one.elements][0]:
            nearest[one.elements] = distance, times
    elements = sorted(nearest)
    at, x = np.log(elements), math.log(wanted.elements)
    times = np.log(np.maximum([nearest[e][1] for e in elements], 1e-12))
    if len(at) == 1:
        found: Floats = np.exp(times[0] + x - at[0])
        return found
    n = int(np.clip(np.searchsorted(at, x), 1, len(at) - 1))
    slope = (times[n] - times[n - 1]) / (at[n] - at[n - 1])
    if not at[0] <= x <= at[-1]:
        slope = np.clip(slope, 0.0, STEEPEST)
    end = n if x > at[n] else n - 1
    found = np.exp(times[end] + slope * (x - at[end]))
    return found


def _doublings(count: int) -> int:
    return max(count - 1, 0).bit_length()
