"""Herald, online: each layer on the accelerator that it likes best, unless that one is too far behind.

Source: Kwon et al., "Heterogeneous Dataflow Accelerators for Multi-DNN Workloads", HPCA 2021, arXiv
1909.07437.

Sub-jobs in order. For each, accelerators by increasing cost (latency [s], energy [J] or their product); the
first one with finish - now <= (1 + theta) (best finish - now) is its place. finish - now = (estimated time
left of the running layer + c) * max(1, D / B) [s]. If that one is busy the sub-job is held and the next is
considered. theta = 0 is ``eft``; a large theta is ``pref``.

Does badly: blind to deadlines; held layers wait for an accelerator that later layers may take first.

Deviations: (1) the published scheduler plans offline, balancing the cumulative time of accelerators and
filling gaps afterwards; this is the online form, whose bound is on each layer's finish; (2) no memory-fit
check: the engine has no capacity limit; (3) depth-first = requests by arrival, breadth-first = sub-jobs by
the order in which they became ready; (4) hopeless requests behind all others where ``late`` is ``last``.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Rows
from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, tier, with_gate
from eunomia.inference.policies.compiled import Compiled

METRICS = ("latency", "energy", "edp")


@jitted
def _cost(latency_s: float, energy_j: float, metric: int) -> float:
    if metric == 0:
        return latency_s
    return energy_j if metric == 1 else latency_s * energy_j


@jitted
def _place(
    i: int, latency_s: Floats, energy: Floats, accelerators: Rows[Accelerator], theta: float, metric: int
) -> int:
    """The accelerator of least cost among those that finish soon enough; idle ones win ties. -1 = it is busy.

    All finishes are inflated by the same max(1, D / B), which the comparison does not need.
    """
    soonest = np.inf
    for s in range(len(accelerators)):
        soonest = min(soonest, accelerators[s].free_in_s + latency_s[i, s])
    chosen, idle, least = -1, False, np.inf
    for s in range(len(accelerators)):
        finish_s = accelerators[s].free_in_s + latency_s[i, s]
        if finish_s == np.inf or finish_s > (1.0 + theta) * soonest:
            continue
        cost, is_idle = _cost(latency_s[i, s], energy[i, s], metric), accelerators[s].request < 0
        if chosen < 0 or cost < least or (cost == least and is_idle and not idle):
            chosen, idle, least = s, is_idle, cost
    return chosen if idle else -1


def _herald(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    theta, metric = system.parameters[0], int(system.parameters[1])
    best, best_late, best_key, best_s = -1, 0, 0.0, -1
    for i in range(len(ready)):
        late = tier(ready[i], system)
        key = 0.0 if system.parameters[2] == 1.0 else ready[i].arrival_s
        if best >= 0 and not precedes(late, key, ready[i], best_late, best_key, ready[best]):
            continue
        s = _place(i, latency_s, energy, accelerators, theta, metric)
        if s >= 0:
            best, best_late, best_key, best_s = i, late, key, s
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def herald(
    theta: float = 0.5, metric: str = "latency", breadth_first: bool = False, gate: float = math.inf
) -> Compiled:
    """Preferred accelerator if it finishes within (1 + theta) of the earliest finish (Herald, HPCA 2021).

    ``metric`` of preference: latency, energy or edp. Raises PolicyError, UnknownNameError.
    """
    if not theta >= 0.0:
        raise PolicyError(f"Herald's theta is {theta}; it must be at least 0 (0 to 1 is usual)")
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    constants = theta, float(METRICS.index(metric)), float(breadth_first)
    return Compiled(_herald, gated_name("herald", gate), with_gate(gate, *constants))
