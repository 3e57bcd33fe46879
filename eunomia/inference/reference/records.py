"""What the reference engine returns: executed layers, decisions and outcomes as plain rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(slots=True)
class Interval:
    """One layer on one accelerator. ``end_s`` is None while it runs when the run stops."""

    request: int
    layer: int
    accelerator: int
    ready_s: float
    start_s: float
    end_s: float | None
    work_s: float  # isolated, true, with this execution's jitter
    switch_s: float
    charge_s: float  # decision time that the layer waited for
    key: float  # nan for policies without keys
    decision: int


class Decision(NamedTuple):
    """One start: the chosen sub-job and what was known before the choice."""

    decision: int
    time_s: float
    request: int
    layer: int
    accelerator: int
    waiting: int
    demand_bytes_s: float
    free_in_s: tuple[float, ...]


@dataclass(slots=True)
class Outcome:
    """One request. Times are None where they did not happen."""

    request: int
    arrival_s: float | None = None
    deadline_s: float | None = None
    start_s: float | None = None
    finish_s: float | None = None
    outcome: Literal["hit", "late", "dropped", "unfinished"] = "unfinished"
    running_s: float = 0.0
    work_s: float = 0.0
    stretch_s: float = 0.0
    switch_s: float = 0.0
    energy_j: float = 0.0


class Run(NamedTuple):
    """All rows of one run; ``intervals`` in order of (end, accelerator), running ones last."""

    intervals: list[Interval]
    decisions: list[Decision]
    outcomes: list[Outcome]  # one per request, in order of request
    busy_s: list[float]  # per accelerator
    now_s: float
    rounds: int  # decision rounds
    close_calls: int  # choices between queues whose sums differ by rounding at most
