"""Classes of input shapes that cost alike, and a curve through the classes that were measured.

A class holds requests of about the same rows (a power of two) and elements per row in each input (a fifth apart).
A class that never ran is read off the curve: straight lines between measured classes, logarithm of time over
logarithm of elements, each block by itself. One measured class gives proportion. Of several inputs the one that grew
most counts: a few tokens may cost more than the large cache beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

STEPS = 4  # classes to a doubling of an input's elements
MOST = 64  # classes of a network; beyond them, shapes of about the same rows and elements in all share one
APART = 64  # of those that share one, so many tell their inputs apart
STEEPEST = 2.0  # beyond what was measured, time grows with the square of elements at most

KEPT = 256  # shapes whose class is remembered
COARSE = -1  # begins the keys of classes beyond them
NOBODY = -1  # an owner without bounds of its own

Key = tuple[int, ...]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ShapeClass:
    """``rows``: its logarithm to base 2, rounded up; ``sizes``: elements per row of each; ``first_row``: its times."""

    rows: int
    sizes: tuple[int, ...]
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
        apart = (COARSE, _doublings(rows), *map(_doublings, sizes))
        if apart in self.found or len(self.found) - self.exact < APART:
            return apart
        return (COARSE, _doublings(rows), _doublings(max(sum(sizes), 1)))

    def add(self, key: Key, sizes: Sequence[int], first_row: int, owner: int = NOBODY) -> ShapeClass:
        """A class that was not seen before; its first shape stands for all."""
        coarse = key[0] == COARSE
        if not coarse:
            self.exact += 1
            self.made[owner] = self.made.get(owner, 0) + (owner != NOBODY)
        self.found[key] = ShapeClass(key[1] if coarse else key[0], tuple(max(s, 1) for s in sizes), first_row)
        return self.found[key]


def _grown(before: Sequence[ShapeClass], after: ShapeClass) -> tuple[Floats, Floats]:
    """``grown``, and how often an input would have to be doubled or halved, for all of them together."""
    times, apart = np.ones(len(before)), np.zeros(len(before))
    alike = [n for n, one in enumerate(before) if len(one.sizes) == len(after.sizes)]
    if alike and after.sizes:
        each = np.array(after.sizes) / np.array([before[n].sizes for n in alike])
        most = np.where(each != 1.0, each, 0.0).max(axis=1)
        times[alike], apart[alike] = np.where(most > 0.0, most, 1.0), np.abs(np.log2(each)).sum(axis=1)
    for n in {*range(len(before))} - {*alike}:
        times[n] = max(sum(after.sizes), 1) / max(sum(before[n].sizes), 1)
        apart[n] = abs(math.log2(times[n]))
    return times, apart


def grown(before: Sequence[ShapeClass], after: ShapeClass) -> list[float]:
    """How many times the elements, from each: of the input that grew most, or shrank least; the others say nothing.

    Where an input may be left out, and was in one of both, it is all elements together.
    """
    found: list[float] = _grown(before, after)[0].tolist()
    return found


def curve(wanted: ShapeClass, measured: Sequence[tuple[ShapeClass, Floats]]) -> Floats:
    """Time per row of each block of a class: what the measured classes suggest.

    Of classes from which it grew alike the one with about as many rows counts, and then the one that is most like it.
    Beyond all of them, those tell how time grows that grew to the next one by what has grown on from there.
    """
    nearest: dict[float, tuple[float, float, ShapeClass, Floats]] = {}
    pairs = zip(*(part.tolist() for part in _grown([one for one, _ in measured], wanted)), strict=True)
    for (one, times), (grew, unlike) in zip(measured, pairs, strict=True):
        apart = abs(one.rows - wanted.rows), unlike
        if grew not in nearest or apart < nearest[grew][:2]:
            nearest[grew] = *apart, one, times
    points = [(-math.log(grew), *nearest[grew][2:]) for grew in sorted(nearest, reverse=True)]
    beyond = not points[0][0] <= 0.0 <= points[-1][0]  # the class itself is at 0
    if beyond:
        end_at, end, _ = points[-1] if points[-1][0] < 0.0 else points[0]
        points = [p for p in points if _leads(p[1], end, math.exp(end_at - p[0]))]
    at, times = np.array([p[0] for p in points]), np.log(np.maximum([p[2] for p in points], 1e-12))
    if len(at) == 1:
        found: Floats = np.exp(times[0] - at[0])
        return found
    n = int(np.clip(np.searchsorted(at, 0.0), 1, len(at) - 1))
    slope = (times[n] - times[n - 1]) / (at[n] - at[n - 1])
    if beyond:
        slope = np.clip(slope, 0.0, STEEPEST)
    here = n if at[n] < 0.0 else n - 1
    found = np.exp(times[here] - slope * at[here])
    return found


def _leads(one: ShapeClass, other: ShapeClass, grew: float) -> bool:
    """Whether it grew so from one to the other, or shrank, and no input did the reverse."""
    pairs = [*zip(one.sizes, other.sizes, strict=False)]
    one_way = all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)
    return one_way and math.isclose(grown([one], other)[0], grew, rel_tol=0.05)


def floor_of(size: int) -> int:
    """The fewest elements of an input in the class of this size."""
    at = round(STEPS * math.log2(max(size, 1)))
    return max(math.ceil(math.exp2((at - 0.5) / STEPS)), 1)


def _doublings(count: int) -> int:
    return max(count - 1, 0).bit_length()
