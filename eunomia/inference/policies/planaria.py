"""Planaria's score on accelerators that cannot be split: priority over slack, hopeless requests last.

Source: Ghodrati et al., "Planaria: Dynamic Architecture Fission for Spatial Multi-Tenant Acceleration of Deep
Neural Networks", MICRO 2020; code: he-actlab/planaria.code.

score = priority / (deadline - now) [1/s] while the deadline can be met (deadline - now >= remaining best-case
critical path); -priority / remaining best-case work otherwise. Greatest score first.

Does badly: priorities override urgency by their ratio. A relaxed request of priority 9 goes before an urgent
one of priority 1 with an eighth of its slack. No notion of work left among those on time.

Deviations: (1) no fission: the number of sub-arrays that a task needs is 1 throughout, and spare ones cannot
be shared out; only the score carries over to fixed accelerators; (2) evaluated at every decision, not at
arrivals and completions of networks alone.
"""

from __future__ import annotations

import math

from eunomia.contract.rows import Ready, System
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order


def planaria_key(ready: Ready, system: System) -> float:
    """Greatest priority / slack first; requests that cannot make it last, the least priority / work among them first.

    Planaria's score (MICRO 2020); dynamic.
    """
    slack_s = ready.deadline_s - system.now_s
    if slack_s < ready.path_best_s:
        return ready.priority / ready.work_best_s
    return -ready.priority / slack_s


PLANARIA = Order("planaria", planaria_key, dynamic=True)


def planaria(place: str = "any_idle", gate: float = math.inf) -> Greedy:
    """Priority over slack, hopeless requests last (Planaria, MICRO 2020: the score alone)."""
    return Greedy(PLANARIA, place, feasible=True, gate=gate)
