"""Who waits: columns and orders, brought up to date with the kernel's waiting list.

The list keeps its places from one decision to the next, but for what has left and what has come. A place whose
sub-job is another one than before is written anew, and moved to where it belongs in each order.
"""

from __future__ import annotations

import math

import numpy as np

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, Record, facts_at, node_at, order_at, waiting_at
from eunomia.inference.kernel.sorting import rows_of, sort_rows
from eunomia.inference.linear.columns import (
    ARRIVAL,
    BY_DUE,
    BY_SCORE,
    BY_WORK,
    BYTES_S,
    DATA,
    DUE,
    ISO,
    KEPT,
    LAST_RUN,
    LAYER,
    LOG_COST,
    LOG_ISO,
    LOG_WORK,
    NEW,
    PATH,
    REQUEST,
    ROOM,
    ROW,
    SEQUENCE,
    WORK,
    WORK_S,
    X,
    term,
)
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip

MANY = 24  # new sub-jobs: from so many on, an order is sorted as a whole


@jitted
def keep_up(k: Kernel, system: Record, bandwidth: float, logs: bool) -> None:
    """Bring columns and orders up to date."""
    waiting, kept, memory = k.num_waiting, int(system.memory[KEPT]), system.memory
    if memory[ROOM] != k.node_capacity:  # there is more room, and columns stand elsewhere
        for place in range(k.node_capacity):
            term(k, SEQUENCE, place).value = -1.0
        memory[ROOM], kept = k.node_capacity, 0
    new = 0
    for place in range(waiting):
        node = waiting_at(k, place).value
        other = place >= kept or term(k, SEQUENCE, place).value != node_at(k, node).sequence
        term(k, NEW, place).value = 1.0 if other else 0.0
        if other:
            write(k, place, node, bandwidth, logs)
            new += 1
    memory[KEPT] = waiting
    if new > 0 or waiting != kept:
        for which in range(BY_SCORE + 1):
            gather(k, which, kept, waiting)
        settle(k, BY_DUE, DUE, waiting, new)
        settle(k, BY_WORK, WORK, waiting, new)


@jitted
def write(k: Kernel, place: int, node: int, bandwidth: float, logs: bool) -> None:
    """Facts of a sub-job that has come to this place, and its features that stay while it waits."""
    facts = facts_at(k, node)
    work_s, bytes_s = max(facts.work_best_s, TINY_S), facts.bytes_left / bandwidth
    term(k, SEQUENCE, place).value, term(k, REQUEST, place).value = node_at(k, node).sequence, facts.request
    term(k, ROW, place).value, term(k, DUE, place).value = facts.row, facts.deadline_s
    term(k, ARRIVAL, place).value, term(k, PATH, place).value = facts.arrival_s, facts.path_best_s
    term(k, WORK, place).value, term(k, DATA, place).value = facts.work_best_s, facts.bytes_left
    term(k, ISO, place).value, term(k, LAST_RUN, place).value = facts.iso_best_s, facts.last_run_s
    term(k, LAYER, place).value = facts.iso_best_s / facts.layers_total
    term(k, WORK_S, place).value, term(k, BYTES_S, place).value = work_s, bytes_s
    term(k, X + f.DONE, place).value = clip(1.0 - facts.work_best_s / max(facts.iso_best_s, TINY_S), 0.0, 1.0)
    term(k, X + f.INTENSITY, place).value = min(4.0, bytes_s / work_s)
    term(k, X + f.STARTED, place).value = 1.0 if facts.attained_s > 0.0 else 0.0
    if logs:
        iso_s = max(facts.iso_best_s, TINY_S)
        tightness = math.log(max(facts.deadline_s - facts.arrival_s, TINY_S) / iso_s)
        term(k, X + f.TIGHTNESS, place).value = clip(tightness, -2.0, 4.0)
        term(k, LOG_WORK, place).value, term(k, LOG_ISO, place).value = math.log(work_s), math.log(iso_s)
        term(k, LOG_COST, place).value = math.log(work_s + bytes_s * k.num_lanes)


@jitted
def gather(k: Kernel, which: int, kept: int, waiting: int) -> None:
    """An order without what has left its place, then what has come."""
    first, count = which * k.node_capacity, 0
    for i in range(kept):
        place = order_at(k, first + i).value
        if place < waiting and term(k, NEW, place).value == 0.0:
            order_at(k, first + count).value = place
            count += 1
    for place in range(waiting):
        if term(k, NEW, place).value == 1.0:
            order_at(k, first + count).value = place
            count += 1


@jitted
def settle(k: Kernel, which: int, column: int, waiting: int, new: int) -> None:
    """Put what has come where it belongs, by one column; ties by deadline, request, sequence."""
    first, start = which * k.node_capacity, waiting - new
    if new > MANY:
        start, order, value = 1, rows_of(waiting), np.empty(waiting)
        for place in range(waiting):
            value[place] = term(k, column, place).value
        sort_rows(order, value)
        for i in range(waiting):
            order_at(k, first + i).value = order[i]
    for n in range(max(start, 1), waiting):
        place, i = order_at(k, first + n).value, n
        while i > 0 and before(k, column, place, order_at(k, first + i - 1).value):
            order_at(k, first + i).value = order_at(k, first + i - 1).value
            i -= 1
        order_at(k, first + i).value = place


@jitted
def before(k: Kernel, column: int, a: int, b: int) -> bool:
    """Whether a place goes before another: less in the column, then by deadline, request, sequence."""
    mine, theirs = term(k, column, a).value, term(k, column, b).value
    if mine != theirs:
        return mine < theirs  # type: ignore[no-any-return]
    mine, theirs = term(k, DUE, a).value, term(k, DUE, b).value
    if mine != theirs:
        return mine < theirs  # type: ignore[no-any-return]
    mine, theirs = term(k, REQUEST, a).value, term(k, REQUEST, b).value
    if mine != theirs:
        return mine < theirs  # type: ignore[no-any-return]
    return term(k, SEQUENCE, a).value < term(k, SEQUENCE, b).value  # type: ignore[no-any-return]
