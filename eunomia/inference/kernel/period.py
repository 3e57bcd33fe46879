"""Periodic decisions: at a tick the most urgent waiting sub-jobs are queued anew, accelerator by accelerator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eunomia.inference.kernel.dispatch import bind, takes_precedence
from eunomia.inference.kernel.indicators import show_indicator
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DEAD
from eunomia.inference.kernel.memory import (
    Kernel,
    facts_at,
    heap_at,
    node_at,
    queue_at,
    slot_at,
    system_of,
    view_node_at,
    waiting_at,
)
from eunomia.inference.kernel.placement import least_finish_queue
from eunomia.inference.kernel.pools import release_node
from eunomia.inference.kernel.ranking import insert
from eunomia.inference.kernel.setup import EFT, EFT_CA


@jitted
def collect(k: Kernel) -> int:
    """Take the first ``period_cap`` waiting sub-jobs, by (deadline, sequence), out of their queues.

    They stand in ``view_nodes`` afterwards, in this order; returns their number.
    """
    cap, count = k.period_cap, 0
    for w in range(k.num_waiting):
        node = waiting_at(k, w).value
        i = min(count, cap)
        if i == cap and not _more_urgent(k, node, view_node_at(k, cap - 1).value):
            continue
        if i == cap:
            i -= 1
        while i > 0 and _more_urgent(k, node, view_node_at(k, i - 1).value):
            view_node_at(k, i).value = view_node_at(k, i - 1).value
            i -= 1
        view_node_at(k, i).value = node
        count = min(count + 1, cap)
    for i in range(count):
        _unbind(k, view_node_at(k, i).value)
    _rebuild(k)
    return count


@jitted
def _more_urgent(k: Kernel, node: int, other: int) -> bool:
    if facts_at(k, node).deadline_s != facts_at(k, other).deadline_s:
        return facts_at(k, node).deadline_s < facts_at(k, other).deadline_s
    return node_at(k, node).sequence < node_at(k, other).sequence


@jitted
def _unbind(k: Kernel, node: int) -> None:
    mine = node_at(k, node)
    if mine.bound >= 0:
        queue = queue_at(k, mine.bound)
        queue.queued -= 1
        queue.queued_s = queue.queued_s - mine.bound_s if queue.queued > 0 else 0.0
        mine.bound = -1


@jitted
def _rebuild(k: Kernel) -> None:
    """Heaps of what is still bound; nodes of dropped requests are given back."""
    for heap in range(k.num_heaps):
        heap_at(k, heap).on_time = heap_at(k, heap).late = -1
        heap_at(k, heap).marked = 0
    k.num_marked = 0
    for node in range(k.used_nodes):
        if node_at(k, node).state == DEAD:
            release_node(k, node)
    for w in range(k.num_waiting):
        node = waiting_at(k, w).value
        if node_at(k, node).bound >= 0:
            insert(k, node_at(k, node).bound, node)


@jitted
def plan_greedy(k: Kernel, key: Callable[..., float], count: int, now_s: float) -> None:
    """Queue the collected sub-jobs in the greedy order, each on the accelerator that its rule prefers."""
    tiered = k.tiered == 1
    queues = k.place in (EFT, EFT_CA)
    for i in range(count):
        node = view_node_at(k, i).value
        show_indicator(k, facts_at(k, node), now_s)
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        j = i
        while j > 0 and takes_precedence(k, node, view_node_at(k, j - 1).value, tiered, now_s):
            view_node_at(k, j).value = view_node_at(k, j - 1).value
            j -= 1
        view_node_at(k, j).value = node
    for i in range(count):
        node = view_node_at(k, i).value
        bind(k, node, least_finish_queue(k, facts_at(k, node).row, queues))


@jitted
def patch_other(k: Kernel, node: int) -> None:
    """A sub-job that becomes ready between ticks inherits its request's priority, on its fastest accelerator."""
    slot = node_at(k, node).slot
    record = slot_at(k, slot)
    node_at(k, node).key = -record.given_priority if record.has_priority == 1 else np.inf
    bind(k, node, least_finish_queue(k, facts_at(k, node).row, False))
