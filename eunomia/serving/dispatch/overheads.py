"""What a run costs a device beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

import math

LEARN = 0.0005  # weight of a new measurement; single ones may be a thousand times the middle one
LONGEST_S = 0.1
LEAST_S = 1e-6  # less is not told from nothing


class Overheads:
    """``turn_s``: what a device loses when it goes from one request to another that waits, running mean [s].

    Until the run begins, once device and request are free, and what it takes beside its blocks. A hold counts
    as lost time too, unless it is longer than a tenth of a second. Such gaps, and those of a device that was
    away, are left out. The mean is that of some 2,000 turns: where the front end shares its core, a turn in thirty
    may lose as much as all others together.
    """

    def __init__(self) -> None:
        self.turn_s = 0.0
        self._log_s = 0.0  # mean of their logarithms
        self._turns = 0

    @property
    def turn_spread(self) -> float:
        """Standard deviation of the logarithm, for a log-normal of this mean and this mean logarithm."""
        return (
            math.sqrt(2.0 * max(0.0, math.log(max(self.turn_s, LEAST_S)) - self._log_s))
            if self._turns
            else 0.0
        )

    def turned(self, could_s: float, began_s: float, beside_s: float = 0.0) -> None:
        """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
        lost_s = max(0.0, began_s - could_s) + max(0.0, beside_s)
        if lost_s <= LONGEST_S:
            self._turns += 1
            weight = max(LEARN, 1.0 / self._turns)
            self.turn_s += weight * (lost_s - self.turn_s)
            self._log_s += weight * (math.log(max(lost_s, LEAST_S)) - self._log_s)
