"""Max batch plus timeout, first come, first served: the rule of TF-Serving's batching, as a policy of one's own.

A batch of one tenant and network starts when it holds ``LARGEST`` requests, or when its oldest has waited for
``TIMEOUT_S``. Of those the one with the oldest request is first; what has begun runs to its end.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.view import Assign, View

LARGEST, TIMEOUT_S = 8, 0.01


class Fifo:
    """``wake_s``: when the next timeout passes."""

    name, wake_s = "max batch plus timeout", math.inf

    def __call__(self, view: View) -> list[Assign]:
        """On an idle accelerator, what is full or has waited long enough."""
        self.wake_s, rows, idle = math.inf, view.ready, list(view.idle)
        if not idle or not len(rows):
            return []
        begun = np.flatnonzero(rows["layers_done"] > 0)
        if len(begun):
            return [_start(rows[begun[0]], int(idle[0]))]
        ready = []
        for pair in np.unique(rows["pair"]):
            mine = np.flatnonzero(rows["pair"] == pair)
            first = mine[np.argmin(rows["arrival_s"][mine])]
            waits_s = rows["arrival_s"][first] + TIMEOUT_S - view.system["now_s"]
            if len(mine) >= LARGEST or waits_s <= 0.0:
                ready.append((rows["arrival_s"][first], int(first)))
            else:
                self.wake_s = min(self.wake_s, float(waits_s))
        return [_start(rows[min(ready)[1]], int(idle[0]))] if ready else []


def _start(row: np.void, accelerator: int) -> Assign:
    return Assign(int(row["request"]), int(row["layer"]), accelerator)


fifo = Fifo()
