"""Rules and options as numbers in the KERNEL record, and how waiting sub-jobs are grouped into heaps."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.core.arrays import Ints
from eunomia.inference.by_type import is_any
from eunomia.inference.kernel.contention import CODES
from eunomia.inference.kernel.layout import Records
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem

RUN_LATE, LATE_LAST, DROP_LATE = range(3)
GREEDY, DYNAMIC, QUEUES, DECIDE, STEP = range(5)  # how decisions are made
PLACEMENTS = ("any_idle", "pref", "eft", "eft_ca", "first_idle")
ANY_IDLE, PREF, EFT, EFT_CA, FIRST_IDLE = range(5)
BINDS = ("round_robin", "random", "least_loaded", "throttled")
ROUND_ROBIN, RANDOM, LEAST_LOADED, THROTTLED = range(4)
NO_BIND = -1
KEPT_BY = ("", "deadline", "key", "rank")  # what may keep waiting sub-jobs of a group in order
NO_BASE, BY_DEADLINE, BY_KEY, BY_RANK = range(4)

WIDE = 4  # types that a loop takes at a time
MASKED = 62  # accelerators whose idleness is kept in one word
INSTANTS_BETWEEN_PAUSES = 1 << 20
WORTH_A_SPRINT = 500_000  # layers; a shorter run does without, and without the time to compile it
GRACE_S = 1e-9  # a request that ends this late is still a hit


class Rules(NamedTuple):
    """How the compiled part of the policy decides."""

    mode: int  # GREEDY: keys kept in heaps; DYNAMIC: keys at every decision; QUEUES; DECIDE: compiled; STEP: Python
    place: int = ANY_IDLE
    bind: int = NO_BIND  # queueing rules: how sub-jobs are bound to accelerators when they become ready
    feasible: bool = False
    gate: float = math.inf  # stop dispatching while estimated demand > gate * B
    throttle: int = 2
    base: int = (
        NO_BASE  # DYNAMIC: of the sub-jobs of a pair, a lesser fact never has a greater key (ordering.py)
    )
    per_layer: bool = False  # the same, but of one layer of a pair
    ahead: float = 0.0  # DECIDE: a tick queues its starts of so many periods (unrolling.py); 0 = one answer


def write_settings(kernel: Records, problem: Problem, rules: Rules, options: EngineOptions) -> None:
    """Put engine options and rules into the KERNEL record."""
    estimator, sharing = options.estimator, CONTENTION[problem.contention]
    values = {
        "mode": rules.mode,
        "place": rules.place,
        "base": base_of_run(rules, options),
        "bind": rules.bind,
        "feasible": rules.feasible,
        "types_wanted": rules.place in (EFT, EFT_CA),
        "demand_wanted": rules.place in (EFT, EFT_CA) or rules.gate < math.inf or options.record == "all",
        "sieved": rules.place == EFT and estimator.mode != "ewma",
        "tiered": rules.feasible or options.late == "last",
        "throttle": rules.throttle,
        "gate": rules.gate,
        "contention": CODES[problem.contention],
        "alike": 1 if sharing.alike is not None else 2 if sharing.beside is not None else 0,
        "free_below": sharing.free_below,
        "roofline": sharing.roofline,
        "weighs": sharing.weighs,
        "late": ("run", "last", "drop").index(options.late),
        "drop_expired": options.drop_when == "expired",
        "patch": options.period_mode == "patch",
        "period_cap": options.period_cap,
        "switches": options.switches,
        "record": options.record == "all",
        "seed": options.seed,
        "headroom": headroom(problem),
        "period_s": options.period_s or 0.0,
        "ahead": rules.ahead,
        "decision_s": options.decision_s,
        "jitters": is_any(estimator.jitter),
        "learn": estimator.alpha if estimator.mode == "ewma" else 0.0,
        "sli_ewma": options.sli_ewma or 0.0,
        "horizon_s": math.inf if options.horizon_s is None else options.horizon_s,
    }
    for name, value in values.items():
        kernel[name] = value


def headroom(problem: Problem) -> int:
    """Sub-jobs that can become ready at once: by ends on all accelerators, or by one arrival."""
    graph = problem.graph
    widest = int(np.diff(graph.successor_start).max(initial=1))
    entries = int(np.add.reduceat(graph.indegree == 0, graph.offset[:-1]).max())
    return len(problem.type_of) * widest + entries


def width(problem: Problem) -> int:
    """Layers of one request that can be ready or run at once, at most: an upper bound of the widest antichain.

    Each entry is one, and a layer with d successors can turn one into d; no model has more than its layers.
    """
    graph = problem.graph
    more = np.maximum(np.diff(graph.successor_start) - 1, 0) + (graph.indegree == 0)
    return int(np.minimum(np.add.reduceat(more, graph.offset[:-1]), np.diff(graph.offset)).max())


def followers(problem: Problem) -> Ints:
    """Per row: the row of its only successor, if that has no other predecessor; -1 = none."""
    graph = problem.graph
    rows = np.arange(len(graph.indegree))
    first = graph.offset[np.searchsorted(graph.offset, rows, side="right") - 1]
    successors = np.append(graph.successor, 0)[graph.successor_start[:-1]] + first
    alone = np.diff(graph.successor_start) == 1
    alone[alone] = graph.indegree[successors[alone]] == 1
    return np.where(alone, successors, -1)


def may_sprint(problem: Problem, rules: Rules, options: EngineOptions) -> bool:
    """Whether an accelerator may go on with the same request without anybody else being concerned (sprint.py)."""
    return (
        rules.mode == GREEDY
        and int(np.diff(problem.graph.offset)[problem.jobs.model].sum()) >= WORTH_A_SPRINT
        and rules.bind == NO_BIND
        and options.period_s is None
        and rules.place in (ANY_IDLE, FIRST_IDLE)
        and rules.gate == math.inf
        and options.record == "requests"
        and CONTENTION[problem.contention].alike is not None
        and options.estimator.mode != "ewma"
        and not is_any(options.estimator.jitter)
        and not options.switches
        and options.decision_s == 0.0
        and not options.charge_measured
        and (options.late != "drop" or options.drop_when == "expired")
    )


def base_of_run(rules: Rules, options: EngineOptions) -> int:
    """What keeps groups in order; nothing where what else the key reads of a layer changes in the run."""
    learns = options.estimator.mode == "ewma"
    return NO_BASE if rules.mode != DYNAMIC or (rules.per_layer and learns) else rules.base


class Classes(NamedTuple):
    """Heap of the sub-jobs of a row: ``row_heap`` + ``first_heap`` of their pair, which has ``pair_heaps`` of them."""

    row_heap: Ints
    first_heap: Ints
    pair_heaps: Ints
    heaps: int


def classes(problem: Problem, rules: Rules, options: EngineOptions) -> Classes:
    """Group rows so that of a group the placement rule starts all sub-jobs or none.

    The greedy rule then compares one head per group instead of every waiting sub-job. Where keys change with time
    a group is of one pair, too.
    """
    rows, lanes = len(problem.costs.estimate_s), len(problem.type_of)
    together, shared = np.zeros(rows, np.int64), np.zeros(len(problem.jobs.model_of), np.int64)
    if rules.bind != NO_BIND or options.period_s is not None:
        return Classes(
            together, shared, shared, lanes + 1
        )  # one queue per accelerator, one for what is not bound
    if rules.mode == GREEDY:
        row_class = _placement_classes(problem, rules, options)
        return Classes(row_class, shared, shared, int(row_class.max()) + 1)
    if base_of_run(rules, options) == NO_BASE:
        return Classes(together, shared, shared, 1)
    row_class = np.arange(rows) if rules.per_layer else _placement_classes(problem, rules, options)
    row_heap, count = together, np.zeros(len(problem.graph.offset) - 1, np.int64)
    for network, (first, end) in zip(
        problem.table.network_of, itertools.pairwise(problem.graph.offset), strict=True
    ):  # the sizes of a network have heaps of their own
        found, at = np.unique(row_class[first:end], return_inverse=True)
        row_heap[first:end] = at + count[network]
        count[network] += len(found)
    pair_heaps = count[problem.table.network_of[problem.jobs.model_of]]
    ends = np.cumsum(pair_heaps)
    return Classes(row_heap, ends - pair_heaps, pair_heaps, int(ends[-1]))


def _placement_classes(problem: Problem, rules: Rules, options: EngineOptions) -> Ints:
    """(rows,) numbers that are equal where the placement rule starts or holds alike."""
    estimate, demand = problem.costs.estimate_s, problem.costs.estimate_demand
    if options.estimator.mode == "ewma":
        return np.arange(len(estimate), dtype=np.int64)
    if rules.place == PREF:
        signature = estimate.argmin(axis=1)[:, None].astype(np.float64)
    elif rules.place == EFT:
        signature = estimate
    elif rules.place == EFT_CA:
        signature = np.hstack([estimate, demand])
    else:  # any idle accelerator that can run it will do
        signature = np.isfinite(estimate).astype(np.float64)
    _, inverse = np.unique(signature, axis=0, return_inverse=True)
    return np.ascontiguousarray(inverse.ravel(), np.int64)
