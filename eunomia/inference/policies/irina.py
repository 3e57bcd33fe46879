"""Irina: of all that could start now, what promises the least sum of completion times.

Source: Wu, Xu and Wang, "Irina: Accelerating DNN Inference with Efficient Online Scheduling", APNet 2020 (inspired by:
the algorithm is unpublished). ``eunomia.sharing.queueing`` has the whole discipline, on a simulated device.

On one accelerator the least sum is reached by the least seconds per task first: rem for a request that has begun. It is
rem (1 + marginal (b - 1)) / b for b requests of one tenant and network that could share a batch. The choice is made
anew at every boundary between layers (preemption), and never waits for a batch to fill. A request that has waited
for ``patience_s`` comes before all, oldest first, when a request has ended. Each goes to the fastest idle accelerator.

Does badly: long requests starve under overload, unless patience bounds it; blind to deadlines; where ``marginal``, what
one more task adds to a batch, is not the networks' own.

Deviations: (1) a start on an idle accelerator beside busy ones, which is what stacking would be, is always taken: no
device of ours runs two tasks at once; (2) the server fills batches, at most its ``max_batch``, by deadline; (3) a batch
that has begun counts as one task, for a View does not tell how many it holds; (4) hopeless requests come after all
others where ``late`` is ``last``; (5) with several accelerators no sum is estimated: the order is that of one.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Ready, Rows, System
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, tier, with_gate
from eunomia.inference.policies.compiled import Compiled
from eunomia.inference.policies.weighted_fair import fastest_idle

PATIENCE, BATCH, MARGINAL = range(3)  # parameters


@jitted
def _fresh(ready: Rows[Ready]) -> Ints:
    """(pairs,) requests of each tenant and network that have not begun."""
    last = 0
    for i in range(len(ready)):
        last = max(last, ready[i].pair)
    found = np.zeros(last + 1, np.int64)
    for i in range(len(ready)):
        if ready[i].layers_done == 0:
            found[ready[i].pair] += 1
    return found


@jitted
def _per_task(job: Ready, fresh: Ints, system: System) -> float:
    """Seconds of the accelerator per task that they end."""
    together = 1.0
    if job.layers_done == 0:
        together = min(float(fresh[job.pair]), system.parameters[BATCH])
    return job.work_best_s * (1.0 + system.parameters[MARGINAL] * (together - 1.0)) / together


@jitted
def _unfinished(ready: Rows[Ready], accelerators: Rows[Accelerator]) -> Floats:
    """(accelerators,) 1 where what ran last has more to run."""
    found = np.zeros(len(accelerators))
    for i in range(len(ready)):
        for s in range(len(accelerators)):
            if ready[i].request == accelerators[s].last_request and ready[i].layers_done > 0:
                found[s] = 1.0
    return found


@jitted
def _rank(job: Ready, at: Accelerator, unfinished: float, per_task: float, system: System) -> Floats:
    """Least first: hopeless last; out of patience by arrival; then seconds per task, who ran before his equals."""
    impatient = unfinished == 0.0 and system.now_s - job.arrival_s >= system.parameters[PATIENCE]
    key = job.arrival_s if impatient else per_task
    stays = 0.0 if job.request == at.last_request and job.layers_done > 0 else 1.0
    return np.array([float(tier(job, system)), 0.0 if impatient else 1.0, key, stays, float(job.sequence)])


@jitted
def _precedes(rank: Floats, best: Floats) -> bool:
    for n in range(len(rank)):
        if rank[n] != best[n]:
            return bool(rank[n] < best[n])
    return False


def _irina(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    fresh, unfinished = _fresh(ready), _unfinished(ready, accelerators)
    best, best_s, best_rank = -1, -1, np.zeros(5)
    for i in range(len(ready)):
        s = fastest_idle(i, latency_s, accelerators)
        if s < 0:
            continue
        rank = _rank(ready[i], accelerators[s], unfinished[s], _per_task(ready[i], fresh, system), system)
        if best < 0 or _precedes(rank, best_rank):
            best, best_s, best_rank = i, s, rank
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def irina(
    patience_s: float = math.inf, batch: int = 1, marginal: float = 0.5, gate: float = math.inf
) -> Compiled:
    """Least seconds per task first, batches counted, preempted at layers (after Irina, APNet 2020). Blind to deadlines.

    ``batch``: the server's ``max_batch``; ``marginal``: what one more task adds to a batch, 1 = its whole time.
    Raises PolicyError.
    """
    if not patience_s > 0.0:
        raise PolicyError(f"patience_s is {patience_s}; it must be positive, or be left out")
    if batch < 1 or not 0.0 <= marginal <= 1.0:
        raise PolicyError(
            f"batch is {batch}, marginal {marginal}; a batch has at least 1 task, and one more adds 0 to 1 of its time"
        )
    parameters = with_gate(gate, float(patience_s), float(batch), float(marginal))
    return Compiled(_irina, gated_name("irina", gate), parameters, starts_alone=math.isinf(gate))
