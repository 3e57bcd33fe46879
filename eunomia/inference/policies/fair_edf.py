"""Earliest deadline first while all that is due soon fits, weighted fair shares once it does not; our own.

Due soon: not hopeless, deadline within FAR_S. All of it fits when, served by deadline on all accelerators, each ends in
time: sum of work_best_s up to it <= accelerators (deadline - now). Then nobody has to lose, and the order is EDF, with
the rest behind it by start tags, least first. Otherwise somebody asks for more than there is, and the order is that of
``weighted_fair``: start tags for all, so that who asks for less than its share is served before who asks for more,
whatever deadlines either claims. Tags are charged in both orders.

Does badly: where everybody overloads the machine a little, large requests of light tenants get shares and not their
deadlines (``edf+f`` meets more of them); it looks at time alone, not at promised rates (``triage``, ``pledge``).
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, tier, with_gate
from eunomia.inference.policies.compiled import Compiled
from eunomia.inference.policies.elsewhere import VIRTUAL, charge_tags
from eunomia.inference.policies.weighted_fair import before, fastest_idle, place_of, tag_of, unserved

FAR_S = 1.0  # else whoever claims some day as its deadline comes before those who claim none


@jitted
def _soon(job: Ready, system: System) -> bool:
    return tier(job, system) == 0 and job.deadline_s - system.now_s <= FAR_S


@jitted
def _fits(ready: Rows[Ready], accelerators: Rows[Accelerator], system: System) -> bool:
    """Whether all that is due soon would end in time, served by deadline."""
    due = np.full(len(ready), np.inf)
    for i in range(len(ready)):
        if _soon(ready[i], system):
            due[i] = ready[i].deadline_s
    work = 0.0
    for i in np.argsort(due):
        if due[i] == np.inf:
            return True
        work += ready[i].work_best_s
        if work > len(accelerators) * (due[i] - system.now_s):
            return False
    return True


def _fair_edf(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    memory = system.memory
    if is_shut(system):
        return 0
    calm, rest = _fits(ready, accelerators, system), unserved(ready)
    best, best_s, best_late, best_key = -1, -1, 0, 0.0
    for i in range(len(ready)):
        s = fastest_idle(i, latency_s, accelerators)
        if s < 0:
            continue
        late = tier(ready[i], system)
        key = -np.inf if calm and _soon(ready[i], system) else tag_of(ready[i], memory, rest)
        if best < 0 or before(late, key, ready[i], best_late, best_key, ready[best]):
            best, best_s, best_late, best_key = i, s, late, key
    if best < 0:
        return 0
    job = ready[best]
    tag, place = tag_of(job, memory, rest), place_of(job)
    if job.layers_done == 0:
        memory[place] = max(memory[VIRTUAL], memory[place]) + job.work_best_s / job.weight
    memory[VIRTUAL] = max(memory[VIRTUAL], tag)
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def fair_edf(gate: float = math.inf) -> Compiled:
    """Earliest deadline while all that is due soon fits, shares by weight once it does not."""
    return Compiled(
        _fair_edf,
        gated_name("fair_edf", gate),
        with_gate(gate),
        starts_alone=math.isinf(gate),
        charge_elsewhere=charge_tags,
    )
