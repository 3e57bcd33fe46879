"""Heaps of waiting sub-jobs, and the order of their first nodes.

The greedy rule wants the first sub-job, by (late, rank, key, sequence), whose placement rule names an idle
accelerator. All sub-jobs of one heap get the same answer from the rule, so only first nodes matter. Heaps with
nodes are *standing*, in one list in this order, the first at its end: there most starts and arrivals are. (Where the
deadline alone keeps heaps, they stand in any order.) A decision asks the rule for one after the other and stops at the
first that may start (holding.py). A start or an
arrival changes the first node of one heap (``mark``, then ``refresh_heads``); the clock changes those that become
hopeless.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import pop, push
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DEAD
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    facts_at,
    heap_at,
    marked_at,
    node_at,
    pair_at,
    standing_at,
    system_of,
)
from eunomia.inference.kernel.pools import release_node
from eunomia.inference.kernel.setup import BY_DEADLINE, BY_RANK, GRACE_S

NEAR = 6  # places at the end of the standing heaps that are looked at one by one


@jitted
def insert(k: Kernel, heap: int, node: int) -> None:
    """Put a waiting node into a heap, among the on-time ones."""
    record = heap_at(k, heap)
    record.on_time = push(k, record.on_time, node)
    if record.on_time == node:
        mark(k, heap)


@jitted
def insert_standing(k: Kernel, heap: int, node: int) -> None:
    """The same where heaps stand in order: one that was empty stands at once, but for late nodes."""
    record, now_s = heap_at(k, heap), system_of(k).now_s
    empty = record.on_time < 0 and record.late < 0 and record.stands == 0 and record.marked == 0
    if empty and not is_late(facts_at(k, node), now_s):
        record.on_time = push(k, -1, node)
        stand(k, heap, node, False, now_s)
        expect_late(k, facts_at(k, node))
    else:
        insert(k, heap, node)


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
    if mine.rank != theirs.rank:
        return mine.rank < theirs.rank
    if mine.key != theirs.key:
        return mine.key < theirs.key
    return mine.sequence < theirs.sequence


@jitted
def place_of(k: Kernel, heap: int) -> int:
    """How many of the standing heaps go after this one: where it stands, or belongs; most are near the end."""
    low, high = max(0, k.num_standing - NEAR), k.num_standing
    while high > low and not precedes(k, heap, standing_at(k, high - 1).value):
        high -= 1
    if high > low:
        return high
    low = 0
    while low < high:
        middle = (low + high) // 2
        if precedes(k, heap, standing_at(k, middle).value):
            low = middle + 1
        else:
            high = middle
    return low


@jitted
def enter(k: Kernel, heap: int) -> None:
    """Add a heap to the standing ones."""
    at = i = k.num_standing
    if k.base != BY_DEADLINE:
        at = place_of(k, heap)
    heap_at(k, heap).stands = at + 1
    while i > at:
        standing_at(k, i).value = standing_at(k, i - 1).value
        i -= 1
    standing_at(k, at).value = heap
    k.num_standing += 1


@jitted
def leave(k: Kernel, at: int) -> None:
    """Remove a heap from its place among the standing ones."""
    heap_at(k, standing_at(k, at).value).stands = 0
    k.num_standing -= 1
    if k.base == BY_DEADLINE and at < k.num_standing:
        last = standing_at(k, k.num_standing).value
        standing_at(k, at).value, heap_at(k, last).stands = last, at + 1
        return
    for i in range(at, k.num_standing):
        standing_at(k, i).value = standing_at(k, i + 1).value


@jitted
def leave_wherever(k: Kernel, heap: int) -> None:
    """Remove a heap from the standing ones. A key that is no number orders nothing: then it is looked for."""
    at = place_of(k, heap) if k.base != BY_DEADLINE else heap_at(k, heap).stands - 1
    if at == k.num_standing or standing_at(k, at).value != heap:
        at = 0
        while standing_at(k, at).value != heap:
            at += 1
    leave(k, at)


@jitted
def take_first(k: Kernel, at: int) -> int:
    """Take the first node of a standing heap out of it."""
    heap = standing_at(k, at).value
    record = heap_at(k, heap)
    leave(k, at)
    remove_head(k, heap, record.node)
    if record.on_time >= 0 or record.late >= 0:
        mark(k, heap)
    return record.node


@jitted
def mark_late(k: Kernel, now_s: float) -> None:
    """Mark heaps whose first node has become late; ``next_late_s`` says when to look again, or earlier."""
    k.next_late_s = np.inf
    for i in range(k.num_standing):
        heap = standing_at(k, i).value
        if heap_at(k, heap).tier == 0:
            facts = facts_at(k, heap_at(k, heap).node)
            if is_late(facts, now_s):
                mark(k, heap)
            else:
                expect_late(k, facts)


@jitted
def expect_late(k: Kernel, facts: Record) -> None:
    """Look again before due - path; how ``due < now + path`` is rounded then does not matter."""
    due_s, path_s = facts.deadline_s + GRACE_S, facts.path_best_s
    if due_s < np.inf:
        k.next_late_s = min(k.next_late_s, due_s - path_s - 1e-12 * (abs(due_s) + path_s))


@jitted
def refresh_heads(k: Kernel, tiered: bool, now_s: float) -> None:
    """Put heaps in order after starts, arrivals, drops and the course of time."""
    if k.heads_stale == 1:
        for i in range(k.num_standing):
            heap = standing_at(k, i).value
            if node_at(k, heap_at(k, heap).node).state == DEAD:
                mark(k, heap)
        k.heads_stale = 0
    if tiered and now_s >= k.next_late_s:
        mark_late(k, now_s)
    while k.num_marked > 0:
        k.num_marked -= 1
        heap = marked_at(k, k.num_marked).value
        heap_at(k, heap).marked = 0
        if heap_at(k, heap).stands > 0:
            leave_wherever(k, heap)
        node = head(k, heap, tiered, now_s)
        if node >= 0:
            stand(k, heap, node, tiered, now_s)


@jitted
def stand(k: Kernel, heap: int, node: int, tiered: bool, now_s: float) -> None:
    """Copy what ranks the first node of a heap, and put the heap where it belongs."""
    record, facts = heap_at(k, heap), facts_at(k, node)
    record.node, record.tier = node, 1 if tiered and is_late(facts, now_s) else 0
    record.rank = pair_at(k, facts.pair).keyed_rank if k.base == BY_RANK else 0.0
    record.key, record.sequence = node_at(k, node).key, node_at(k, node).sequence
    if tiered and record.tier == 0:
        expect_late(k, facts)
    enter(k, heap)
