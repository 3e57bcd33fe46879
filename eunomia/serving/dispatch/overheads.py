"""What a run costs a device beside the blocks themselves, as the digital twin needs it."""

from __future__ import annotations

from collections.abc import Sequence

LEARN = 0.0005  # weight of a new measurement; single ones may be a thousand times the middle one
LONGEST_S = 0.1
FEW = 50.0  # turns: with so many, a device's own mean counts as much as that of all devices


class Overheads:
    """``turn_s``: what a device loses when it goes from one request to another that waits, running mean [s].

    Until the run begins, once device and request are free, and what it takes beside its blocks. A hold counts
    as lost time too, unless it is longer than a tenth of a second. Such gaps, and those of a device that was
    away, are left out. The mean is that of some 2,000 turns: where the front end shares its core with a device,
    one in thirty may lose as much as all others together.
    """

    def __init__(self) -> None:
        self.turn_s = 0.0
        self.turns = 0

    def turned(self, could_s: float, began_s: float, beside_s: float = 0.0) -> None:
        """A run began that could have begun at ``could_s``, and spent ``beside_s`` not in blocks."""
        lost_s = max(0.0, began_s - could_s) + max(0.0, beside_s)
        if lost_s <= LONGEST_S:
            self.turns += 1
            self.turn_s += max(LEARN, 1.0 / self.turns) * (lost_s - self.turn_s)


def turns_s(devices: Sequence[Overheads]) -> list[float]:
    """What each loses in the mean; the fewer turns it has made, the more it counts as like the others."""
    turns = sum(device.turns for device in devices)
    all_s = sum(device.turns * device.turn_s for device in devices) / max(turns, 1)
    return [(d.turns * d.turn_s + FEW * all_s) / (d.turns + FEW) for d in devices]
