"""The greedy rule for keys that change while sub-jobs wait: which one is first, without scoring all at each decision.

An order says what keeps the sub-jobs of one pair, or of one layer of a pair, in order (``Order.kept_by``). By the
deadline: with all else equal a lesser one never has a greater key, at any instant. Then a group stays in a heap
by deadline, and a decision scores each heap's first node alone. Rounding may give nodes behind it the same key; the
least sequence goes first, so these few are looked for (``first_tied``). By the key: it does not read the clock, and
is computed anew when the indicator of its pair has changed. By rank: pairs have ranks, and of one rank the lesser
deadline goes first; then all heaps stand in order, and only the one that starts is scored (ranked.py). All others
are scored one by one.
"""

from __future__ import annotations

import numpy as np

from eunomia.inference.kernel.dispatch import begin, look_at_types, refresh_system
from eunomia.inference.kernel.facts import is_late
from eunomia.inference.kernel.heap import pop, push
from eunomia.inference.kernel.holding import first_heap, place_first
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.loop import Key
from eunomia.inference.kernel.memory import (
    Kernel,
    candidate_at,
    facts_at,
    heap_at,
    node_at,
    pair_at,
    row_at,
    standing_at,
    system_of,
    view_node_at,
    waiting_at,
)
from eunomia.inference.kernel.placement import choose
from eunomia.inference.kernel.ranked import first_by_rank, first_tied, has_moved, keep_rank, score, take
from eunomia.inference.kernel.ranking import insert_standing, mark, refresh_heads, take_first
from eunomia.inference.kernel.setup import BY_DEADLINE, BY_KEY, BY_RANK, NO_BASE

MARGIN = 2.0**-40  # of the deadline: beyond it, a key that is no longer equal shows that none is


@jitted
def enter_group(k: Kernel, key: Key, node: int, now_s: float) -> None:
    """A sub-job has become ready: keep it in the heap of its pair, by what keeps the order there."""
    facts = facts_at(k, node)
    node_at(k, node).key = facts.deadline_s
    if k.base == NO_BASE:
        return
    if k.base == BY_KEY:
        if k.gaps_moved > 0:
            keep_keys(k, key, facts.pair, now_s)
        node_at(k, node).key = score(k, key, facts, now_s)
    if k.base == BY_RANK and (k.gaps_moved > 0 or pair_at(k, facts.pair).ranked == 0):
        keep_rank(k, key, facts.pair, node, now_s)
    insert_standing(k, pair_at(k, facts.pair).first_heap + row_at(k, facts.row).heap, node)


@jitted
def keyed_round(k: Kernel, key: Key, now_s: float) -> None:
    """Start sub-jobs until nothing that waits would be given an idle accelerator, or the gate is shut."""
    system, tiered = system_of(k), k.tiered == 1
    refresh_system(k)
    if k.gaps_moved > 0:
        keep_all(k, key, now_s)
    at, s = -1, -1
    while k.num_waiting > 0 and k.num_running < k.num_lanes:
        if system.demand_bytes_s > k.gate * system.bandwidth_bytes_s:
            return
        look_at_types(k, s)
        if k.base == NO_BASE:
            node, s = first_of_all(k, key, tiered, now_s)
        else:
            refresh_heads(k, tiered, now_s)
            if k.base == BY_DEADLINE:
                node, s = first_of_groups(k, key, tiered, now_s)
            elif k.base == BY_RANK:
                at, node, s = first_by_rank(k, key, at, tiered, now_s)
            else:
                at, s = first_heap(k, at)
                node = take_first(k, at) if s >= 0 else -1
        if s < 0:
            return
        begin(k, node, s, now_s)


@jitted
def keep_all(k: Kernel, key: Key, now_s: float) -> None:
    """What is kept of all pairs, as their indicators are now."""
    for pair in range(k.num_pairs):
        if k.base == BY_KEY:
            keep_keys(k, key, pair, now_s)
        elif k.base == BY_RANK:
            keep_rank(k, key, pair, -1, now_s)
    if k.gaps_moved == 1:
        k.gaps_moved = 0  # 2: those of some pair move with the clock


@jitted
def keep_keys(k: Kernel, key: Key, p: int, now_s: float) -> None:
    """Keys that read of what changes only how their pair is served hold until that changes."""
    if not has_moved(k, p, now_s):
        return
    pair = pair_at(k, p)
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
def heaps_to_try(k: Kernel) -> int:
    """List, in ``candidates``, the heaps that may give the next sub-job; returns their number."""
    count = 0
    for i in range(k.num_standing):
        heap = standing_at(k, i).value
        candidate_at(k, count).value = heap
        count += 1 if place_first(k, heap) >= 0 else 0
    return count


@jitted
def first_of_groups(k: Kernel, key: Key, tiered: bool, now_s: float) -> tuple[int, int]:
    """The same with the first node of each group scored; the one to start is taken out of its heap."""
    count = heaps_to_try(k)
    for i in range(count):
        record = heap_at(k, candidate_at(k, i).value)
        record.value = score(k, key, facts_at(k, record.node), now_s)
    while count > 0:
        at, tied = 0, False
        best = heap_at(k, candidate_at(k, 0).value)
        for i in range(1, count):
            record = heap_at(k, candidate_at(k, i).value)
            if record.tier != best.tier:
                before, same = record.tier < best.tier, False
            else:
                before, same = record.value < best.value, record.value == best.value
            if before:
                at, best, tied = i, record, False
            tied = tied or same
        heap = candidate_at(k, at).value
        s = place_first(k, heap)
        count -= 1
        candidate_at(k, at).value = candidate_at(k, count).value
        if s < 0:
            continue
        node = first_tied(k, key, heap, _beyond(k, key, heap, now_s), tiered, now_s)
        for i in range(count if tied else 0):
            other = candidate_at(k, i).value
            record = heap_at(k, other)
            if record.tier != best.tier or record.value != best.value:
                continue
            other_s = place_first(k, other)
            if other_s >= 0:
                first = first_tied(k, key, other, _beyond(k, key, other, now_s), tiered, now_s)
                if node_at(k, first).sequence < node_at(k, node).sequence:
                    heap, s, node = other, other_s, first
        if node != heap_at(k, heap).node:
            s = choose(k, k.place, facts_at(k, node).row)
        take(k, heap, node)
        node_at(k, node).key = best.value
        return node, s
    return -1, -1


@jitted
def _beyond(k: Kernel, key: Key, heap: int, now_s: float) -> float:
    """A deadline from which on no key equals that of a heap's first node; inf = not known."""
    record = heap_at(k, heap)
    facts, first = facts_at(k, record.node), node_at(k, record.node).key
    if first == np.inf or node_at(k, record.node).child < 0:
        return first
    beyond = first + MARGIN * abs(first)
    facts.deadline_s = beyond
    value = score(k, key, facts, now_s)
    facts.deadline_s = first
    return beyond if value > record.value else np.inf
