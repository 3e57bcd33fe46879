"""The greedy rule for keys that change while sub-jobs wait: which one is first, without scoring all at each decision.

An order says what keeps the sub-jobs of one pair, or of one layer of a pair, in order (``Order.kept_by``). By the
deadline: with all else equal a lesser one never has a greater key, at any instant. Then a group stays in a heap
by deadline, and a decision scores each heap's first node alone. Rounding may give nodes behind it the same key; the
least sequence goes first, so these few are looked for (``first_tied``). By the key: it does not read the clock, and
is computed anew when the indicator of its pair has changed. All others are scored one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eunomia.inference.kernel.dispatch import begin, first_heap, heaps_to_try, look_at_types, refresh_system
from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import pop, push
from eunomia.inference.kernel.indicators import THROUGHPUT, refresh_throughput, show_indicator
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import WAITING
from eunomia.inference.kernel.memory import (
    Kernel,
    Record,
    candidate_at,
    facts_at,
    heap_at,
    node_at,
    pair_at,
    row_at,
    system_of,
    view_node_at,
    waiting_at,
)
from eunomia.inference.kernel.placement import choose
from eunomia.inference.kernel.ranking import insert, mark, refresh_heads, remove_head
from eunomia.inference.kernel.setup import BY_KEY, NO_BASE

Key = Callable[[Any, Any], float]
MARGIN = 2.0**-40  # of the deadline: beyond it, a key that is no longer equal shows that none is


@jitted
def score(k: Kernel, key: Key, facts: Record, now_s: float) -> float:
    """The key of a waiting sub-job as things stand."""
    k.scored += 1
    show_indicator(k, facts, now_s)
    return key(facts, system_of(k))


@jitted
def enter_group(k: Kernel, key: Key, node: int, now_s: float) -> None:
    """A sub-job has become ready: keep it in the heap of its pair, by what keeps the order there."""
    facts = facts_at(k, node)
    node_at(k, node).key = facts.deadline_s
    if k.base == NO_BASE:
        return
    if k.base == BY_KEY:
        score_pair_anew(k, key, facts.pair, now_s)
        node_at(k, node).key = score(k, key, facts, now_s)
    insert(k, pair_at(k, facts.pair).first_heap + row_at(k, facts.row).heap, node)


@jitted
def keyed_round(k: Kernel, key: Key, now_s: float) -> None:
    """Start sub-jobs until nothing that waits would be given an idle accelerator, or the gate is shut."""
    system, tiered = system_of(k), k.tiered == 1
    refresh_system(k)
    if k.base == BY_KEY:
        for pair in range(k.num_pairs):
            score_pair_anew(k, key, pair, now_s)
    s = -1
    while k.num_waiting > 0 and k.num_running < k.num_lanes:
        if system.demand_bytes_s > k.gate * system.bandwidth_bytes_s:
            return
        look_at_types(k, s)
        if k.base == NO_BASE:
            node, s = first_of_all(k, key, tiered, now_s)
        else:
            refresh_heads(k, tiered, now_s)
            if k.base == BY_KEY:
                heap, s = first_heap(k)
                node = heap_at(k, heap).node
                if s >= 0:
                    mark(k, heap)
                    remove_head(k, heap, node)
            else:
                node, s = first_of_groups(k, key, tiered, now_s)
        if s < 0:
            return
        begin(k, node, s, now_s)


@jitted
def score_pair_anew(k: Kernel, key: Key, p: int, now_s: float) -> None:
    """Keys that read of what changes only how their pair is served hold until that changes."""
    pair = pair_at(k, p)
    if pair.slo_kind == THROUGHPUT:
        refresh_throughput(k, p, now_s)
    if pair.gap == pair.keyed_gap and pair.count == pair.keyed_count:
        return
    pair.keyed_gap, pair.keyed_count = pair.gap, pair.count
    for heap in range(pair.first_heap, pair.first_heap + pair.heaps):
        record = heap_at(k, heap)
        if record.on_time >= 0 or record.late >= 0:
            record.on_time = _scored_anew(k, key, record.on_time, now_s)
            record.late = _scored_anew(k, key, record.late, now_s)
            mark(k, heap)


@jitted
def _scored_anew(k: Kernel, key: Key, root: int, now_s: float) -> int:
    """The same heap by keys as they are now; returns its root."""
    count, new = 0, -1
    while root >= 0:
        view_node_at(k, count).value = root
        count += 1
        root = pop(k, root)
    for i in range(count):
        node = view_node_at(k, i).value
        node_at(k, node).key = score(k, key, facts_at(k, node), now_s)
        new = push(k, new, node)
    return new


@jitted
def first_of_all(k: Kernel, key: Key, tiered: bool, now_s: float) -> tuple[int, int]:
    """(sub-job, accelerator) to start next, every waiting one scored; (-1, -1) = hold."""
    best, best_s, best_late, best_key = -1, -1, 0, 0.0
    for w in range(k.num_waiting):
        node = waiting_at(k, w).value
        facts = facts_at(k, node)
        facts.late, facts.bound = 1 if is_late(facts, now_s) else 0, -1
        late, value = facts.late if tiered else 0, score(k, key, facts, now_s)
        if best >= 0:
            if late != best_late:
                if late > best_late:
                    continue
            elif value > best_key or (
                value == best_key and node_at(k, node).sequence > node_at(k, best).sequence
            ):
                continue
        s = choose(k, k.place, facts.row)
        if s >= 0:
            best, best_s, best_late, best_key = node, s, late, value
    if best >= 0:
        node_at(k, best).key = best_key
    return best, best_s


@jitted
def first_of_groups(k: Kernel, key: Key, tiered: bool, now_s: float) -> tuple[int, int]:
    """The same with the first node of each group scored; the one to start is taken out of its heap."""
    count = heaps_to_try(k)
    for i in range(count):
        record = heap_at(k, candidate_at(k, i).value)
        record.key = score(k, key, facts_at(k, record.node), now_s)
    while count > 0:
        at, tied = 0, False
        best = heap_at(k, candidate_at(k, 0).value)
        for i in range(1, count):
            record = heap_at(k, candidate_at(k, i).value)
            if record.tier != best.tier:
                before, same = record.tier < best.tier, False
            else:
                before, same = record.key < best.key, record.key == best.key
            if before:
                at, best, tied = i, record, False
            tied = tied or same
        heap = candidate_at(k, at).value
        s = choose(k, k.place, best.row)
        count -= 1
        candidate_at(k, at).value = candidate_at(k, count).value
        if s < 0:
            continue
        node = first_tied(k, key, heap, tiered, now_s)
        for i in range(count if tied else 0):
            other = candidate_at(k, i).value
            record = heap_at(k, other)
            if record.tier != best.tier or record.key != best.key:
                continue
            other_s = choose(k, k.place, record.row)
            if other_s >= 0:
                first = first_tied(k, key, other, tiered, now_s)
                if node_at(k, first).sequence < node_at(k, node).sequence:
                    heap, s, node = other, other_s, first
        take(k, heap, node)
        node_at(k, node).key = best.key
        return node, s
    return -1, -1


@jitted
def first_tied(k: Kernel, key: Key, heap: int, tiered: bool, now_s: float) -> int:
    """Of the nodes whose key equals that of a heap's first one, the node of least sequence."""
    record = heap_at(k, heap)
    root, value, first = record.node, record.key, node_at(k, record.node).key
    if first == float("inf") or node_at(k, root).child < 0:
        return root
    facts, beyond = facts_at(k, root), first + MARGIN * abs(first)
    facts.deadline_s = beyond
    if not score(k, key, facts, now_s) > value:
        beyond = float("inf")
    facts.deadline_s = first
    winner, depth = root, 1
    view_node_at(k, 0).value = node_at(k, root).child
    while depth > 0:  # through the heap, not beyond nodes that cannot have this key
        depth -= 1
        node = view_node_at(k, depth).value
        mine = node_at(k, node)
        if mine.sibling >= 0:
            view_node_at(k, depth).value = mine.sibling
            depth += 1
        if mine.key >= beyond or (mine.key > first and score(k, key, facts_at(k, node), now_s) != value):
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
