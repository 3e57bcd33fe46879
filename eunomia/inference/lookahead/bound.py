"""What a rollout must still lose: a bound that cuts it off as soon as it cannot win any more.

A request that can still be on time is either lost, at one hit, or the rest of its work is paid for. With ``price`` p
per second of the whole platform and at least w seconds left, that is min(1, p w), summed over all such requests. What
has been lost so far and this sum never exceed what the rollout loses in the end, so no plan changes by it.
Does nothing without a price, with sampled futures or a horizon of its own, or for objectives other than hits.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    cost_at,
    facts_at,
    lane_at,
    node_at,
    pending_at,
    slot_at,
    system_of,
    waiting_at,
)
from eunomia.inference.lookahead.memory import (
    FIRST,
    NORMAL,
    Workspace,
    least_at,
    left_at,
    planned_at,
    snapshot_of,
)
from eunomia.inference.lookahead.objective import HITS

EXACT = 1.0 - 1e-9  # so that rounding cuts nothing off


@jitted
def share_s(k: Kernel, s: int) -> float:
    """Time for which the layer on accelerator s would keep the whole platform busy: of arrays or of memory."""
    lane = lane_at(k, s)
    memory_s: float = lane.demand * lane.work_s / system_of(k).bandwidth_bytes_s
    arrays_s: float = lane.work_s / k.num_lanes
    return max(arrays_s, memory_s)


@jitted
def find_least(ws: Workspace) -> None:
    """The least such time of every layer, on the accelerator type that suits it best."""
    k = snapshot_of(ws)
    for row in range(ws.num_rows):
        least_s = np.inf
        for kind in range(k.num_types):
            cost = cost_at(k, row * k.num_types + kind)
            if cost.latency_s < np.inf:
                memory_s = cost.demand_bytes_s * cost.latency_s / system_of(k).bandwidth_bytes_s
                least_s = min(least_s, max(cost.latency_s / k.num_lanes, memory_s))
        least_at(ws, row).value = least_s if least_s < np.inf else 0.0


@jitted
def measure_left(ws: Workspace) -> None:
    """What the requests of the snapshot must still cost, in seconds of the whole platform."""
    k = snapshot_of(ws)
    ws.left_s = 0.0
    for slot in range(k.used_slots):
        record, left_s = slot_at(k, slot), 0.0
        if record.gone == 0 and record.deadline_s < np.inf:
            for layer in range(record.layers):
                if pending_at(k, slot * k.num_layers + layer).value > 0:
                    left_s += least_at(ws, record.row0 + layer).value
        left_at(ws, slot).known = left_s
    for i in range(k.num_waiting):
        node = waiting_at(k, i).value
        slot = node_at(k, node).slot
        if slot_at(k, slot).gone == 0 and slot_at(k, slot).deadline_s < np.inf:
            left_at(ws, slot).known += least_at(ws, facts_at(k, node).row).value
    for slot in range(k.used_slots):
        left_at(ws, slot).known *= EXACT
        ws.left_s += left_at(ws, slot).known


@jitted
def set_bound(ws: Workspace) -> None:
    """The same in hits, by the price of this snapshot."""
    known = ws.futures == 0 and ws.horizon_s == np.inf and ws.objective == HITS
    ws.bounded, ws.left_loss = 1 if known and ws.price_per_s > 0.0 else 0, 0.0
    if ws.bounded == 1:
        for slot in range(snapshot_of(ws).used_slots):
            ws.left_loss += min(1.0, ws.price_per_s * left_at(ws, slot).known)


@jitted
def begin_bound(ws: Workspace) -> None:
    """The same, for the rollout that begins."""
    ws.rest = ws.left_loss
    if ws.bounded == 1:
        for slot in range(snapshot_of(ws).used_slots):
            left = left_at(ws, slot)
            left.now, left.spent = left.known, 0.0


@jitted
def move_bound(ws: Workspace) -> None:
    """The snapshot has moved on to where this rollout has come."""
    for slot in range(snapshot_of(ws).used_slots):
        left_at(ws, slot).known = left_at(ws, slot).now
    set_bound(ws)


@jitted
def pay(ws: Workspace, k: Kernel, s: int) -> None:
    """The price of the layer that has just started, which its request need not pay any more."""
    if ws.price_per_s == 0.0:
        return
    cost_s = share_s(k, s)
    ws.spent += cost_s
    ws.loss += ws.price_per_s * cost_s
    if ws.bounded == 1:
        lane = lane_at(k, s)
        left = left_at(ws, node_at(k, lane.node).slot)
        left.spent += cost_s
        before = min(1.0, ws.price_per_s * left.now)
        left.now = max(0.0, left.now - least_at(ws, lane.row).value)
        ws.rest -= before - min(1.0, ws.price_per_s * left.now)


@jitted
def settle_bound(ws: Workspace, slot: int) -> None:
    """A request has left, on time or lost."""
    if ws.bounded == 1:
        ws.rest -= min(1.0, ws.price_per_s * left_at(ws, slot).now)
        left_at(ws, slot).now = 0.0


@jitted
def promises(ws: Workspace, slot: int, level: int) -> bool:
    """Whether moving one request to a level may gain more than the margin, as far as its own price tells.

    A lost one goes last for what was spent on it, and first only if its hit pays for its rest. One that is on time goes
    last for its price and for what the lost ones could then gain.
    """
    if ws.bounded == 0 or level == NORMAL:
        return True
    left, price = left_at(ws, slot), ws.price_per_s
    lost = planned_at(ws, slot_at(snapshot_of(ws), slot).request).lost == 1
    gain = price * left.wasted
    if level == FIRST:
        gain += 1.0 - price * left.known
    elif not lost:
        gain = ws.hopes + price * left.known - 1.0
    return gain > ws.margin  # type: ignore[no-any-return]


@jitted
def note_wasted(ws: Workspace) -> None:
    """Remember what the plan that was just rolled out spends on each request, and what saving lost ones would gain."""
    k = snapshot_of(ws)
    ws.hopes = 0.0
    for slot in range(k.used_slots):
        left = left_at(ws, slot)
        left.wasted = left.spent
        if planned_at(ws, slot_at(k, slot).request).lost == 1:
            ws.hopes += max(0.0, 1.0 + ws.price_per_s * (left.wasted - left.known))
