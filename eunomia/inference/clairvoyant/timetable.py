"""A schedule written out: which layer starts when, and where. The engine replays it like any policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eunomia.contract.view import Assign, View

EARLY_S = 1e-9  # clocks that sum in another order agree to this
Entry = tuple[int, float]  # accelerator, start [s]


@dataclass(frozen=True, eq=False)
class Timetable:
    """Start each layer on its accelerator at the first decision at or after its time; hold everything else.

    ``entries``: (request, layer) -> accelerator and start. What is not entered runs after ``until_s``, when all of
    the schedule is over. Where layers take other times than planned, a start waits for its accelerator, and
    deadlines may be missed.
    """

    entries: Mapping[tuple[int, int], Entry]
    until_s: float
    name: str = "timetable"

    def __call__(self, view: View) -> list[Assign]:
        """All starts that are due."""
        idle, answer = set(view.idle.tolist()), []
        now_s = view.now_s + EARLY_S
        for i, job in enumerate(view):
            s, start_s = self.entries.get((int(job["request"]), int(job["layer"])), (-1, self.until_s))
            if start_s > now_s:
                continue
            if s < 0:
                s = min(idle, key=lambda lane: (view.latency_s[i, lane], lane), default=-1)
            if s in idle and np.isfinite(view.latency_s[i, s]):
                idle.discard(s)
                answer.append(view.assign(i, s))
        return answer
