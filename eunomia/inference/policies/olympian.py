"""Olympian: tenants take turns on an accelerator for a quantum of its time, and overuse is taken off their next turn.

Source: Hu et al., "Olympian: Scheduling GPU Usage in a Deep Neural Network Model Serving System", Middleware 2018.
``eunomia.sharing.slices`` has the same turns for threads.

One token per accelerator. Its holder starts layers until its *credit* is spent, the time for which it may keep
accelerators busy. If it waits no more, it loses what is left. Then the next tenant that waits gets a quantum more:
overuse is taken off. Quanta are Q for all (``fair``) or Q n w / W (``weighted``), W = sum of w over the n tenants that
wait. With ``priority`` only those of the highest one have any. Of the holder's requests, what runs goes on, then by
deadline. Who waits alone goes on.

Does badly: quanta shorter than a block; deadlines across tenants; ``fair`` where one user has many tenants; layers that
other accelerators slow down, for which their own tenant pays.

Deviations: (1) turns are between tenants, not between jobs, so who sends more gets no more; (2) charged is the time for
which an accelerator was busy, in place of a profile: of a request that is dropped, cancelled or fails, what it ran. Of
an order that was given ahead of time, what was foreseen is put right as soon as it begins; (3) each accelerator has a
token, and credit is common to all: none is lost while its tenant holds another token; (4) 24 tokens, and 64 - 2 n
credits for n accelerators, which further tenants share. On more than 24 accelerators, or where it decides at ticks,
each layer is charged when it is chosen, as believed: runs of several blocks in one lease pay too little; (5) hopeless
requests come after a tenant's others where ``late`` is ``last``.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Accelerator, Numbers, Ready, Rows, System
from eunomia.core.arrays import Floats
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.choosing import gated_name, is_shut, tier, with_gate
from eunomia.inference.policies.compiled import Compiled

SHARES = ("fair", "weighted", "priority")
FAIR, WEIGHTED, PRIORITY = range(3)
QUANTUM, SHARE = range(2)  # parameters
TOKENS, MEMORY = 24, 64
OWNER, SEEN, WIDTH = range(3)  # of a token: who started what there (``_owner``), time charged for so far
TENANTS, REQUESTS = 4096, 2**40  # told apart; the first with nobody as one of them (``_turn``)
ROUNDS = 100_000  # after so many turns in vain, somebody runs with debts


@jitted
def _turn(tenant: int) -> int:
    """Whose turns a tenant takes: its own, or those of an earlier one of the same remainder."""
    return tenant % (TENANTS - 1)


@jitted
def _credit(tenant: int, first: int) -> int:
    """Where a tenant's credit stands in memory, behind the tokens."""
    return first + tenant % (MEMORY - first)


@jitted
def _owner(holder: int, request: int) -> float:
    """One number of two: tenant + 1 that holds a token, and what it started."""
    return float(holder + TENANTS * (request % REQUESTS))


@jitted
def _holder_of(owner: float) -> int:
    """Tenant + 1; 0: nobody."""
    return int(owner) % TENANTS


@jitted
def _runs(owner: float, request: int) -> bool:
    """Whether a request is the one that a token's holder started."""
    return _holder_of(owner) > 0 and int(owner) // TENANTS == request % REQUESTS


@jitted
def _follow(accelerators: Rows[Accelerator], tokens: int, memory: Numbers) -> None:
    """What runs on another accelerator than its token's is that one's: a server may have moved it."""
    for s in range(tokens):
        ran = accelerators[s].request if accelerators[s].request >= 0 else accelerators[s].last_request
        if _runs(memory[WIDTH * s + OWNER], ran):
            continue
        for other in range(tokens):
            owner = memory[WIDTH * other + OWNER]
            if _runs(owner, ran):
                memory[WIDTH * s + OWNER] = _owner(_holder_of(owner), ran)
                break


@jitted
def _charge(accelerators: Rows[Accelerator], tokens: int, memory: Numbers) -> None:
    """What idle accelerators ran since they were last looked at, and take back what was foreseen too much of it.

    What somebody else started there while this policy was not asked is nobody's.
    """
    for s in range(tokens):
        at, owner, seen = accelerators[s], memory[WIDTH * s + OWNER], WIDTH * s + SEEN
        if at.request >= 0:
            continue
        if _runs(owner, at.last_request):
            memory[_credit(_holder_of(owner) - 1, WIDTH * tokens)] -= at.busy_s - memory[seen]
        memory[seen] = at.busy_s


@jitted
def _able(ready: Rows[Ready], latency_s: Floats, s: int) -> Floats:
    """(n,) 1 for one row of each tenant that has something for accelerator s."""
    last = 0
    for i in range(len(ready)):
        last = max(last, _turn(ready[i].tenant))
    found, seen = np.zeros(len(ready)), np.zeros(last + 1)
    for i in range(len(ready)):
        tenant = _turn(ready[i].tenant)
        if latency_s[i, s] < np.inf and seen[tenant] == 0.0:
            found[i] = seen[tenant] = 1.0
    return found


