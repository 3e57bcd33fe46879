"""Dysta: shortest remaining time, corrected a little for slack and for waiting.

Source: Fan et al., "Sparse-DySta: Sparsity-Aware Dynamic and Static Scheduling for Sparse Multi-DNN
Workloads", MICRO 2023; code: SamsungLabs/Sparse-Multi-DNN-Scheduling.

score = rem + beta (max(0, slack - rem) + unit * waiting / iso / n), least first; rem = remaining best-case
work [s], slack = deadline - now [s], waiting = now - arrival [s], iso = isolated best-case time [s], n =
requests in the system, beta = 0.01.

Does badly: starves long networks under load, as every shortest-first rule; beta hardly lets the deadline
speak.

Deviations: (1) waiting / iso is a bare number that the code adds to times; here it is counted in ``unit_s``,
1 ms by default; (2) no sparsity: the predictor of remaining time is the engine's estimate; (3) no deadline
counts as slack without end, so that such requests go last; (4) beyond one accelerator it is an order with a
placement rule.
"""

from __future__ import annotations

import math

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import PolicyError
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order


def dysta_key(ready: Ready, system: System) -> float:
    """Least remaining work + beta x (spare slack + waiting penalty) first (Dysta, MICRO 2023); dynamic."""
    beta, unit_s = system.parameters[0], system.parameters[1]
    spare_s = max(0.0, ready.deadline_s - system.now_s - ready.work_best_s)
    waited = (system.now_s - ready.arrival_s) / ready.iso_best_s / system.live
    return ready.work_best_s + beta * (spare_s + unit_s * waited)


def dysta_order(beta: float = 0.01, unit_s: float = 1e-3) -> Order:
    """Dysta's score with its constants. Raises PolicyError."""
    if not (beta > 0.0 and unit_s >= 0.0):
        raise PolicyError(
            f"Dysta's beta is {beta} and unit_s {unit_s}; beta must be positive, unit_s not negative"
        )
    return Order("dysta", dysta_key, dynamic=True, parameters=(beta, unit_s))


DYSTA = dysta_order()


def dysta(
    beta: float = 0.01, unit_s: float = 1e-3, place: str = "any_idle", gate: float = math.inf
) -> Greedy:
    """Remaining work + beta x (spare slack + waiting penalty) (Dysta, MICRO 2023)."""
    return Greedy(dysta_order(beta, unit_s), place, gate=gate)
