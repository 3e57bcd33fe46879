"""Times of another machine's monotonic clock, on this machine's."""

from __future__ import annotations

import math

from eunomia.serving.devices.messages import Message


class Clocks:
    """How far the clocks differ, by Cristian's bounds (1989).

    An order leaves here before it begins there, and ends there before its answer is here: each run bounds the
    difference from both sides, and the closest bounds hold.
    """

    def __init__(self) -> None:
        self._least_s, self._most_s, self._free_s = -math.inf, math.inf, -math.inf

    def set_here(self, message: Message, left_s: float, back_s: float) -> None:
        """Times of a run by this clock. Its span takes in the way there and back, as far as the device had no other."""
        began_s, ended_s = message["span_s"]
        least_s, most_s = max(self._least_s, left_s - began_s), min(self._most_s, back_s - ended_s)
        if least_s > most_s:  # one of the clocks has drifted: only the latest run counts
            least_s, most_s = left_s - began_s, back_s - ended_s
        self._least_s, self._most_s = least_s, most_s
        first_s = max(left_s, self._free_s)
        self._free_s = back_s
        message["span_s"] = [first_s, back_s]
        if "ends_s" in message:
            apart_s = (least_s + most_s) / 2.0
            message["ends_s"] = [t + apart_s for t in message["ends_s"]]
