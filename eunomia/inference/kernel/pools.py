"""Pools and lists: slots of live requests, nodes of sub-jobs, and who waits."""

from __future__ import annotations

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import FREE, WAITING
from eunomia.inference.kernel.memory import Kernel, facts_at, node_at, queue_at, slot_at, waiting_at


@jitted
def new_slot(k: Kernel) -> int:
    """Index of a free slot; the caller has made sure that there is one."""
    slot = k.free_slot
    if slot >= 0:
        k.free_slot = slot_at(k, slot).first_waiting
    else:
        slot = k.used_slots
        k.used_slots += 1
    return slot


@jitted
def release_slot(k: Kernel, slot: int) -> None:
    """Give a slot back; its generation marks old timers as stale."""
    slot_at(k, slot).generation += 1
    slot_at(k, slot).first_waiting = k.free_slot
    k.free_slot = slot


@jitted
def new_node(k: Kernel) -> int:
    """Index of a free node; the caller has made sure that there is one."""
    node = k.free_node
    if node >= 0:
        k.free_node = node_at(k, node).sibling
    else:
        node = k.used_nodes
        k.used_nodes += 1
    return node


@jitted
def release_node(k: Kernel, node: int) -> None:
    """Give a node back."""
    node_at(k, node).state = FREE
    node_at(k, node).sibling = k.free_node
    k.free_node = node


@jitted
def link_waiting(k: Kernel, node: int, slot: int) -> None:
    """Enter a node into the lists of waiting sub-jobs: its request's, and the dense one."""
    record, mine = slot_at(k, slot), node_at(k, node)
    mine.state, mine.slot = WAITING, slot
    mine.previous, mine.next = -1, record.first_waiting
    if record.first_waiting >= 0:
        node_at(k, record.first_waiting).previous = node
    record.first_waiting = node
    mine.place = k.num_waiting
    waiting_at(k, k.num_waiting).value = node
    k.num_waiting += 1


@jitted
def unlink_waiting(k: Kernel, node: int) -> None:
    """Take a node out of the lists of waiting sub-jobs and out of its accelerator's queue count."""
    mine = node_at(k, node)
    if mine.previous >= 0:
        node_at(k, mine.previous).next = mine.next
    else:
        slot_at(k, mine.slot).first_waiting = mine.next
    if mine.next >= 0:
        node_at(k, mine.next).previous = mine.previous
    k.num_waiting -= 1
    last = waiting_at(k, k.num_waiting).value
    waiting_at(k, mine.place).value = last
    node_at(k, last).place = mine.place
    if mine.bound >= 0:
        queue = queue_at(k, mine.bound)
        queue.queued -= 1
        queue.queued_s = queue.queued_s - mine.bound_s if queue.queued > 0 else 0.0
        mine.bound = -1


@jitted
def is_waiting(k: Kernel, slot: int, layer: int) -> bool:
    """Whether a layer of a request is ready and not started."""
    node = slot_at(k, slot).first_waiting
    while node >= 0:
        if facts_at(k, node).layer == layer:
            return True
        node = node_at(k, node).next
    return False
