"""The decision by a plan whose rule may be a learned policy: its own order, placement and gate, within the levels."""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.lookahead.choose import choose_by_plan, refresh_plan, refuses
from eunomia.inference.lookahead.memory import BLOCK, level_at, rule_at, workspace_of
from eunomia.learning.policy.decide import (
    CLOSED,
    already_decided,
    decide,
    decide_in_tiers,
    set_tiers,
    weights_of,
)

LEVELS = 3  # per tier: first, normal, last

_by_rule, _by_policy = jitted(choose_by_plan), jitted(decide)


def choose_by_learned_plan(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """What the plan starts now; without an engine, what the learned policy does."""
    if len(ready) == 0:
        return 0
    if system.block_bytes[BLOCK] == 0:
        return _by_policy(ready, latency_s, demand, energy, accelerators, system, answer, priority)  # type: ignore[no-untyped-call]
    ws = workspace_of(system)
    refresh_plan(ws, system)
    if rule_at(ws, ws.rule).learned == 0:
        return _by_rule(ready, latency_s, demand, energy, accelerators, system, answer, priority)  # type: ignore[no-untyped-call]
    if already_decided(len(ready), system):
        return 0
    tier = np.empty(len(ready), np.int64)
    set_tiers(ready, weights_of(system), system, tier)
    refused = refuses(ws, ready)
    for i in range(len(ready)):
        tier[i] = LEVELS * tier[i] + level_at(ws, ready[i].request).value
        if refused and ready[i].late == 1:
            tier[i] = CLOSED
    return decide_in_tiers(ready, latency_s, demand, accelerators, system, tier, answer)
