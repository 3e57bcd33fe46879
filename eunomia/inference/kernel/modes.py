"""Kinds of policy and their event loops: heaps of waiting sub-jobs, views of them, queues per accelerator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from eunomia.inference.kernel.dispatch import (
    bind,
    greedy_round,
    pull_throttled,
    queue_round,
    refresh_system,
)  # fmt: skip
from eunomia.inference.kernel.indicators import show_indicator
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.keyed import enter_group, keyed_round
from eunomia.inference.kernel.loop import (
    ADVANCE,
    ASK,
    ASK_TICK,
    BEFORE_TICK,
    DECIDING,
    FAULT,
    GO_ON,
    TICK,
    Key,
    begin_round,
    can_decide,
    make_run,
)  # fmt: skip
from eunomia.inference.kernel.memory import (
    KERNEL_TYPE,
    Kernel,
    accelerators_of,
    answers_of,
    demand_of,
    energy_of,
    facts_at,
    fresh_at,
    latency_of,
    node_at,
    priorities_of,
    row_at,
    shown_of,
    system_of,
)  # fmt: skip
from eunomia.inference.kernel.period import collect, patch_other, plan_greedy
from eunomia.inference.kernel.placement import bind_target, least_finish_queue
from eunomia.inference.kernel.ranking import insert, insert_standing
from eunomia.inference.kernel.setup import (
    DYNAMIC,
    GREEDY,
    NO_BIND,
    STEP,
    THROTTLED,
    Rules,
    may_sprint,
)
from eunomia.inference.kernel.signatures import DECIDE_TYPE, KEY_TYPE
from eunomia.inference.kernel.sprint import sprint
from eunomia.inference.kernel.unrolling import plan
from eunomia.inference.kernel.viewing import bind_answers, show, show_all, start_answers, start_linear
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem

# -- heaps: static keys, no period ----------------------------------------------------------------


@jitted
def into_heaps(k: Kernel, key: Key) -> None:
    """Keep each sub-job in the heap of its row, by its key."""
    for i in range(k.num_fresh):
        node = fresh_at(k, i).value
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        heap = row_at(k, facts_at(k, node).row).heap
        if k.num_heaps == 1:
            insert(k, heap, node)
        else:
            insert_standing(k, heap, node)
    k.num_fresh = 0


@jitted
def decide_by_heaps(k: Kernel, key: Key, decide: Callable[..., int], until_s: float) -> int:
    """The greedy rule."""
    if can_decide(k):
        begin_round(k)
        greedy_round(k, system_of(k).now_s)
    return GO_ON


@jitted
def never_resumed(k: Kernel, answers: int) -> int:
    """Heaps never ask."""
    return FAULT


# -- views: every decision sees all waiting sub-jobs ------------------------------------------------


@jitted
def into_view(k: Kernel, key: Key) -> None:
    """No key yet: the view is gathered when a decision is due. Keys that change have places of their own."""
    for i in range(k.num_fresh):
        if k.mode == DYNAMIC:
            enter_group(k, key, fresh_at(k, i).value, system_of(k).now_s)
        else:
            node_at(k, fresh_at(k, i).value).key = np.nan
    k.num_fresh = 0


@jitted
def decide_by_view(k: Kernel, key: Key, decide: Callable[..., int], until_s: float) -> int:
    """Keys that change, a compiled policy, or a stepped one."""
    if not can_decide(k):
        return GO_ON
    begin_round(k)
    if k.mode == STEP:
        k.shown = show_all(k, system_of(k).now_s)
        k.phase = DECIDING
        return ASK
    if k.mode == DYNAMIC:
        keyed_round(k, key, system_of(k).now_s)
        return GO_ON
    return GO_ON if decide_round(k, decide) else FAULT


@jitted
def resume_view(k: Kernel, answers: int) -> int:
    """Start what a stepped policy answered; ask again while something can start."""
    now_s = system_of(k).now_s
    if not start_answers(k, answers, k.shown, now_s):
        return FAULT
    if answers > 0 and can_decide(k):
        k.shown = show_all(k, now_s)
        return ASK
    k.phase = ADVANCE
    return GO_ON


@jitted
def call_policy(k: Kernel, decide: Callable[..., int], shown: int) -> int:
    """Ask a compiled policy; returns the number of answers."""
    lanes = k.num_lanes
    return decide(
        shown_of(k, shown), latency_of(k, shown, lanes), demand_of(k, shown, lanes), energy_of(k, shown, lanes),
        accelerators_of(k, lanes), system_of(k), answers_of(k, k.node_capacity, 2), priorities_of(k, k.node_capacity),
    )  # fmt: skip


_plan = jitted(plan)


@jitted
def plan_ahead(k: Kernel, decide: Callable[..., int], shown: int) -> int:
    """Ask it again and again for what it would start within ``ahead`` periods; returns the number of answers."""
    lanes = k.num_lanes
    return _plan(
        shown_of(k, shown),
        latency_of(k, shown, lanes),
        demand_of(k, shown, lanes),
        energy_of(k, shown, lanes),
        accelerators_of(k, lanes),
        system_of(k),
        answers_of(k, k.node_capacity, 2),
        priorities_of(k, k.node_capacity),
        decide,
        k.ahead,
    )


@jitted
def decide_round(k: Kernel, decide: Callable[..., int]) -> bool:
    """Ask a compiled policy until it has nothing to add; False at an illegal answer."""
    if k.linear_at != 0:
        start_linear(k, system_of(k).now_s)
        return True
    while can_decide(k):
        shown = show_all(k, system_of(k).now_s)
        k.shown = shown
        answers = call_policy(k, decide, shown)
        if answers == 0:
            return True
        if not start_answers(k, answers, shown, system_of(k).now_s):
            return False
    return True


# -- queues: bound to an accelerator when ready, or at the ticks of a period ------------------------


@jitted
def into_queues(k: Kernel, key: Key) -> None:
    """Bind each sub-job, in order of becoming ready."""
    for i in range(k.num_fresh):
        into_queue(k, key, fresh_at(k, i).value)
    k.num_fresh = 0


@jitted
def into_queue(k: Kernel, key: Key, node: int) -> None:
    """Bind a sub-job by the queueing rule, or by the rule for what becomes ready between ticks."""
    if k.bind != NO_BIND and k.period_s == 0.0:
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        target = bind_target(k, k.bind, node)
        if target >= 0:
            bind(k, node, target)
        else:
            insert(k, k.num_lanes, node)
    elif not k.patch:
        node_at(k, node).key = np.nan
    elif k.mode <= DYNAMIC:
        show_indicator(k, facts_at(k, node), system_of(k).now_s)
        node_at(k, node).key = key(facts_at(k, node), system_of(k))
        bind(k, node, least_finish_queue(k, facts_at(k, node).row, True))
    else:
        patch_other(k, node)


@jitted
def decide_by_queues(k: Kernel, key: Key, decide: Callable[..., int], until_s: float) -> int:
    """The tick, if one is due; then every idle accelerator serves its queue."""
    if k.phase == BEFORE_TICK:
        k.phase = DECIDING
        if tick_is_due(k, until_s):
            status = tick(k, key, decide)
            if status != GO_ON:
                return status
    if not can_decide(k):
        return GO_ON
    if k.period_s == 0.0:
        begin_round(k)
        if k.bind == THROTTLED:
            pull_throttled(k, system_of(k).now_s)
        if k.mode == STEP:
            k.shown = show_all(k, system_of(k).now_s)
            return ASK
    queue_round(k, system_of(k).now_s)
    return GO_ON


@jitted
def resume_queues(k: Kernel, answers: int) -> int:
    """Queue what a stepped policy answered at a tick, or start what it took from the queues."""
    if k.phase != TICK:
        return resume_view(k, answers)
    k.phase = DECIDING
    return GO_ON if bind_answers(k, answers, k.shown) else FAULT


@jitted
def tick_is_due(k: Kernel, until_s: float) -> bool:
    """Whether a period boundary falls on this instant and something waits; skips boundaries that passed."""
    period_s = k.period_s
    if period_s == 0.0:
        return False
    now_s = system_of(k).now_s
    first = int(np.ceil((now_s - (until_s - now_s)) / period_s))
    k.next_tick = max(k.next_tick, first)
    if k.next_tick * period_s <= until_s:
        k.next_tick += 1
        return k.num_waiting > 0
    return False


@jitted
def tick(k: Kernel, key: Key, decide: Callable[..., int]) -> int:
    """A period boundary: queue the most urgent waiting sub-jobs anew."""
    begin_round(k)
    refresh_system(k)
    count = collect(k)
    if k.mode <= DYNAMIC:
        plan_greedy(k, key, count, system_of(k).now_s)
        return GO_ON
    show(k, count, system_of(k).now_s)
    k.shown = count
    if k.mode == STEP:
        k.phase = TICK
        return ASK_TICK
    answers = plan_ahead(k, decide, count) if k.ahead > 0.0 else call_policy(k, decide, count)
    return GO_ON if bind_answers(k, answers, count) else FAULT


@jitted
def take_time(k: Kernel, key: Key) -> None:
    """Every event goes the long way."""


# -- compiled loops ---------------------------------------------------------------------------------

HEAPS, SPRINT, VIEWS, QUEUES = "heaps", "sprint", "views", "queues"
_PARTS = {
    HEAPS: (into_heaps, decide_by_heaps, never_resumed, take_time),
    SPRINT: (into_heaps, decide_by_heaps, never_resumed, sprint),
    VIEWS: (into_view, decide_by_view, resume_view, take_time),
    QUEUES: (into_queues, decide_by_queues, resume_queues, take_time),
}


def kind_of(problem: Problem, rules: Rules, options: EngineOptions) -> str:
    """Which of the event loops runs these rules."""
    if rules.bind != NO_BIND or options.period_s is not None:
        return QUEUES
    if rules.mode != GREEDY:
        return VIEWS
    return SPRINT if may_sprint(problem, rules, options) else HEAPS


@cache
def compiled_run(kind: str) -> Any:
    """The loop ``run(kernel, key, decide, answers) -> status`` for one kind; loaded from the cache if there."""
    signature = types.int64(types.Array(KERNEL_TYPE, 1, "C"), KEY_TYPE, DECIDE_TYPE, types.int64)
    return compile_cached(make_run(*_PARTS[kind]), signature, kind, "inference/kernel")
