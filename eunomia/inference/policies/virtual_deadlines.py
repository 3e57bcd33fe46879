"""Virtual deadlines: each layer gets its share of the request's time budget, and the fastest accelerator that
keeps it.

Source: after Terastal, arXiv 2606.06818, RTCSA 2026.

vd = arrival + (deadline - arrival) * (1 - (path - own) / iso), where own = weight of the waiting layer, path
= the heaviest path of weights from it (included) to the end, iso = the sum over the network [s]; weight = (1
- mix) x mean time over types + mix x best time. For a chain this is the published cumulative share: the last
layer's vd is the deadline. Sub-jobs by vd, hopeless ones last. Place: the accelerator of least c among those
with now + (free + c) * max(1, D / B) <= vd; if there is none, the earliest finish (``eft``). A busy one =
hold.

Does badly: overload, where first layers of new requests go before the last layers of old ones until all are
late together; budgets that contention has already eaten, as shares are fixed when the request arrives. With
one layer per network it is plain earliest deadline first.

Deviations: (1) no variants of layers, from which the published gains come in part; (2) on networks with
branches the share follows the heaviest path left, so that layers off it get later virtual deadlines.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.core.arrays import Floats, Records
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import EFT
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, with_gate
from eunomia.inference.policies.compiled import Compiled


@jitted
def _own_s(i: int, latency_s: Floats, accelerators: Rows[Accelerator], mix: float) -> float:
    """Weight of a layer: every type counts once."""
    total_s, kinds, best_s = 0.0, 0, np.inf
    for s in range(len(accelerators)):
        first = True
        for other in range(s):
            first = first and accelerators[other].type != accelerators[s].type
        if first and latency_s[i, s] < np.inf:
            total_s, kinds, best_s = total_s + latency_s[i, s], kinds + 1, min(best_s, latency_s[i, s])
    return (1.0 - mix) * total_s / kinds + mix * best_s


@jitted
def _virtual_deadline_s(job: Ready, own_s: float, mix: float) -> float:
    if job.deadline_s == np.inf:
        return np.inf
    path_s = (1.0 - mix) * job.path_mean_s + mix * job.path_best_s
    iso_s = (1.0 - mix) * job.iso_mean_s + mix * job.iso_best_s
    return job.arrival_s + (job.deadline_s - job.arrival_s) * (1.0 - (path_s - own_s) / iso_s)


@jitted
def _place(
    i: int, due_s: float, latency_s: Floats, demand: Floats, accelerators: Records, system: System
) -> int:
    """The fastest accelerator that finishes by then, else the earliest finish; -1 = it is busy."""
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    chosen, idle, least = -1, False, np.inf
    for s in range(len(accelerators)):
        if system.now_s + (accelerators[s].free_in_s + latency_s[i, s]) * slow > due_s:
            continue
        is_idle = accelerators[s].request < 0
        if latency_s[i, s] < least or (latency_s[i, s] == least and is_idle and not idle):
            chosen, idle, least = s, is_idle, latency_s[i, s]
    if chosen < 0:
        return place_over_view(i, latency_s, demand, accelerators, system, EFT)
    return chosen if idle else -1


def _by_virtual_deadline(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    mix = system.parameters[0]
    best, best_key, best_s = -1, 0.0, -1
    for i in range(len(ready)):
        key = _virtual_deadline_s(ready[i], _own_s(i, latency_s, accelerators, mix), mix)
        if best >= 0 and not precedes(ready[i].late, key, ready[i], ready[best].late, best_key, ready[best]):
            continue
        s = _place(i, key, latency_s, demand, accelerators, system)
        if s >= 0:
            best, best_key, best_s = i, key, s
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def virtual_deadlines(mix: float = 0.0, gate: float = math.inf) -> Compiled:
    """Earliest virtual deadline of the layer, on the fastest accelerator that keeps it (after Terastal)."""
    if not 0.0 <= mix <= 1.0:
        raise PolicyError(f"mix of mean and best times is {mix}; it must lie in [0, 1]")
    return Compiled(_by_virtual_deadline, gated_name("virtual_deadlines", gate), with_gate(gate, mix))
