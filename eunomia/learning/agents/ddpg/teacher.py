"""What the actor is cloned from: feasible earliest deadline first, each on the accelerator of its earliest finish."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOP, FALL, FLOOR = (
    1.2,
    0.85,
    -0.3,
)  # priority of the k-th in order: FLOOR + TOP FALL^k, all above the hold of -0.5
CHOSEN, OTHER = 0.8, -0.4  # scores


@jitted
def teach(ready: Record, order: Ints, latency_s: Floats, accelerators: Record, actions: Floats) -> None:
    """Fill ``actions`` (n, 1 + S) for sub-jobs in ``order`` (by deadline): feasible ones first, then hopeless ones.

    Finish = time until free + c, ties to the least index. What starts at once makes its accelerator busy for the
    rest; what
    waits reserves nothing, as in the rule ``edf+f+eft``, which at every event this is.
    """
    lanes = len(accelerators)
    free_s = np.empty(lanes)
    for s in range(lanes):
        free_s[s] = accelerators[s].free_in_s
    rank = 0
    for late in range(2):
        for j in range(len(order)):
            i = order[j]
            if ready[i].late != late:
                continue
            best, finish_s = 0, math.inf
            for s in range(lanes):
                if free_s[s] + latency_s[i, s] < finish_s:
                    best, finish_s = s, free_s[s] + latency_s[i, s]
            if free_s[best] == 0.0:
                free_s[best] = finish_s
            actions[j, 0] = FLOOR + TOP * FALL**rank
            actions[j, 1:] = OTHER
            actions[j, 1 + best] = CHOSEN
            rank += 1
