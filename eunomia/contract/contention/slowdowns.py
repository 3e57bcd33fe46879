"""By how much networks that run side by side slow each other, measured or predicted: what ``matrix`` reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

Three = tuple[int, int, int, float]


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """``pairs[i][j]``: time of network i beside one of network j over its time alone.

    ``threes``: (i, j, k, slowdown of i beside j and k), where that is known; elsewhere, and with more neighbours,
    slowdowns multiply. Raises ConfigError for a table that is not square, or a slowdown that is not positive.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[float, ...], ...]
    threes: tuple[Three, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.names)
        if len(self.pairs) != count or any(len(row) != count for row in self.pairs):
            raise ConfigError(f"{count} networks need {count} x {count} slowdowns of pairs")
        known = [slow for row in self.pairs for slow in row] + [three[3] for three in self.threes]
        for slow in known:
            if not (math.isfinite(slow) and slow > 0.0):
                raise ConfigError(
                    f"a slowdown is {slow}; it must be positive: time beside others over time alone"
                )

    def of(self, names: Sequence[str]) -> Slowdowns:
        """For these networks in this order. Raises ConfigError for one that the table lacks."""
        for name in names:
            if name not in self.names:
                raise ConfigError(
                    f"the table of slowdowns has no network '{name}'; it has: {', '.join(self.names)}"
                )
        at = [self.names.index(name) for name in names]
        place = {old: new for new, old in enumerate(at)}
        pairs = tuple(tuple(self.pairs[i][j] for j in at) for i in at)
        kept = [three for three in self.threes if all(old in place for old in three[:3])]
        threes = tuple((place[i], place[j], place[k], slow) for i, j, k, slow in kept)
        return Slowdowns(tuple(names), pairs, threes)

    def beside(self, target: int, others: Sequence[int]) -> float:
        """Slowdown of one network beside these others, never below 1."""
        slow = 1.0
        for other in others:
            slow *= self.pairs[target][other]
        correction = {(i, *sorted((j, k))): known for i, j, k, known in self.threes}
        for j, k in combinations(others, 2):
            known = correction.get((target, *sorted((j, k))))
            if known is not None:
                slow *= known / (self.pairs[target][j] * self.pairs[target][k])
        return max(1.0, slow)

    def factors(self) -> Floats:
        """For compiled code: s(i, j) at i n + j; then, if any is known, what three add at n n + (i n + j) n + k."""
        count, pairs = len(self.names), np.array(self.pairs, np.float64)
        if not self.threes:
            return pairs.ravel()
        added = np.ones((count, count, count))
        for i, j, k, slow in self.threes:
            added[i, j, k] = added[i, k, j] = slow / (pairs[i, j] * pairs[i, k])
        return np.concatenate([pairs.ravel(), added.ravel()])
