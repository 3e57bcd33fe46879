"""Waiting sub-jobs of a rollout in the order in which they would start, so that a start looks at the first few.

Entries stand by (level, key, sequence). Keys of static orders are computed once, when a sub-job becomes
ready; those of dynamic orders anew at every instant. The agenda also holds when the next waiting request
becomes hopeless.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, Record, facts_at, fresh_at, node_at, system_of, waiting_at
from eunomia.inference.kernel.setup import GRACE_S
from eunomia.inference.lookahead.keys import is_dynamic, order_key
from eunomia.inference.lookahead.memory import Workspace, entry_at, planned_at

SLACK_S = 1e-9  # before this, rounding cannot make a request hopeless


@jitted
def open_agenda(ws: Workspace, k: Kernel, order: int) -> None:
    """Enter all that waits, as the order sees it now."""
    ws.entries, ws.late_s, ws.dynamic = 0, np.inf, is_dynamic(order)
    for i in range(k.num_waiting):
        enter(ws, k, order, waiting_at(k, i).value)


@jitted
def enter_fresh(ws: Workspace, k: Kernel, order: int) -> None:
    """Enter what has just become ready."""
    for i in range(k.num_fresh):
        enter(ws, k, order, fresh_at(k, i).value)
    k.num_fresh = 0


@jitted
def watch_fresh(ws: Workspace, k: Kernel) -> None:
    """What has just become ready may become hopeless; the learned policy enters it by itself."""
    for i in range(k.num_fresh):
        ws.late_s = min(ws.late_s, _late_s(facts_at(k, fresh_at(k, i).value)))


@jitted
def _late_s(facts: Record) -> float:
    """When a waiting sub-job becomes hopeless, or a little earlier."""
    return facts.deadline_s + GRACE_S - facts.path_best_s - SLACK_S  # type: ignore[no-any-return]


@jitted
def enter(ws: Workspace, k: Kernel, order: int, node: int) -> None:
    """One more waiting sub-job, in its place."""
    facts = facts_at(k, node)
    ws.late_s = min(ws.late_s, _late_s(facts))
    level, sequence = planned_at(ws, facts.request).value, node_at(k, node).sequence
    key = order_key(order, facts, system_of(k))
    i = ws.entries
    ws.entries += 1
    while i > 0 and goes_before(level, key, sequence, entry_at(ws, i - 1)):
        move(ws, i - 1, i)
        i -= 1
    entry = entry_at(ws, i)
    entry.level, entry.key, entry.sequence, entry.node = level, key, sequence, node


@jitted
def goes_before(level: int, key: float, sequence: int, other: Workspace) -> bool:
    """Whether an entry of this level, key and sequence comes before another."""
    if level != other.level:
        return level < other.level  # type: ignore[no-any-return]
    return key < other.key or (key == other.key and sequence < other.sequence)  # type: ignore[no-any-return]


@jitted
def move(ws: Workspace, source: int, target: int) -> None:
    """Copy an entry to another place."""
    a, b = entry_at(ws, source), entry_at(ws, target)
    b.level, b.key, b.sequence, b.node = a.level, a.key, a.sequence, a.node


@jitted
def strike(ws: Workspace, i: int) -> None:
    """Take out entry i."""
    ws.entries -= 1
    for j in range(i, ws.entries):
        move(ws, j + 1, j)


@jitted
def find_hopeless(ws: Workspace, k: Kernel) -> int:
    """A waiting sub-job that cannot be on time any more; -1 = none."""
    now_s = system_of(k).now_s
    if now_s < ws.late_s:
        return -1
    ws.late_s = np.inf
    for i in range(k.num_waiting):
        node = waiting_at(k, i).value
        facts = facts_at(k, node)
        if is_late(facts, now_s):
            ws.late_s = -np.inf
            return node  # type: ignore[no-any-return]
        ws.late_s = min(ws.late_s, _late_s(facts))
    return -1


@jitted
def strike_node(ws: Workspace, node: int) -> None:
    """Take out the entry of a node."""
    for i in range(ws.entries):
        if entry_at(ws, i).node == node:
            strike(ws, i)
            return
