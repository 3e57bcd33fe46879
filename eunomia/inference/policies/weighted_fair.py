"""Weighted fair sharing between tenants, by start tags of requests.

Source: Goyal, Vin, Cheng, "Start-time Fair Queueing", IEEE/ACM Transactions on Networking 1997. Packets are
requests, their length is work in seconds, and preemption happens between layers.

T(t) = finish tag of tenant t [s of work per unit of weight], V = tag of the last start. When a request begins,
T(t) = max(V, T(t)) + work / weight, work = its best-case time [s]. Tag of a tenant: T(t) - remaining work of its begun
requests / weight, what it was charged less what it has not received; max(V, T(t)) when none has begun. Least
tag first; inside a tenant by deadline, with late = "last" hopeless requests after its others: a tenant's own lateness
never hands its share to a flood. Each goes to the idle accelerator that is fastest for it.

A tenant that needs less than its share waits for at most one block and its equals, whatever the others send.
Unclaimed service goes to tenants with waiting requests. Deadlines order requests inside a tenant alone.

Does badly: deadlines across tenants (a tenant with long ones gets its share although it could wait); many
tenants below their share at once are served in turn, not by urgency; estimates that are wrong for
one tenant are a gift to it.

Deviations: (1) work is charged when a request begins, by estimate, and a request that is dropped after it has begun
stays charged; (2) there are 62 tags: tenants beyond share them, by number modulo 62.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Numbers, Ready, Rows
from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, tier, with_gate
from eunomia.inference.policies.compiled import Compiled
from eunomia.inference.policies.elsewhere import FIRST, TAGS, VIRTUAL, charge_tags


@jitted
def place_of(job: Ready) -> int:
    """Where a tenant's tag stands in memory."""
    return FIRST + job.tenant % TAGS


@jitted
def unserved(ready: Rows[Ready]) -> Floats:
    """Work that tenants were charged and have not received, per unit of weight; -1 = nothing has begun."""
    rest = np.full(FIRST + TAGS, -1.0)
    for i in range(len(ready)):
        job = ready[i]
        if job.layers_done > 0:
            place = place_of(job)
            rest[place] = max(rest[place], 0.0) + job.work_best_s / job.weight
    return rest


@jitted
def tag_of(job: Ready, memory: Numbers, rest: Numbers) -> float:
    """The start tag of a request's tenant; ``rest``: of ``unserved``."""
    place = place_of(job)
    if rest[place] >= 0.0:
        return memory[place] - rest[place]
    return max(memory[VIRTUAL], memory[place])


@jitted
def before(late: int, tag: float, job: Ready, best_late: int, best_tag: float, best: Ready) -> bool:
    """Least tag; inside a tenant hopeless last, then earliest deadline, then longest in the queue."""
    if tag != best_tag:
        return tag < best_tag
    if late != best_late:
        return late < best_late
    if job.deadline_s != best.deadline_s:
        return job.deadline_s < best.deadline_s
    return job.sequence < best.sequence


@jitted
def fastest_idle(i: int, latency_s: Floats, accelerators: Rows[Accelerator]) -> int:
    """The idle accelerator on which row i takes least time; -1 = none."""
    best = -1
    for s in range(len(accelerators)):
        able = accelerators[s].request < 0 and latency_s[i, s] < np.inf
        if able and (best < 0 or latency_s[i, s] < latency_s[i, best]):
            best = s
    return best


def _weighted_fair(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    memory = system.memory
    if is_shut(system):
        return 0
    rest = unserved(ready)
    best, best_s, best_late, best_tag = -1, -1, 0, 0.0
    for i in range(len(ready)):
        s = fastest_idle(i, latency_s, accelerators)
        if s < 0:
            continue
        late, tag = tier(ready[i], system), tag_of(ready[i], memory, rest)
        if best < 0 or before(late, tag, ready[i], best_late, best_tag, ready[best]):
            best, best_s, best_late, best_tag = i, s, late, tag
    if best < 0:
        return 0
    job = ready[best]
    if job.layers_done == 0:
        memory[place_of(job)] = max(memory[VIRTUAL], memory[place_of(job)]) + job.work_best_s / job.weight
    memory[VIRTUAL] = max(memory[VIRTUAL], best_tag)
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def weighted_fair(gate: float = math.inf) -> Compiled:
    """Shares of device time by weight between tenants, earliest deadline inside a tenant (start-time fair queueing)."""
    return Compiled(
        _weighted_fair,
        gated_name("weighted_fair", gate),
        with_gate(gate),
        starts_alone=math.isinf(gate),
        charge_elsewhere=charge_tags,
    )
