"""Orders by rank: pairs have ranks, and of one rank the lesser deadline goes first.

The key is 2 rank + t / (1 + |t|), t = deadline - now. The clock changes no order, so that heaps stand by (rank,
deadline); with a deadline of inf the key tells the rank. It is computed for what starts alone. Rounding may give
sub-jobs of almost the same deadline one key; then the least sequence goes first, so these few are looked for.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import pop, push
from eunomia.inference.kernel.holding import first_heap, place_first
from eunomia.inference.kernel.indicators import THROUGHPUT, refresh_throughput, show_indicator
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import WAITING
from eunomia.inference.kernel.loop import Key
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    facts_at,
    heap_at,
    node_at,
    pair_at,
    standing_at,
    system_of,
    view_node_at,
)
from eunomia.inference.kernel.placement import choose
from eunomia.inference.kernel.ranking import mark, take_first

ROUNDING = 2.0**-48  # of 1: where t is near 0 and the rank 0, keys whose deadlines are farther apart differ
WHOLE = 2.0**52  # up to here numbers one apart are told apart


@jitted
def score(k: Kernel, key: Key, facts: Record, now_s: float) -> float:
    """The key of a waiting sub-job as things stand."""
    k.scored += 1
    show_indicator(k, facts, now_s)
    return key(facts, system_of(k))


@jitted
def has_moved(k: Kernel, p: int, now_s: float) -> bool:
    """Whether a pair's indicator is another than what is kept of the pair was computed with; from now on it is that."""
    pair = pair_at(k, p)
    if pair.slo_kind == THROUGHPUT:
        refresh_throughput(k, p, now_s)
    if pair.gap == pair.keyed_gap and pair.count == pair.keyed_count:
        return False
    pair.keyed_gap, pair.keyed_count = pair.gap, pair.count
    return True


@jitted
def keep_rank(k: Kernel, key: Key, p: int, node: int, now_s: float) -> None:
    """The rank of a pair, as its indicator is now. ``node``: of that pair; -1 = look whether one waits."""
    pair = pair_at(k, p)
    if not has_moved(k, p, now_s) and pair.ranked == 1:
        return
    for heap in range(pair.first_heap, pair.first_heap + pair.heaps if node < 0 else 0):
        record = heap_at(k, heap)
        node = max(node, record.on_time, record.late)
    pair.ranked = 1 if node >= 0 else 0
    if node < 0:
        return  # not needed, and not known
    facts = facts_at(k, node)
    deadline_s, facts.deadline_s = facts.deadline_s, np.inf
    rank = score(k, key, facts, now_s)
    facts.deadline_s = deadline_s
    if rank == pair.keyed_rank:
        return
    pair.keyed_rank = rank
    for heap in range(pair.first_heap, pair.first_heap + pair.heaps):
        if heap_at(k, heap).on_time >= 0 or heap_at(k, heap).late >= 0:
            mark(k, heap)


@jitted
def in_rank(k: Kernel, key: Key, heap: int, now_s: float) -> float:
    """The key of a heap's first node."""
    record = heap_at(k, heap)
    if abs(record.rank) > WHOLE or not record.key < np.inf:
        return score(k, key, facts_at(k, record.node), now_s)
    left_s = record.key - now_s
    return (record.rank - 1.0) + left_s / (1.0 + abs(left_s))


@jitted
def first_by_rank(k: Kernel, key: Key, before: int, tiered: bool, now_s: float) -> tuple[int, int, int]:
    """(place of its heap, sub-job, accelerator) to start next, taken out of its heap; (-1, -1, -1) = hold."""
    at, s = first_heap(k, before)
    if s < 0:
        return -1, -1, -1
    heap, below = standing_at(k, at).value, at - 1
    best = heap_at(k, heap)
    value = best.value = in_rank(k, key, heap, now_s)
    span_s = 1.0 + abs(best.key - now_s)
    beyond = best.key + ROUNDING * (2.0 + abs(best.rank)) * span_s * span_s
    beyond = np.inf if value == best.rank else beyond  # the key of a deadline that never comes
    node = first_tied(k, key, heap, beyond, tiered, now_s)
    while below >= 0 and best.key < np.inf:
        other = standing_at(k, below).value
        below -= 1
        record = heap_at(k, other)
        if record.tier != best.tier or record.rank != best.rank or record.key > beyond:
            break
        record.value = in_rank(k, key, other, now_s)
        other_s = place_first(k, other) if record.value == value else -1
        if other_s >= 0:
            first = first_tied(k, key, other, beyond, tiered, now_s)
            if node_at(k, first).sequence < node_at(k, node).sequence:
                heap, s, node = other, other_s, first
    if node == best.node:
        take_first(k, at)
    else:
        s = choose(k, k.place, facts_at(k, node).row)  # a heap starts or holds alike, not at one place
        take(k, heap, node)
    node_at(k, node).key = value
    return at, node, s


@jitted
def first_tied(k: Kernel, key: Key, heap: int, beyond: float, tiered: bool, now_s: float) -> int:
    """Of a heap's nodes whose key equals that of its first, the one of least sequence; all are due by ``beyond``."""
    record = heap_at(k, heap)
    root, value, first = record.node, record.value, node_at(k, record.node).key
    if first == np.inf or node_at(k, root).child < 0:
        return root
    winner, depth = root, 1
    view_node_at(k, 0).value = node_at(k, root).child
    while depth > 0:  # through the heap, not beyond nodes that cannot have this key
        depth -= 1
        node = view_node_at(k, depth).value
        mine = node_at(k, node)
        if mine.sibling >= 0:
            view_node_at(k, depth).value = mine.sibling
            depth += 1
        if mine.key > beyond or (mine.key > first and score(k, key, facts_at(k, node), now_s) != value):
            continue
        if mine.child >= 0:
            view_node_at(k, depth).value = mine.child
            depth += 1
        late = record.tier == 0 and tiered and is_late(facts_at(k, node), now_s)
        if mine.sequence < node_at(k, winner).sequence and mine.state == WAITING and not late:
            winner = node
    return winner


@jitted
def take(k: Kernel, heap: int, node: int) -> None:
    """Take a node out of its heap, from behind nodes of almost the same base."""
    record, before = heap_at(k, heap), 0
    root = record.late if record.tier == 1 else record.on_time
    while root != node:
        view_node_at(k, before).value = root
        before += 1
        root = pop(k, root)
    root = pop(k, root)
    for i in range(before):
        root = push(k, root, view_node_at(k, i).value)
    if record.tier == 1:
        record.late = root
    else:
        record.on_time = root
    mark(k, heap)
