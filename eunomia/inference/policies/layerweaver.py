"""Pairing, after Layerweaver: among equally urgent layers, the one that fills the bandwidth without excess.

Source: Oh et al., "Layerweaver: Maximizing Resource Utilization of Neural Processing Units via Layer-Wise
Scheduling", HPCA 2021; its follow-up Layerweaver+ adds an earliest-deadline mode.

The most urgent sub-job that could start now (earliest deadline, hopeless last, by ``eft``) leads. Equally
urgent are sub-jobs with deadline <= leader's deadline + window x leader's isolated best-case time [s]. Among
them: D + b <= B before D + b > B; of the fitting ones the greatest b (least bandwidth left idle), of the
others the least b; then the earliest deadline. b, D, B in bytes/s, D = demand of running layers. So a
memory-bound layer runs beside compute-bound ones instead of beside its like.

Does badly: where all layers are alike; where b says little about speed (contention ``roofline``,
compute-bound layers); a wide window spends urgency on packing. Without a bandwidth limit it is EDF+f+eft.

Deviations: (1) the published schedulers weave the layers of known networks on one accelerator's two
resources, compute and memory, offline or at request boundaries; here the pair is formed across accelerators,
one start at a time; (2) "equally urgent" is our own window.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import EFT
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, with_gate
from eunomia.inference.policies.compiled import Compiled


@jitted
def _packing(demand: float, system: System) -> float:
    """Bandwidth left idle by a layer that fits; positive infinity is the worst of all.

    Layers that do not fit come after those that do, by their excess, on a scale of B.
    """
    left = system.bandwidth_bytes_s - system.demand_bytes_s - demand
    if left >= 0.0:
        return left
    return system.bandwidth_bytes_s - left


@jitted
def _more_urgent(job: Ready, other: Ready) -> bool:
    return precedes(job.late, job.deadline_s, job, other.late, other.deadline_s, other)


def _pair(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    where = np.empty(len(ready), np.int64)
    leader = -1
    for i in range(len(ready)):
        where[i] = place_over_view(i, latency_s, demand, accelerators, system, EFT)
        if where[i] >= 0 and (leader < 0 or _more_urgent(ready[i], ready[leader])):
            leader = i
    if leader < 0:
        return 0
    until_s = ready[leader].deadline_s + system.parameters[0] * ready[leader].iso_best_s
    best, best_left = leader, _packing(demand[leader, where[leader]], system)
    for i in range(len(ready)):
        if where[i] < 0 or ready[i].late != ready[leader].late or ready[i].deadline_s > until_s:
            continue
        left = _packing(demand[i, where[i]], system)
        if left < best_left or (left == best_left and _more_urgent(ready[i], ready[best])):
            best, best_left = i, left
    answer[0, 0], answer[0, 1] = best, where[best]
    return 1


def layerweaver(window: float = 0.5, gate: float = math.inf) -> Compiled:
    """Earliest deadline, equally urgent layers paired to fill the bandwidth (after HPCA 2021)."""
    if not window >= 0.0:
        raise PolicyError(f"window of equal urgency is {window}; it must be at least 0 (isolated times)")
    return Compiled(_pair, gated_name("layerweaver", gate), with_gate(gate, window))
