"""Heaps of waiting sub-jobs, and a copy of what ranks the first node of each.

The greedy rule wants the first sub-job, by (late, key, sequence), whose placement rule names an idle
accelerator. All sub-jobs of one heap get the same answer from the rule, so only first nodes matter. Heaps with
nodes are *standing*, in one list without gaps; beside it stand the estimates of their rows, so that a placement
rule can look at all of them in one straight loop (placement.py). A start or an arrival changes the first node of
one heap (``mark``, then ``refresh_heads``); the clock changes those that become hopeless.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import pop, push
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DEAD
from eunomia.inference.kernel.memory import (
    Kernel,
    cost_at,
    facts_at,
    heap_at,
    marked_at,
    node_at,
    standing_at,
    standing_estimate_at,
)
from eunomia.inference.kernel.pools import release_node
from eunomia.inference.kernel.setup import GRACE_S


@jitted
def insert(k: Kernel, heap: int, node: int) -> None:
    """Put a waiting node into a heap, among the on-time ones."""
    record = heap_at(k, heap)
    record.on_time = push(k, record.on_time, node)
    if record.on_time == node:
        mark(k, heap)


@jitted
def mark(k: Kernel, heap: int) -> None:
    """The first node of a heap has changed: what ranks it is to be copied anew."""
    if heap_at(k, heap).marked == 0:
        heap_at(k, heap).marked = 1
        marked_at(k, k.num_marked).value = heap
        k.num_marked += 1


@jitted
def drop_dead(k: Kernel, heap: int, tier: int) -> int:
    """Root of a heap after removing nodes of dropped requests from its top."""
    record = heap_at(k, heap)
    root = record.late if tier == 1 else record.on_time
    while root >= 0 and node_at(k, root).state == DEAD:
        rest = pop(k, root)
        release_node(k, root)
        root = rest
    if tier == 1:
        record.late = root
    else:
        record.on_time = root
    return root


@jitted
def head(k: Kernel, heap: int, tiered: bool, now_s: float) -> int:
    """First node of a heap; -1 = empty. Late ones (if ``tiered``) come after all others."""
    node = drop_dead(k, heap, 0)
    while tiered and node >= 0 and is_late(facts_at(k, node), now_s):
        heap_at(k, heap).on_time = pop(k, node)
        heap_at(k, heap).late = push(k, heap_at(k, heap).late, node)
        node = drop_dead(k, heap, 0)
    if node >= 0 or not tiered:
        return node
    return drop_dead(k, heap, 1)


@jitted
def remove_head(k: Kernel, heap: int, node: int) -> None:
    """Take the node that ``head`` returned out of its heap."""
    record = heap_at(k, heap)
    if record.on_time == node:
        record.on_time = pop(k, node)
    else:
        record.late = pop(k, node)


@jitted
def precedes(k: Kernel, heap: int, other: int) -> bool:
    """Whether the first node of one heap goes before that of another."""
    mine, theirs = heap_at(k, heap), heap_at(k, other)
    if mine.tier != theirs.tier:
        return mine.tier < theirs.tier
    if mine.key != theirs.key:
        return mine.key < theirs.key
    return mine.sequence < theirs.sequence


@jitted
def enter(k: Kernel, heap: int, row: int) -> None:
    """Add a heap to the standing ones; ``row``: of any of its nodes."""
    heap_at(k, heap).at = k.num_standing
    standing_at(k, k.num_standing).value = heap
    if k.sieved == 1:
        for kind in range(k.num_types):
            value = cost_at(k, row * k.num_types + kind).estimate_s
            standing_estimate_at(k, kind * k.num_heaps + k.num_standing).value = value
    k.num_standing += 1


@jitted
def leave(k: Kernel, heap: int) -> None:
    """Remove a heap from the standing ones; the last takes its place."""
    k.num_standing -= 1
    at, last = heap_at(k, heap).at, k.num_standing
    other = standing_at(k, last).value
    heap_at(k, other).at = at
    standing_at(k, at).value = other
    if k.sieved == 1:
        for kind in range(k.num_types):
            value = standing_estimate_at(k, kind * k.num_heaps + last).value
            standing_estimate_at(k, kind * k.num_heaps + at).value = value
    heap_at(k, heap).at = -1


@jitted
def mark_late(k: Kernel, now_s: float) -> None:
    """Mark heaps whose first node has become late; ``next_late_s`` says when to look again, or earlier."""
    k.next_late_s = np.inf
    for i in range(k.num_standing):
        heap = standing_at(k, i).value
        record = heap_at(k, heap)
        if record.tier == 0:
            if record.due_s < now_s + record.path_s:
                mark(k, heap)
            else:
                expect_late(k, record.due_s, record.path_s)


@jitted
def expect_late(k: Kernel, due_s: float, path_s: float) -> None:
    """Look again before due - path; how ``due < now + path`` is rounded then does not matter."""
    if due_s < np.inf:
        k.next_late_s = min(k.next_late_s, due_s - path_s - 1e-12 * (abs(due_s) + path_s))


@jitted
def refresh_heads(k: Kernel, tiered: bool, now_s: float) -> None:
    """Copy what ranks the first nodes after starts, arrivals, drops and the course of time."""
    if k.heads_stale == 1:
        for i in range(k.num_standing):
            mark(k, standing_at(k, i).value)
        k.heads_stale = 0
    if tiered and now_s >= k.next_late_s:
        mark_late(k, now_s)
    while k.num_marked > 0:
        k.num_marked -= 1
        heap = marked_at(k, k.num_marked).value
        record = heap_at(k, heap)
        record.marked = 0
        node = head(k, heap, tiered, now_s)
        if node < 0:
            if record.at >= 0:
                leave(k, heap)
            continue
        facts = facts_at(k, node)
        record.node, record.row, record.tier = node, facts.row, 1 if tiered and is_late(facts, now_s) else 0
        record.key, record.sequence = node_at(k, node).key, node_at(k, node).sequence
        record.due_s, record.path_s = facts.deadline_s + GRACE_S, facts.path_best_s
        if tiered and record.tier == 0:
            expect_late(k, record.due_s, record.path_s)
        if record.at < 0:
            enter(k, heap, facts.row)
