"""DREAM: the (layer, accelerator) pair of highest MapScore, whose weights are tuned while it runs.

Source: Kim et al., "DREAM: A Dynamic Scheduler for Dynamic Real-time Multi-model ML Workloads", ASPLOS 2023,
arXiv 2212.03414.

MapScore(i, s) = urgency * latency preference + alpha * starvation + beta * (energy preference - switch)
    urgency            = remaining mean work / (deadline - now); 0 once the deadline is out of reach
    latency preference = sum over accelerators of c / c on s; energy preference: the same with e
    starvation         = (now - end of the request's last layer) / mean c of this layer
    switch             = ``switch_cost`` if s ran another request before, else 0
All terms are bare numbers; times in s, energy in J. The highest score among idle accelerators starts.

Tuning: every ``window`` departed requests the cost UXCost is compared with that of the weights in force.
UXCost = miss rate * mean energy over least energy of the layers started. (alpha, beta) walk by pattern
search: one weight times or over 2^step, kept if the cost fell, undone otherwise; after four failures the step
halves (from 2, not below 1/4). A hit is counted when the last layer of a request starts early enough to end
in time. A weight of 0 stays 0.

Frame drop: a frame that will probably miss, now + remaining mean critical path > deadline, is not started
while anything else could use the platform: never, unless every accelerator is idle. With the engine's
``late = "drop"`` it leaves for good once it is hopeless.

Does badly: overload. Urgency is the ratio form of least laxity, which spreads work over all that is about to
be lost; frame drop is the cure. Greedy per pair, it never holds for a faster accelerator; its weights lag
behind a changing load.

Deviations: (1) UXCost over all networks together, from predicted misses, as a policy sees no outcomes; (2)
the published tuning procedure is replaced by the pattern search above; (3) no variants of networks
(supernets) to switch to under load; (4) the switch cost is a constant, 0 by default, not the energy of moving
activations; (5) every frame that is predicted to miss is dropped, without the published conditions on when to do
so; (6) urgency of a hopeless request is 0.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Numbers, Ready, Rows, System
from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, tier, with_gate
from eunomia.inference.policies.compiled import Compiled

# Places in system.parameters (constants) ...
ALPHA0, BETA0, SWITCH, DROP, WINDOW = range(5)
# ... and in system.memory.
STARTED, ALPHA, BETA, STEP, DIRECTION, BASE_COST, HITS, ENERGY, LAYERS, FINISHED, TRYING = range(11)


@jitted
def _map_score(
    i: int,
    s: int,
    ready: Rows[Ready],
    latency_s: Floats,
    energy: Floats,
    accelerators: Rows[Accelerator],
    system: System,
) -> float:
    job, memory = ready[i], system.memory
    total_s, total_j, able = 0.0, 0.0, 0
    for other in range(len(accelerators)):
        if latency_s[i, other] < np.inf:
            total_s, total_j, able = total_s + latency_s[i, other], total_j + energy[i, other], able + 1
    urgency = 0.0 if job.late == 1 else job.work_mean_s / (job.deadline_s - system.now_s)
    starvation = (system.now_s - job.last_run_s) / (total_s / able)
    thrift = total_j / energy[i, s] if energy[i, s] > 0.0 else float(able)
    last = accelerators[s].last_request
    if last >= 0 and last != job.request:
        thrift -= system.parameters[SWITCH]
    score: float = urgency * total_s / latency_s[i, s] + memory[ALPHA] * starvation + memory[BETA] * thrift
    return score


@jitted
def _move(memory: Numbers, sign: float) -> None:
    """One step of the weight that the direction names: alpha up, alpha down, beta up, beta down."""
    direction = int(memory[DIRECTION])
    which = ALPHA if direction < 2 else BETA
    memory[which] *= 2.0 ** (sign * memory[STEP] * (1.0 if direction % 2 == 0 else -1.0))


@jitted
def _tune(memory: Numbers, cost: float) -> None:
    """Judge the weights that were tried in this window, then try the next ones."""
    if memory[TRYING] == 1.0 and cost >= memory[BASE_COST]:
        _move(memory, -1.0)
        memory[DIRECTION] += 1.0
        if memory[DIRECTION] == 4.0:
            memory[DIRECTION] = 0.0
            memory[STEP] = max(0.5 * memory[STEP], 0.25)
            memory[TRYING] = 0.0  # measure the weights in force anew: the load may have changed
            return
    else:
        memory[BASE_COST] = cost
    memory[TRYING] = 1.0
    _move(memory, 1.0)


@jitted
def _end_window(system: System) -> None:
    """Start the clockwork; at the end of a window compute UXCost and move the weights."""
    memory, parameters = system.memory, system.parameters
    if memory[STARTED] == 0.0:
        memory[STARTED], memory[ALPHA], memory[BETA] = 1.0, parameters[ALPHA0], parameters[BETA0]
        memory[STEP] = 2.0
    done = system.finished - memory[FINISHED]
    if parameters[WINDOW] == 0.0 or done < parameters[WINDOW] or memory[LAYERS] == 0.0:
        return
    miss_rate = max(0.0, 1.0 - memory[HITS] / done)
    _tune(memory, miss_rate * memory[ENERGY] / memory[LAYERS])
    memory[HITS], memory[ENERGY], memory[LAYERS], memory[FINISHED] = 0.0, 0.0, 0.0, system.finished


@jitted
def _will_miss(job: Ready, now_s: float) -> bool:
    return now_s + job.path_mean_s > job.deadline_s


@jitted
def _observe(i: int, s: int, ready: Rows[Ready], latency_s: Floats, energy: Floats, system: System) -> None:
    """Book energy and the predicted outcome of the request at the start of this layer."""
    memory, job = system.memory, ready[i]
    least_j = np.inf
    for other in range(latency_s.shape[1]):
        if latency_s[i, other] < np.inf:
            least_j = min(least_j, energy[i, other])
    memory[ENERGY] += energy[i, s] / least_j if least_j > 0.0 else 1.0
    memory[LAYERS] += 1.0
    slow = max(1.0, system.demand_bytes_s / system.bandwidth_bytes_s)
    if job.layers_done == job.layers_total - 1 and system.now_s + latency_s[i, s] * slow <= job.deadline_s:
        memory[HITS] += 1.0


def _dream(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    _end_window(system)
    if is_shut(system):
        return 0
    anything_runs = False
    for s in range(len(accelerators)):
        anything_runs = anything_runs or accelerators[s].request >= 0
    best, best_s, best_late, best_key = -1, -1, 0, 0.0
    for i in range(len(ready)):
        dropped = system.parameters[DROP] == 1.0 and _will_miss(ready[i], system.now_s)
        late = 1 if dropped else tier(ready[i], system)
        if dropped and anything_runs:
            continue
        for s in range(len(accelerators)):
            if accelerators[s].request >= 0 or latency_s[i, s] == np.inf:
                continue
            key = -_map_score(i, s, ready, latency_s, energy, accelerators, system)
            if best < 0 or precedes(late, key, ready[i], best_late, best_key, ready[best]):
                best, best_s, best_late, best_key = i, s, late, key
    if best < 0:
        return 0
    _observe(best, best_s, ready, latency_s, energy, system)
    answer[0, 0], answer[0, 1] = best, best_s
    return 1


def dream(
    alpha: float = 50.0,
    beta: float = 0.1,
    switch_cost: float = 0.0,
    drop: bool = False,
    window: int = 200,
    gate: float = math.inf,
) -> Compiled:
    """Highest MapScore: urgency, latency preference, starvation, energy preference (DREAM, ASPLOS 2023).

    ``alpha``, ``beta``: weights to begin with, tuned every ``window`` departed requests (0 = never).
    Waiting counts in layer times, so alpha has to grow with urgency's scale, the number of accelerators,
    under overload; 50 is the better one of 5 and 50 on the validation traces of results/tuning.md.
    """
    if alpha < 0.0 or beta < 0.0 or switch_cost < 0.0 or window < 0:
        raise PolicyError(
            f"DREAM's alpha {alpha}, beta {beta}, switch_cost {switch_cost}, window {window}: none may be negative"
        )
    name = gated_name("dream_drop" if drop else "dream", gate)
    return Compiled(_dream, name, with_gate(gate, alpha, beta, switch_cost, float(drop), float(window)))


def dream_drop() -> Compiled:
    """DREAM with frame drop: requests that will probably miss start only when nothing else runs."""
    return dream(drop=True)
