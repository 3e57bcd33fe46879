"""What the engine does at a tick under a rule of its own, called from Python: every sub-job shown is queued."""

from __future__ import annotations

import numpy as np

from eunomia.contract.rows import CompiledKey
from eunomia.contract.view import Assign, View


def queue_all(key: CompiledKey, view: View, *, tiered: bool, queues: bool) -> list[Assign]:
    """In order of (late if ``tiered``, key, sequence), each to the accelerator of least c'.

    With ``queues`` to that of least free + queued + c', queued growing as it goes. Priorities are -key.
    """
    keys = np.array([float(key(job, view.system)) for job in view.ready])
    late = view.ready["late"] if tiered else np.zeros(len(view))
    free_s, queued_s = view.accelerators["free_in_s"], view.accelerators["queued_s"].copy()
    answers = []
    for i in np.lexsort((view.ready["sequence"], keys, late)).tolist():
        finish_s = view.latency_s[i] + (free_s + queued_s) if queues else view.latency_s[i]
        s = int(np.argmin(finish_s))
        queued_s[s] += view.latency_s[i, s]
        answers.append(view.assign(i, s, -float(keys[i])))
    return answers
