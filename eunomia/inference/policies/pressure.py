"""Pressure: a linear score of four features, one of which measures whether a request can wait for all shorter ones.

Source: our own; weights found by an evolution strategy (CMA-ES) on a prototype and rounded to its four
strongest features.

score = -0.96 ttd - 6.14 hopeless - 1.34 lr - 2.31 sjf_pressure, greatest first, accelerator by ``eft``, with
    ttd          = clip((deadline - now) / (120 mean layer), -2, 4)
    hopeless     = 1 if the deadline is out of reach
    lr           = 0.5 clip(laxity / (remaining work + mean layer), -2, 3), laxity = deadline - now - critical path
    sjf_pressure = min(3, (work of feasible requests with less remaining work / S) / max(laxity, mean layer / 2))
Times in s, best case; S accelerators; mean layer = isolated time over number of layers, averaged over the waiting
requests. The sign of sjf_pressure means: who would be late if all shorter ones went first is not worth it.

Does badly: its weights come from one family of platforms and loads; targets of tenants are unknown to it.

Deviations: (1) work of other requests is known for those that wait; requests all of whose layers run are not
counted; (2) the prototype's mean layer was that of all networks of the run.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Ready, Rows
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import EFT
from eunomia.inference.kernel.sorting import rows_of, sort_rows
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, tier, with_gate
from eunomia.inference.policies.compiled import Compiled


@jitted
def _in_sequence(ready: Rows[Ready], value: Floats) -> Ints:
    """Rows in order of becoming ready. ``value``: scratch of one number a row, as in what follows."""
    for i in range(len(ready)):
        value[i] = float(ready[i].sequence)
    order: Ints = rows_of(len(ready))
    sort_rows(order, value)
    return order


@jitted
def _representatives(ready: Rows[Ready], value: Floats) -> Flags:
    """(n,) True for one waiting sub-job per request, the one that became ready last."""
    order = _in_sequence(ready, value)
    for i in range(len(ready)):
        value[i] = float(ready[i].request)
    sort_rows(order, value)
    chosen = np.zeros(len(ready), np.bool_)
    for n in range(len(order)):
        last = n == len(order) - 1
        chosen[order[n]] = last or ready[order[n + 1]].request != ready[order[n]].request
    return chosen


@jitted
def _shorter_work_s(ready: Rows[Ready], counted: Flags, value: Floats) -> Floats:
    """(n,) work of feasible requests with less remaining work than each sub-job."""
    order = _in_sequence(ready, value)
    for i in range(len(ready)):
        value[i] = ready[i].work_best_s
    sort_rows(order, value)
    shorter_s = np.zeros(len(ready))
    total_s, below_s = 0.0, 0.0
    for n in range(len(order)):
        i = order[n]
        if n > 0 and ready[i].work_best_s > ready[order[n - 1]].work_best_s:
            below_s = total_s
        shorter_s[i] = below_s
        if counted[i] and ready[i].late == 0:
            total_s += ready[i].work_best_s
    return shorter_s


@jitted
def _mean_layer_s(ready: Rows[Ready], counted: Flags, value: Floats) -> float:
    """Isolated time per layer, averaged over requests in order of sequence."""
    total_s, requests = 0.0, 0
    order = _in_sequence(ready, value)
    for n in range(len(order)):
        i = order[n]
        if counted[i]:
            total_s, requests = total_s + ready[i].iso_best_s / ready[i].layers_total, requests + 1
    return total_s / requests


@jitted
def _score(job: Ready, shorter_s: float, mean_s: float, lanes: int, now_s: float) -> float:
    left_s = job.deadline_s - now_s
    laxity_s = left_s - job.path_best_s
    ttd = min(max(left_s / (120.0 * mean_s), -2.0), 4.0)
    lr = 0.5 * min(max(laxity_s / (job.work_best_s + mean_s), -2.0), 3.0)
    sjf_pressure = min(3.0, shorter_s / lanes / max(laxity_s, 0.5 * mean_s))
    return -0.96 * ttd - 6.14 * job.late - 1.34 * lr - 2.31 * sjf_pressure


def _by_pressure(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system) or len(ready) == 0:
        return 0
    value = np.empty(len(ready))
    counted = _representatives(ready, value)
    shorter_s, mean_s = _shorter_work_s(ready, counted, value), _mean_layer_s(ready, counted, value)
    best, best_late, best_key, best_s = -1, 0, 0.0, -1
    for i in range(len(ready)):
        late = tier(ready[i], system)
        key = -_score(ready[i], shorter_s[i], mean_s, len(accelerators), system.now_s)
        if best >= 0 and not precedes(late, key, ready[i], best_late, best_key, ready[best]):
            continue
        s = place_over_view(i, latency_s, demand, accelerators, system, EFT)
        if s >= 0:
            best, best_late, best_key, best_s = i, late, key, s
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def pressure(gate: float = math.inf) -> Compiled:
    """Four-feature score: time to deadline, hopeless, laxity ratio, pressure of shorter requests; eft."""
    return Compiled(_by_pressure, gated_name("pressure", gate), with_gate(gate))
