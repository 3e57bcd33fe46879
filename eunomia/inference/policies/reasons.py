"""Why a scoring policy decided as it did: one row per started layer, written by compiled code while a run is recorded.

A policy that scores features (``score = sum of weight x value``, highest first) calls ``note_start`` when it starts a
sub-job and ``note_hold`` when it starts none on purpose. Row n belongs to decision n of the run. It holds the largest
terms of the score, and those who waited and were not started, in the policy's order: a *rival* that was to come
earlier was held or is kept for a busy accelerator, a later one lost by its score.

Where nothing is recorded there are no rows, and ``is_noting`` is False: the policy then does nothing of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of, give_blocks
from eunomia.core.arrays import Flags, Floats, Ints, Records
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Record
from eunomia.inference.kernel.state import State

BLOCK = 6  # of the SYSTEM record: policies count theirs from 0 on, the last one is lookahead's
TERMS, RIVALS, POINTS = 6, 3, 3
BY = (
    "score",
    "base",
    "alarm",
    "invalid",
)  # what decided; base: nothing is learned, alarm and invalid: the guards
FATES = ("lost", "kept", "held")  # of those who waited; kept: for an accelerator that is busy
LOST, KEPT, HELD, STARTED = range(4)

REASON = np.dtype(
    [
        ("by", "i8"),  # -1 = nothing was noted
        ("score", "f8"),
        ("base", "f8"),  # what the base's weights give
        ("network", "f8"),  # what a network or a tree adds to the linear terms
        ("feature", "i8", (TERMS,)),  # of the largest terms; -1 = none
        ("weight", "f8", (TERMS,)),
        ("value", "f8", (TERMS,)),
        (
            "place_margin",
            "f8",
        ),  # cost of the next accelerator - its cost, in earliest finish times; nan = no other
        ("start_margin", "f8"),  # started because it is at least 0, or because nothing runs
        ("used", "f8"),  # D / B before the start
        ("rival_request", "i8", (RIVALS,)),  # -1 = none
        ("rival_layer", "i8", (RIVALS,)),
        ("rival_fate", "i8", (RIVALS,)),
        ("rival_late", "i8", (RIVALS,)),
        ("rival_wanted", "i8", (RIVALS,)),  # the accelerator that it is kept for; -1 = unknown
        ("rival_score", "f8", (RIVALS,)),
        ("rival_feature", "i8", (RIVALS, POINTS)),  # terms in which it differs most; -1 = none
        ("rival_weight", "f8", (RIVALS, POINTS)),
        ("rival_value", "f8", (RIVALS, POINTS)),  # the chosen one's value minus its value
        ("held_request", "i8"),  # held since the decision before; -1 = none
        ("held_layer", "i8"),
        ("held_s", "f8"),  # when
        ("held_margin", "f8"),
        ("held_used", "f8"),
        ("held_feature", "i8", (POINTS,)),  # largest terms of its margin; -1 = none
        ("held_weight", "f8", (POINTS,)),
        ("held_value", "f8", (POINTS,)),
    ],
    align=True,
)
_rows_of = block_of(SYSTEM, BLOCK, REASON)


class Waiting(NamedTuple):
    """Who waits at one decision: the View's rows, features (n, F), weights (F,), scores, tiers; what became of them."""

    ready: Record
    jobs: Floats
    weight: Floats
    base: Floats  # (F,) the part of the weights that is not learned
    score: Floats
    tier: Ints
    fate: Ints
    wanted: Ints  # the accelerator that the placement chose; -1 = none yet
    by: int  # place in BY
    rows: Record  # (decisions,) REASON
    first: int  # row of the next start
    now_s: float


@jitted
def is_noting(system: Record) -> bool:
    """Whether this run keeps reasons."""
    return system.block_bytes[BLOCK] > 0  # type: ignore[no-any-return]


