"""From what a scheduler sees to a group of jobs: the next unfinished layers of the most urgent requests. Compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import typeof, types

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.policies.knowledge import Knowledge


class Frontier(NamedTuple):
    """Ready and running layers, request by request in order of urgency."""

    start: Ints  # (R + 1,) entries of each request
    layer: Ints  # (entries,)
    lane: Ints  # (entries,) where it runs; -1 = ready
    model: Ints  # (R,)
    deadline_s: Floats  # (R,) from now on


class Gathered(NamedTuple):
    """Jobs of a group; free ones first. ``request`` counts the frontier's requests."""

    row: Ints  # (n,) of Knowledge
    request: Ints  # (n,)
    layer: Ints  # (n,)
    lane: Ints  # (n,) where it runs; -1 = free
    indegree: Ints  # (n,) unfinished predecessors
    successor_start: Ints  # (n + 1,)
    successor: Ints  # (edges,) jobs
    deadline_s: Floats  # (R,) less the best-case time of what follows the group
    genes: int


_Arrays: TypeAlias = tuple[
    Ints, Ints, Ints, Ints, Ints, Ints, Ints, Floats, int
]  # the fields of ``Gathered``


@jitted
def _choose(knowledge: Knowledge, frontier: Frontier, r: int, depth: int, chosen: Ints) -> float:
    """Mark (1 free, 2 running) the layers of request r to map; returns the time of what is left out."""
    offset = knowledge.offset[frontier.model[r]]
    count = knowledge.offset[frontier.model[r] + 1] - offset
    unfinished = np.zeros(count, np.bool_)
    chosen[:count] = 0
    free = 0
    for entry in range(frontier.start[r], frontier.start[r + 1]):
        layer = frontier.layer[entry]
        unfinished[layer] = True
        chosen[layer] = 1 if frontier.lane[entry] < 0 else 2
        free += chosen[layer] % 2
    left_out_s = 0.0
    for layer in range(count):
        if not unfinished[layer]:
            continue
        for edge in range(
            knowledge.successor_start[offset + layer], knowledge.successor_start[offset + layer + 1]
        ):
            unfinished[knowledge.successor[edge]] = True
        if chosen[layer] == 0 and free < depth:
            chosen[layer] = 1
            free += 1
        elif chosen[layer] == 0:
            left_out_s = max(left_out_s, knowledge.path_best_s[offset + layer])
    return left_out_s


def _gather(knowledge: Knowledge, frontier: Frontier, most: int) -> _Arrays:
    """About ``most`` free jobs: all ready layers, and as many of those after them from each request."""
    requests = len(frontier.model)
    widest = 1
    for m in range(len(knowledge.offset) - 1):
        widest = max(widest, knowledge.offset[m + 1] - knowledge.offset[m])
    chosen = np.zeros((requests, widest), np.int64)
    deadline_s = frontier.deadline_s.copy()
    depth, total, edges, genes = max(1, most // max(1, requests)), 0, 0, 0
    for r in range(requests):
        deadline_s[r] -= _choose(knowledge, frontier, r, depth, chosen[r])
        offset = knowledge.offset[frontier.model[r]]
        for layer in range(widest):
            if chosen[r, layer] > 0:
                total += 1
                genes += chosen[r, layer] % 2
                edges += (
                    knowledge.successor_start[offset + layer + 1] - knowledge.successor_start[offset + layer]
                )
    row, request, layers = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    lane, indegree = np.full(total, -1), np.zeros(total, np.int64)
    job = np.full((requests, widest), -1)
    n = 0
    for kind in (1, 2):
        for r in range(requests):
            for layer in range(widest):
                if chosen[r, layer] == kind:
                    job[r, layer] = n
                    row[n] = knowledge.offset[frontier.model[r]] + layer
                    request[n], layers[n] = r, layer
                    n += 1
    for r in range(requests):
        for entry in range(frontier.start[r], frontier.start[r + 1]):
            lane[job[r, frontier.layer[entry]]] = frontier.lane[entry]
    start, successor = np.zeros(total + 1, np.int64), np.empty(edges, np.int64)
    used = 0
    for n in range(total):
        for edge in range(knowledge.successor_start[row[n]], knowledge.successor_start[row[n] + 1]):
            after = job[request[n], knowledge.successor[edge]]
            if after >= 0:
                successor[used] = after
                indegree[after] += 1
                used += 1
        start[n + 1] = used
    return row, request, layers, lane, indegree, start, successor[:used].copy(), deadline_s, genes


@cache
def _compiled() -> Callable[[Knowledge, Frontier, int], _Arrays]:
    one, number = np.zeros(1, np.int64), np.zeros(1)
    table = np.zeros((1, 1))
    knowledge = Knowledge(table, table, number, one, one, one)
    frontier = Frontier(one, one, one, one, number)
    ints, floats = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
    result = types.Tuple((ints,) * 7 + (floats, types.int64))
    signature = result(typeof(knowledge), typeof(frontier), types.int64)
    return compile_cached(_gather, signature, "gather", "inference/kernel", "inference/policies")


def gather(knowledge: Knowledge, frontier: Frontier, most: int) -> Gathered:
    """The jobs to map: every ready and running layer, and up to ``most`` / R free layers of each of R requests.

    Layers are taken in their order within the network, so that predecessors come with their successors. What a request
    does after its last layer of the group is taken off its deadline at its best-case time.
    """
    return Gathered(*_compiled()(knowledge, frontier, most))


def free_jobs(frontier: Frontier, most: int, limit: int | None) -> int:
    """What to ask ``gather`` for: ``most``, or less so that running and free jobs are ``limit`` together.

    It takes max(ready, d) free jobs of each of R requests, d = most // R >= 1; more than ``limit`` where d = 1 is.
    """
    requests = len(frontier.model)
    if limit is None or not requests:
        return most
    running = frontier.lane >= 0
    of = np.repeat(np.arange(requests), np.diff(frontier.start))
    ready = np.bincount(of[~running], minlength=requests)
    depth = max(1, min(most, limit - int(running.sum())) // requests)
    while depth > 1 and np.maximum(ready, depth).sum() + running.sum() > limit:
        depth -= 1
    return depth * requests
