"""What serving costs beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

LEARN = 0.002  # weight of a new measurement; single ones may be a hundred times the mean
LONGEST_S = 0.1


class Overheads:
    """Running means, in seconds.

    ``reach_s``: from the acceptance of a request until the policy has seen it and devices have been told: what runs
    meanwhile may pass its next boundary. ``turn_s``: what a device loses with every run that follows another: until it
    begins, once device and request are free, and what it takes beside its blocks. ``answer_s``: from a run's end to
    the answer.

    A policy that holds a device back on purpose counts as lost time too, unless it holds it for longer than a tenth
    of a second: such gaps, and those of a device that was away, are left out.
    """

    def __init__(self) -> None:
        self.reach_s = self.turn_s = self.answer_s = 0.0
        self._counts = {"reach_s": 0, "turn_s": 0, "answer_s": 0}

    def reached(self, arrival_s: float, now_s: float) -> None:
        """Devices know of a request that was accepted then."""
        self._learn("reach_s", now_s - arrival_s)

    def turned(self, could_s: float, began_s: float, beside_s: float = 0.0) -> None:
        """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
        lost_s = max(0.0, began_s - could_s) + max(0.0, beside_s)
        if lost_s <= LONGEST_S:
            self._learn("turn_s", lost_s)

    def answered(self, ended_s: float, now_s: float) -> None:
        """The answer of a request whose last block ended then is being handed out."""
        self._learn("answer_s", now_s - ended_s)

    def _learn(self, name: str, seen_s: float) -> None:
        self._counts[name] += 1
        known_s = getattr(self, name)
        setattr(self, name, known_s + max(LEARN, 1.0 / self._counts[name]) * (max(0.0, seen_s) - known_s))