@jitted
def _quantum(i: int, ready: Rows[Ready], able: Floats, system: System) -> float:
    """Of the tenant of row i; ``able``: of ``_able``."""
    quantum, share = system.parameters[QUANTUM], int(system.parameters[SHARE])
    if share == FAIR:
        return quantum
    weights, count, highest = 0.0, 0, -np.inf
    for j in range(len(ready)):
        if able[j] == 1.0:
            highest = max(highest, ready[j].priority)
            weights += ready[j].weight
            count += 1
    if share == PRIORITY:
        return quantum if ready[i].priority == highest else 0.0
    return quantum * count * ready[i].weight / weights


@jitted
def _next(ready: Rows[Ready], able: Floats, tenant: int) -> int:
    """A row of the next tenant that waits, in a circle."""
    found, least = -1, TENANTS
    for i in range(len(ready)):
        if able[i] == 0.0:
            continue
        away = (_turn(ready[i].tenant) - tenant - 1) % (TENANTS - 1)
        if found < 0 or away < least:
            found, least = i, away
    return found


@jitted
def _holds(tenant: int, token: int, first: int, memory: Numbers) -> bool:
    """Whether a tenant holds another token than this one."""
    found = False
    for other in range(0, first, WIDTH):
        found = found or (other != token and _holder_of(memory[other + OWNER]) == tenant + 1)
    return found


@jitted
def _holder(ready: Rows[Ready], able: Floats, token: int, first: int, system: System) -> int:
    """The tenant that holds the token from now on; ``first``: place of the first credit in memory."""
    memory, holder = system.memory, _holder_of(system.memory[token + OWNER]) - 1
    row = _next(ready, able, holder - 1)
    if (
        _turn(ready[row].tenant) == holder
        and memory[_credit(holder, first)] > 0.0
        and _quantum(row, ready, able, system) > 0.0
    ):
        return holder
    if holder >= 0 and not _holds(holder, token, first, memory):
        memory[_credit(holder, first)] = min(memory[_credit(holder, first)], 0.0)
    for _ in range(ROUNDS):
        row = _next(ready, able, holder)
        holder = _turn(ready[row].tenant)
        quantum, at = _quantum(row, ready, able, system), _credit(holder, first)
        if quantum > 0.0:
            memory[at] += quantum
            if memory[at] > 0.0:
                return holder
    return holder


@jitted
def _first(
    ready: Rows[Ready], latency_s: Floats, s: int, tenant: int, at: Accelerator, system: System
) -> int:
    """The tenant's request for accelerator s: what ran last, others that have begun, then by deadline."""
    best, best_rank = -1, np.zeros(4)
    for i in range(len(ready)):
        job = ready[i]
        if _turn(job.tenant) != tenant or latency_s[i, s] == np.inf:
            continue
        begun = 2.0 if job.layers_done == 0 else 0.0 if job.request == at.last_request else 1.0
        rank = np.array([float(tier(job, system)), begun, job.deadline_s, float(job.sequence)])
        better = best < 0
        for n in range(4):
            if not better and rank[n] != best_rank[n]:
                better = bool(rank[n] < best_rank[n])
                break
        if better:
            best, best_rank = i, rank
    return best


def _olympian(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    memory = system.memory
    if is_shut(system):
        return 0
    tokens = min(len(accelerators), TOKENS)
    measured = len(accelerators) <= TOKENS and system.period_s == 0.0
    if measured:
        _follow(accelerators, tokens, memory)
        _charge(accelerators, tokens, memory)
    for s in range(len(accelerators)):
        if accelerators[s].request >= 0:
            continue
        able, token, first = _able(ready, latency_s, s), WIDTH * (s % TOKENS), WIDTH * tokens
        if not able.any():
            continue
        tenant = _holder(ready, able, token, first, system)
        best = _first(ready, latency_s, s, tenant, accelerators[s], system)
        memory[token + OWNER] = _owner(tenant + 1, ready[best].request)
        if not measured:
            memory[_credit(tenant, first)] -= latency_s[best, s]
        answer[0, 0], answer[0, 1] = best, s
        return 1
    return 0


def charge_run(memory: Floats, accelerators: int, device: int, request: int, more_s: float) -> None:
    """A run took so much more than was foreseen when this policy chose what follows it: its own tenant pays."""
    if accelerators > TOKENS:
        return
    token, first = WIDTH * device, WIDTH * accelerators
    started, holder = divmod(int(memory[token + OWNER]), TENANTS)
    if holder > 0 and started == request % REQUESTS:
        memory[first + (holder - 1) % (MEMORY - first)] -= more_s
    memory[token + SEEN] += more_s


def olympian(quantum_s: float = 0.008, share: str = "weighted", gate: float = math.inf) -> Compiled:
    """Turns of tenants by profiled time, fair, weighted or by priority (after Olympian, Middleware 2018).

    Raises PolicyError, UnknownNameError.
    """
    if share not in SHARES:
        raise UnknownNameError("share of time slices", share, SHARES)
    if not (math.isfinite(quantum_s) and quantum_s > 0.0):
        raise PolicyError(f"quantum_s is {quantum_s}; it must be positive seconds, such as 0.008")
    parameters = with_gate(gate, float(quantum_s), float(SHARES.index(share)))
    name, alone = gated_name("olympian", gate), math.isinf(gate)
    return Compiled(_olympian, name, parameters, starts_alone=alone, charge_run=charge_run)
