"""PREMA: tokens grow while a request waits; among those with enough of them the shortest runs.

Source: Choi and Rhu, "PREMA: A Predictive Multi-task Scheduling Algorithm For Preemptible Neural Processing
Units", HPCA 2020, arXiv 1909.04548.

token = priority (1 + waited / iso), iso = isolated best-case time of the network [s]. waited = now - the end
of the request's last layer (its arrival before the first) [s]; priorities are meant to be 1, 3 or 9.
threshold = the largest of 9, 3, 1 that is not above the greatest token (0 if all are below 1). Candidates:
token >= threshold. The one with the least remaining best-case work [s] runs.

``tokens="waited"`` adds the tokens up instead, as the paper has it: every spell of waiting counts, and running does
not wipe them out: token = priority (1 + (now - arrival - time run) / iso). A request that is served in small
pieces keeps its claim, which lets long networks finish.

Does badly: it never looks at a deadline, and prefers short networks of a class to urgent ones.

Deviations: (1) tokens follow from the time since the last run, or with ``waited`` from all time waited; they
grow with time, not with decisions, and do not depend on how often the scheduler is called; (2) switches
happen at layer boundaries only, by the engine's rules, without PREMA's choice between checkpoint and drain;
(3) with several accelerators it is an order: the placement (any idle accelerator by default) is a setting,
and only sub-jobs that could start now take part; (4) hopeless requests form a class behind all others where
``late`` is ``last``.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.contract.rows import Ready, System
from eunomia.core.errors import UnknownNameError
from eunomia.inference.kernel.greedy import place_over_view
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.setup import PLACEMENTS
from eunomia.inference.policies.choosing import gated_name, is_shut, precedes, tier, with_gate
from eunomia.inference.policies.compiled import Compiled

TOKENS = ("since_run", "waited")
SINCE_RUN, WAITED = range(2)


@jitted
def _token(job: Ready, system: System) -> float:
    waited_s = system.now_s - job.last_run_s
    if system.parameters[1] == WAITED:
        waited_s = max(0.0, system.now_s - job.arrival_s - job.attained_s)
    return job.priority * (1.0 + waited_s / job.iso_best_s)


@jitted
def _threshold(greatest: float) -> float:
    for level in (9.0, 3.0, 1.0):
        if level <= greatest:
            return level
    return 0.0


def _prema(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    if is_shut(system):
        return 0
    where = np.empty(len(ready), np.int64)
    foremost, greatest = 1, -np.inf
    for i in range(len(ready)):
        where[i] = place_over_view(i, latency_s, demand, accelerators, system, int(system.parameters[0]))
        if where[i] < 0:
            continue
        late = tier(ready[i], system)
        if late < foremost:
            foremost, greatest = late, -np.inf
        if late == foremost:
            greatest = max(greatest, _token(ready[i], system))
    threshold, best = _threshold(greatest), -1
    for i in range(len(ready)):
        if where[i] < 0 or tier(ready[i], system) != foremost or _token(ready[i], system) < threshold:
            continue
        if best < 0 or precedes(0, ready[i].work_best_s, ready[i], 0, ready[best].work_best_s, ready[best]):
            best = i
    if best < 0:
        return 0
    answer[0, 0], answer[0, 1] = best, where[best]
    return 1


def prema(place: str = "any_idle", gate: float = math.inf, tokens: str = "since_run") -> Compiled:
    """Tokens that grow with waiting, then shortest remaining work (PREMA, HPCA 2020). Blind to deadlines.

    ``place``: as for Greedy; ``tokens``: ``since_run`` (waiting since the last layer) or ``waited`` (all waiting,
    added up). Raises UnknownNameError.
    """
    if place not in PLACEMENTS:
        raise UnknownNameError("placement", place, PLACEMENTS)
    if tokens not in TOKENS:
        raise UnknownNameError("way of counting tokens", tokens, TOKENS)
    name = "prema" if tokens == "since_run" else "prema_waited"
    name = gated_name(name if place == "any_idle" else f"{name}+{place}", gate)
    return Compiled(_prema, name, with_gate(gate, PLACEMENTS.index(place), TOKENS.index(tokens)))
