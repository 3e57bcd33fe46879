"""What a run costs a device beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

LEARN = 0.005  # weight of a new measurement; single ones may be a hundred times the mean
LONGEST_S = 0.1


class Overheads:
    """``turn_s``: what a device loses when it goes from one request to another that waits, running mean [s].

    Until the run begins, once device and request are free, and what it takes beside its blocks. A hold counts
    as lost time too, unless it is longer than a tenth of a second. Such gaps, and those of a device that was
    away, are left out.
    """

    def __init__(self) -> None:
        self.turn_s = 0.0
        self._turns = 0

    def turned(self, could_s: float, began_s: float, beside_s: float = 0.0) -> None:
        """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
        lost_s = max(0.0, began_s - could_s) + max(0.0, beside_s)
        if lost_s <= LONGEST_S:
            self._turns += 1
            self.turn_s += max(LEARN, 1.0 / self._turns) * (lost_s - self.turn_s)
