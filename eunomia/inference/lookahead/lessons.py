"""What moves of a plan are worth once more requests come: lessons for the price of work (price.py).

Known requests alone say what a move loses now. With sampled arrivals, averaged over many futures, a rollout says what
it loses in all. The difference is what the move's work, more or less of it, does to requests that are not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np
from numba import types

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats, Records
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.memory import slot_at
from eunomia.inference.lookahead.companion import KNOWN, Begun, Companion
from eunomia.inference.lookahead.deliberate import evaluate, note_lost, prepare
from eunomia.inference.lookahead.futures import count_arrivals, draw_futures
from eunomia.inference.lookahead.memory import (
    FIRST,
    LAST,
    NORMAL,
    WORKSPACE_TYPE,
    Workspace,
    planned_at,
    snapshot_of,
)
from eunomia.inference.lookahead.policy import Lookahead
from eunomia.inference.lookahead.price import FEATURES, feature
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem
from eunomia.inference.simulate import simulate_problem

COLUMNS = ("request", "level", "now", "all", "spent", *FEATURES)
RIDGE = 1.0
NOTHING = 1e-12  # a price that weighs nothing, so that work is counted all the same


def lessons(companion: Companion, futures: int, draws: int) -> Floats:
    """(moves, COLUMNS) of the base's moves at one decision point; the plan in force and the engine stay.

    ``now`` and ``all``: requests lost beyond the base's, of the known ones, and in the mean of ``draws`` x ``futures``
    sampled futures; ``spent``: work beyond the base's, in the work of the largest request seen. No rows where the base
    loses nothing.
    """
    out = np.zeros((1 + 2 * KNOWN, len(COLUMNS)))
    count = _compiled()(companion.workspace, out, futures, draws)
    if count < 2:
        return out[:0]
    out[1:count, 2:5] -= out[0, 2:5]
    return out[1:count]


@dataclass(eq=False)
class Pupil:
    """A lookahead asked step by step that takes a lesson after every ``every``-th plan; ``rows``: what it was taught.

    Its memory must have room for ``futures``, which its own plans do not read.
    """

    policy: Lookahead
    draws: int
    every: int = 2
    rows: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rules, self.parameters, self.blocks = (
            self.policy.rules,
            self.policy.parameters,
            self.policy.blocks,
        )
        self.plans, self.futures = 0, self.policy.settings.futures

    def attach(self, engine: Begun) -> Companion:
        """Keep the memory in sight."""
        self.companion = self.policy.attach(engine)
        self.companion.workspace["futures"] = 0
        return self.companion

    def __call__(self, view: View) -> list[Assign]:
        """Answer, and learn from what was planned."""
        answer = self.policy(view)
        plans = self.companion.count("deliberations")
        if plans > self.plans and plans % self.every == 0:
            self.rows.append(lessons(self.companion, self.futures, self.draws))
        self.plans = plans
        return answer


class Trace(Protocol):
    """Requests and how they run (learning/episodes.py)."""

    @property
    def problem(self) -> Problem:
        """Requests and platform."""
        ...

    @property
    def options(self) -> EngineOptions:
        """Settings of the engine."""
        ...


def taught_by(policy: Lookahead, trace: Trace, draws: int) -> Floats:
    """(moves, COLUMNS) of all lessons on one trace."""
    pupil = Pupil(policy, draws)
    simulate_problem(trace.problem, pupil, trace.options, stepped=True)
    return np.concatenate([np.zeros((0, len(COLUMNS))), *pupil.rows])


def fit(rows: Floats) -> tuple[Floats, float]:
    """(weights of FEATURES, share of the variance that they explain): least squares with a small ridge.

    A move's work, times the price of the state, is to tell what it loses beyond what known requests say.
    """
    wanted, spent, state = rows[:, 3] - rows[:, 2], rows[:, 4], rows[:, 5:]
    x = spent[:, None] * state
    weights = np.asarray(np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ wanted), np.float64)
    return weights, explained(rows, x @ weights)


def told(rows: Floats) -> tuple[list[list[str | float]], dict[str, float]]:
    """What the learned price and single ones tell of the labels, (price, share of the variance); learned weights."""
    (weights, share), spent = fit(rows), rows[:, 4]
    one = float(spent @ (rows[:, 3] - rows[:, 2]) / (spent @ spent))
    shares: list[list[str | float]] = [[f"learned, from {len(rows):,} moves", share]]
    shares += [[f"{price:.2f}", explained(rows, price * spent)] for price in (one, 0.0, 0.9, 1.4)]
    return shares, {name: round(float(w), 3) for name, w in zip(FEATURES, weights, strict=True)}


def explained(rows: Floats, told: Floats) -> float:
    """Share of the labels' variance about 0 that a prediction explains."""
    wanted = rows[:, 3] - rows[:, 2]
    return 1.0 - float(((wanted - told) ** 2).sum() / (wanted**2).sum())


@jitted
def _play(ws: Workspace, row: Floats) -> None:
    """Roll out one row's move, by all that is set."""
    if row[0] >= 0.0:
        planned_at(ws, int(row[0])).value = int(row[1])
    evaluate(ws, 0, -np.inf)
    if row[0] >= 0.0:
        planned_at(ws, int(row[0])).value = NORMAL


@jitted
def _enter(ws: Workspace, row: Floats) -> None:
    """Roll out one row's move with known requests alone."""
    _play(ws, row)
    row[2], row[4] = ws.misses, ws.spent / ws.largest_s


def _lessons(workspaces, out, futures, draws):  # type: ignore[no-untyped-def]
    """Row 0 is the base; returns the number of rows."""
    ws = workspaces[0]
    ws.limit, ws.futures = 0, 0
    count_arrivals(ws)
    prepare(ws)
    k, until_s, count = snapshot_of(ws), ws.until_s, 1
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    ws.price_per_s, ws.bounded, ws.left_loss = NOTHING, 0, 0.0
    out[0, 0] = -1.0
    _enter(ws, out[0])
    note_lost(ws)
    if ws.misses == 0:
        return 0
    for slot in range(k.used_slots):
        plan = planned_at(ws, slot_at(k, slot).request)
        if slot_at(k, slot).gone == 0:
            out[count, 0], out[count, 1] = slot_at(k, slot).request, FIRST if plan.lost == 1 else LAST
            _enter(ws, out[count])
            if out[count, 4] != out[0, 4] or out[count, 2] != out[0, 2]:
                count += 1
    for row in range(count):
        for number in range(len(FEATURES)):
            out[row, 5 + number] = feature(ws, k, number)
    ws.futures = futures
    for _ in range(draws):
        ws.until_s = until_s
        draw_futures(ws)
        ws.until_s = np.inf
        for row in range(count):
            _play(ws, out[row])
            out[row, 3] += ws.misses / (draws * futures)
    ws.futures = 0
    return count


@cache
def _compiled() -> Callable[[Records, Floats, int, int], int]:
    signature = types.int64(
        types.Array(WORKSPACE_TYPE, 1, "C"), types.Array(types.float64, 2, "C"), types.int64, types.int64
    )
    folders = ("inference/kernel", "inference/policies", "inference/lookahead")
    return compile_cached(_lessons, signature, _lessons.__qualname__, *folders)