@jitted
def who_waits(
    ready: Record, jobs: Floats, score: Floats, tier: Ints, system: Record, weights: Floats, by: int
) -> Waiting:
    """Who waits at one decision. ``weights``: (2 F,) of the base, then those learned, which count where ``by`` is 0."""
    base, n = weights[: len(weights) // 2], len(ready)
    weight, fate, wanted, rows = (
        np.empty(len(base)),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        _rows_of(system),
    )
    for f in range(len(base)):
        weight[f] = base[f] + weights[len(base) + f] if by == 0 else base[f]
    for i in range(n):
        fate[i], wanted[i] = LOST, -1
    return Waiting(
        ready, jobs, weight, base, score, tier, fate, wanted, by, rows, system.starts, system.now_s
    )


@jitted
def _reason_at(waiting: Waiting, count: int) -> Record:
    """The row of the start that follows ``count`` others of this round. Raises IndexError beyond the rows."""
    if waiting.first + count >= len(waiting.rows):
        raise IndexError("more layers were started than the run has")
    return waiting.rows[waiting.first + count]


@jitted
def _largest(weight: Floats, value: Floats, feature: Ints, of_weight: Floats, of_value: Floats) -> None:
    """Fill in the terms ``weight x value`` that differ most from 0, largest first; feature -1 where none is left."""
    count = 0
    for f in range(len(weight)):
        size, k = abs(weight[f] * value[f]) if weight[f] != 0.0 else 0.0, count
        while k > 0 and size > abs(of_weight[k - 1] * of_value[k - 1]):
            k -= 1
        if not size > 0.0 or k == len(feature):
            continue
        count = min(count + 1, len(feature))
        for later in range(count - 1, k, -1):
            feature[later], of_weight[later] = feature[later - 1], of_weight[later - 1]
            of_value[later] = of_value[later - 1]
        feature[k], of_weight[k], of_value[k] = f, weight[f], value[f]
    for k in range(count, len(feature)):
        feature[k], of_weight[k], of_value[k] = -1, 0.0, 0.0


@jitted
def _ahead(waiting: Waiting, taken: Flags) -> int:
    """First sub-job that was not started and is not taken; -1 = none."""
    best, ready, score, tier, fate = -1, waiting.ready, waiting.score, waiting.tier, waiting.fate
    for j in range(len(score)):
        if taken[j] or fate[j] == STARTED:
            continue
        if best >= 0:
            later = tier[j] - tier[best]
            lead = score[j] - score[best]
            older = ready[j].sequence < ready[best].sequence
            if later > 0 or (later == 0 and (lead < 0.0 or (lead == 0.0 and not older))):
                continue
        best = j
    return best


@jitted
def _take(waiting: Waiting, taken: Flags, request: int) -> None:
    """Mark all sub-jobs of a request: each request is noted once."""
    ready = waiting.ready
    for j in range(len(taken)):
        taken[j] = taken[j] or ready[j].request == request


@jitted
def note_start(waiting: Waiting, count: int, i: int, cost: Floats, margin: float, used: float) -> None:
    """Sub-job ``i`` starts as number ``count`` of its round.

    ``cost``: (S,) what the placement minimises, inf = not able; ``margin``: of the start; ``used``: D / B before it.
    """
    reason, features = _reason_at(waiting, count), len(waiting.weight)
    waiting.fate[i] = STARTED
    linear, own, x, total, base = 0.0, 0.0, waiting.jobs[i], waiting.weight, waiting.base
    for f in range(features):
        if total[f] != 0.0:
            linear += total[f] * x[f]
        if base[f] != 0.0:
            own += base[f] * x[f]
    reason.by, reason.score, reason.base = waiting.by, waiting.score[i], own
    reason.network = waiting.score[i] - linear
    feature, weight, value = np.empty(TERMS, np.int64), np.empty(TERMS), np.empty(TERMS)
    _largest(waiting.weight, waiting.jobs[i], feature, weight, value)
    for k in range(TERMS):
        reason.feature[k], reason.weight[k], reason.value[k] = feature[k], weight[k], value[k]
    s, second = waiting.wanted[i], np.inf
    for other in range(len(cost)):
        if other != s:
            second = min(second, cost[other])
    unit = 1.0 if waiting.by == 0 else cost[s]  # the base minimises seconds
    reason.place_margin = (second - cost[s]) / unit if second < np.inf and unit > 0.0 else np.nan
    reason.start_margin, reason.used = margin, used
    _note_rivals(reason, waiting, i)


@jitted
def _note_rivals(reason: Record, waiting: Waiting, i: int) -> None:
    """The first other requests that go without."""
    taken = np.zeros(len(waiting.score), np.bool_)
    feature, weight, value = np.empty(POINTS, np.int64), np.empty(POINTS), np.empty(POINTS)
    _take(waiting, taken, waiting.ready[i].request)
    for r in range(RIVALS):
        j = _ahead(waiting, taken)
        if j < 0:
            reason.rival_request[r] = -1
            continue
        _take(waiting, taken, waiting.ready[j].request)
        _largest(waiting.weight, waiting.jobs[i] - waiting.jobs[j], feature, weight, value)
        reason.rival_request[r], reason.rival_layer[r] = waiting.ready[j].request, waiting.ready[j].layer
        reason.rival_fate[r], reason.rival_late[r] = waiting.fate[j], waiting.ready[j].late
        reason.rival_wanted[r], reason.rival_score[r] = waiting.wanted[j], waiting.score[j]
        for k in range(POINTS):
            reason.rival_feature[r, k] = feature[k]
            reason.rival_weight[r, k], reason.rival_value[r, k] = weight[k], value[k]


@jitted
def in_a_row(a: Floats, b: Floats, c: Floats, chosen: tuple[int, ...], d: Floats) -> Floats:
    """All of ``a`` and ``b``, the chosen ones of ``c``, all of ``d``: NumPy's concatenate takes seconds to compile."""
    row, place = np.empty(len(a) + len(b) + len(chosen) + len(d)), len(a) + len(b)
    for f in range(place):
        row[f] = a[f] if f < len(a) else b[f - len(a)]
    for f in range(len(chosen)):
        row[place + f] = c[chosen[f]]
    for f in range(len(d)):
        row[place + len(chosen) + f] = d[f]
    return row


@jitted
def note_hold(
    waiting: Waiting, count: int, i: int, margin: float, used: float, weights: Floats, values: Floats
) -> None:
    """Sub-job ``i`` is held. ``weights`` x ``values`` make its margin, beside the gate and D / B."""
    reason, job = _reason_at(waiting, count), waiting.ready[i]
    waiting.fate[i] = HELD
    feature, weight, value = np.empty(POINTS, np.int64), np.empty(POINTS), np.empty(POINTS)
    _largest(weights, values, feature, weight, value)
    reason.held_request, reason.held_layer, reason.held_s = job.request, job.layer, waiting.now_s
    reason.held_margin, reason.held_used = margin, used
    for k in range(POINTS):
        reason.held_feature[k], reason.held_weight[k], reason.held_value[k] = feature[k], weight[k], value[k]


@dataclass(frozen=True)
class Reasons:
    """The rows of one run, and the names of what they number: features of scores, and of margins."""

    rows: Records
    scored: tuple[str, ...]
    held: tuple[str, ...]

    @classmethod
    def of_run(cls, state: State, scored: tuple[str, ...], held: tuple[str, ...]) -> Reasons | None:
        """Room for all decisions of a run, entered into its SYSTEM record; alive as long as this object.

        None where no decisions are recorded, and at ticks: what is queued there is no decision of the run.
        """
        decisions, system = len(state["decisions"]), state["system"]
        if decisions == 0 or system["period_s"][0] > 0.0:
            return None
        rows = np.zeros(decisions, REASON)
        for name in ("by", "rival_request", "held_request"):
            rows[name] = -1
        give_blocks(system, [rows], BLOCK)
        return cls(rows, scored, held)
