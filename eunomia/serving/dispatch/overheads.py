"""What serving costs beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

LEARN = 0.02  # weight of a new measurement


class Overheads:
    """Running means. ``turn_s``: time a device loses before a run; ``answer_s``: from a run's end to the answer.

    A run could have begun when its device was free and its request had been chosen (had arrived, if it was chosen on
    arrival); what passed until it began is lost to decision, messages and waking up.
    """

    def __init__(self) -> None:
        self.turn_s = self.answer_s = 0.0
        self._turns = self._answers = 0

    def turned(self, free_s: float, chosen_s: float, began_s: float) -> None:
        """A run began."""
        self._turns += 1
        lost_s = max(0.0, began_s - max(free_s, chosen_s))
        self.turn_s += max(LEARN, 1.0 / self._turns) * (lost_s - self.turn_s)

    def answered(self, ended_s: float, now_s: float) -> None:
        """The answer of a request whose last block ended then is being handed out."""
        self._answers += 1
        self.answer_s += max(LEARN, 1.0 / self._answers) * (max(0.0, now_s - ended_s) - self.answer_s)
