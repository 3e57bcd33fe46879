"""AuRORA: urgent requests keep their accelerators, relaxed ones give them back; waiting requests by normalised
waiting.

Source: Kim et al., "AuRORA: Virtualized Accelerator Orchestration for Multi-Tenant Workloads", MICRO 2023;
code: aurora-rocc-tests-ae.

Queue score = (now - arrival) / iso, 0 for a request whose deadline is out of reach; greatest first. Grant =
accelerators that one request may hold at a time: 4 if slack < 1.5 x its time on 4, else 2 if slack < 1.5 x
its time on 2, else 1; 1 for a hopeless one. Time on 4 = remaining critical path, time on 2 = the greater of
that and half of the remaining work (best case, s); slack = deadline - now. Running score = slack / remaining
path: a request that has started and has slack < 1.5 x its remaining path keeps going before all others, least
score first; any other gives its accelerator back to the queue at the layer's end.

Does badly: waiting outweighs urgency until a request has started; chains cannot use more than one
accelerator, so that the grants bind on branching networks alone.

Deviations: (1) accelerators are not gang-scheduled on one layer: a grant limits the parallel branches of a
request; (2) the times on 2 and 4 arrays are bounds from the graph, not measured ones; (3) moves happen at
layer boundaries without AuRORA's own cost of re-mapping (the engine's ``switch_s`` is that); (4) fastest idle
accelerator, as all of AuRORA's are alike.
"""

from __future__ import annotations

import math

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import ANY_IDLE
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, tier, with_gate
from eunomia.inference.policies.compiled import Compiled

URGENT = 1.5  # slack below this multiple of the time needed


@jitted
def _grant(job: Ready, now_s: float) -> int:
    slack_s = job.deadline_s - now_s
    if job.late == 1:
        return 1
    if slack_s < URGENT * job.path_best_s:
        return 4
    return 2 if slack_s < URGENT * max(job.path_best_s, 0.5 * job.work_best_s) else 1


@jitted
def _rank(job: Ready, system: System) -> int:
    """0 = urgent and started, 1 = in the queue, 2 = hopeless where those go last."""
    if tier(job, system) == 1:
        return 2
    slack_s = job.deadline_s - system.now_s
    return 0 if job.layers_done > 0 and job.late == 0 and slack_s < URGENT * job.path_best_s else 1


@jitted
def _key(job: Ready, rank: int, now_s: float) -> float:
    if rank == 0:
        return (job.deadline_s - now_s) / job.path_best_s
    return 0.0 if job.late == 1 else -(now_s - job.arrival_s) / job.iso_best_s


@jitted
def _held(request: int, accelerators: Rows[Accelerator]) -> int:
    held = 0
    for s in range(len(accelerators)):
        if accelerators[s].request == request:
            held += 1
    return held


def _aurora(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    best, best_rank, best_key, best_s = -1, 0, 0.0, -1
    for i in range(len(ready)):
        rank = _rank(ready[i], system)
        key = _key(ready[i], rank, system.now_s)
        if best >= 0 and not precedes(rank, key, ready[i], best_rank, best_key, ready[best]):
            continue
        if _held(ready[i].request, accelerators) >= _grant(ready[i], system.now_s):
            continue
        s = place_over_view(i, latency_s, demand, accelerators, system, ANY_IDLE)
        if s >= 0:
            best, best_rank, best_key, best_s = i, rank, key, s
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def aurora(gate: float = math.inf) -> Compiled:
    """Urgent requests keep their accelerators, others queue by waiting / isolated time (AuRORA, MICRO 2023)."""
    return Compiled(_aurora, gated_name("aurora", gate), with_gate(gate))
