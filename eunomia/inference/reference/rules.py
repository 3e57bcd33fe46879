"""Greedy rules evaluated the naive way: keys, placements and queue bindings, one sub-job at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eunomia.core.errors import UnknownNameError
from eunomia.inference.reference.noise import BIND, ORDER, uniform

STATIC = ("fcfs", "edf", "sjf", "sjf_mean", "llf", "llf_mean", "heft", "edf_bytes", "priority", "shuffled")
DYNAMIC = ("laxity_ratio", "deficit_edf", "deficit_llf")  # keys that are evaluated at every decision
ORDERS = (*STATIC, *DYNAMIC)
PLACES = ("any_idle", "pref", "eft", "eft_ca", "first_idle")
QUEUE_RULES = ("round_robin", "random", "least_loaded", "throttled")


@dataclass(frozen=True, slots=True)
class Rule:
    """An order and a placement; a placement of QUEUE_RULES binds sub-jobs to queues when they become ready."""

    order: str = "fcfs"
    place: str = "any_idle"
    feasible: bool = False
    gate: float = math.inf  # start nothing while the estimated demand exceeds gate * B
    throttle: int = 2  # sub-jobs per accelerator under "throttled"


def key(order: str, job: Any, now_s: float, gap: float, bandwidth: float, seed: int) -> float:
    """Ordering key of a sub-job with READY's facts as attributes; least goes first."""
    if order == "fcfs":
        return float(job.arrival_s)
    if order == "edf":
        return float(job.deadline_s)
    if order == "sjf":
        return float(job.work_best_s)
    if order == "sjf_mean":
        return float(job.work_mean_s)
    if order == "llf":
        return float(job.deadline_s - job.path_best_s)
    if order == "llf_mean":
        return float(job.deadline_s - job.path_mean_s)
    if order == "heft":
        return float(-job.path_mean_s)
    if order == "edf_bytes":
        return float(job.deadline_s + 3.0 * job.bytes_left / bandwidth)
    if order == "laxity_ratio":
        return float((job.deadline_s - now_s) / job.path_best_s)
    if order == "priority":
        return float(-job.priority)
    if order == "deficit_edf":
        return _shrunk(job.deadline_s - now_s, gap)
    if order == "deficit_llf":
        return _shrunk(job.deadline_s - now_s - job.path_best_s, gap)
    if order == "shuffled":
        return uniform(seed, job.request, job.layer, ORDER)
    raise UnknownNameError("order", order, ORDERS)


def _shrunk(left_s: float, gap: float) -> float:
    """Time left, less the pair's shortfall in per cent; what is late stays as late as it is."""
    return left_s if left_s <= 0.0 else left_s * (1.0 - min(max(0.0, gap), 0.99))


@dataclass(frozen=True, slots=True)
class Spot:
    """One accelerator as a placement rule sees it for one sub-job; ``estimate_s`` inf = cannot run it."""

    index: int
    kind: int
    idle: bool
    free_s: float
    queued: int
    queued_s: float
    estimate_s: float
    demand_bytes_s: float


def place(rule: str, spots: Sequence[Spot], demand: float, bandwidth: float) -> int | None:
    """Accelerator that an event-driven greedy rule starts the sub-job on; None = hold."""
    able = [spot for spot in spots if spot.estimate_s < math.inf]
    idle = [spot for spot in able if spot.idle]
    if not idle:
        return None
    slow = max(1.0, demand / bandwidth)
    if rule == "first_idle":
        return idle[0].index
    if rule == "any_idle":
        return min(idle, key=lambda spot: (spot.estimate_s, spot.index)).index
    if rule == "pref":
        favourite = min(able, key=lambda spot: (spot.estimate_s, spot.kind)).kind
        return next((spot.index for spot in idle if spot.kind == favourite), None)
    if rule == "eft":
        chosen = min(
            able, key=lambda spot: ((spot.free_s + spot.estimate_s) * slow, not spot.idle, spot.index)
        )
    elif rule == "eft_ca":
        chosen = min(
            able,
            key=lambda spot: (
                spot.free_s * slow + spot.estimate_s * max(1.0, (demand + spot.demand_bytes_s) / bandwidth),
                not spot.idle,
                spot.index,
            ),
        )
    else:
        raise UnknownNameError("place", rule, (*PLACES, *QUEUE_RULES))
    return chosen.index if chosen.idle else None


def place_in_period(spots: Sequence[Spot], with_queues: bool) -> int:
    """Accelerator whose queue a sub-job enters: least free + queued + c', or least c' alone."""
    able = [spot for spot in spots if spot.estimate_s < math.inf]
    if with_queues:
        return min(able, key=lambda spot: (spot.free_s + spot.queued_s + spot.estimate_s, spot.index)).index
    return min(able, key=lambda spot: (spot.estimate_s, spot.index)).index


def is_close_call(spots: Sequence[Spot], own: bool) -> bool:
    """Whether rounding may decide between queues: sums of the same times in another order could tie or not.

    Sums of multiples of 1/64 s are exact and never close calls. ``own``: the layer's own time counts.
    """
    finish = sorted(
        spot.free_s + spot.queued_s + own * spot.estimate_s for spot in spots if spot.estimate_s < math.inf
    )
    near = [value for value in finish if value - finish[0] <= 1e-9 * max(1.0, value)]
    return len(near) > 1 and any((64.0 * value) % 1.0 for value in near)


def bind(rule: Rule, spots: Sequence[Spot], job: Any, binds: int, seed: int) -> int | None:
    """Queue that a sub-job enters under a queueing rule; None = none has room (throttled)."""
    able = [spot for spot in spots if spot.estimate_s < math.inf]
    if rule.place in ("round_robin", "random"):
        first = binds % len(spots)
        if rule.place == "random":
            first = int(uniform(seed, job.request, job.layer, BIND) * len(spots))
        return min(able, key=lambda spot: (spot.index - first) % len(spots)).index
    if rule.place == "least_loaded":
        return min(able, key=lambda spot: (spot.queued_s + spot.free_s, spot.index)).index
    roomy = [spot for spot in able if spot.queued + (not spot.idle) < rule.throttle]
    return roomy[0].index if roomy else None
