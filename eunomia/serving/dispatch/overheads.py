"""What serving costs beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

LEARN = 0.02  # weight of a new measurement
LONGEST_S = 0.1


class Overheads:
    """Running means. ``turn_s``: time a device loses before a run; ``answer_s``: from a run's end to the answer.

    A run could have begun when its device was free and its request was ready; what passed until it began is lost to
    decision, messages and waking up. A policy that holds a device back on purpose counts as lost time too, unless it
    holds it for longer than a tenth of a second: such gaps, and those of a device that was away, are left out.
    """

    def __init__(self) -> None:
        self.turn_s = self.answer_s = 0.0
        self._turns = self._answers = 0

    def turned(self, could_s: float, began_s: float) -> None:
        """A run began that could have begun at ``could_s``."""
        lost_s = max(0.0, began_s - could_s)
        if lost_s > LONGEST_S:
            return
        self._turns += 1
        self.turn_s += max(LEARN, 1.0 / self._turns) * (lost_s - self.turn_s)

    def answered(self, ended_s: float, now_s: float) -> None:
        """The answer of a request whose last block ended then is being handed out."""
        self._answers += 1
        self.answer_s += max(LEARN, 1.0 / self._answers) * (max(0.0, now_s - ended_s) - self.answer_s)
