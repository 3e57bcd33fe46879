"""One request in the server."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from eunomia.serving.dispatch.costs import CostBook, Network

WAITING, RUNNING, GONE = "waiting", "running", "gone"
NOWHERE, SEVERAL = -1, -2  # in place of a device
Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # of inputs, in order of name
_numbers = itertools.count(1)


@dataclass(eq=False, slots=True)
class Job:
    """One accepted request, from its arrival to its one answer.

    ``payload`` belongs to whoever submitted it. ``batch``: rows of its input; ``shapes``: of its inputs, in order of
    name; ``sizes``: their elements per row; ``cost_row``: where the block times of its shape begin. ``together``:
    requests that run in the same batch with it, itself not included. ``split``: numbers of those that shared a batch
    which the runtime refused, and have not run alone since. ``probe``: it runs although it seems hopeless, to see
    whether it is. ``work_s``: what its blocks took, in the mean they take ``expected_s``; ``worked_on``: the device,
    ``SEVERAL`` where there were more, or a batch. ``lost_s``: before its ``runs``; ``usual_s``: what such starts lose
    in the mean. ``own_s``: of its last run, what it had of a processor. ``stuck``: so often its tensors found no room
    on the way to another device. ``unsure``: it was let in before anybody knew what its size takes. ``through``,
    ``later``: rows that have run before those of ``batch``, and that run after them, where all together would hold a
    device for too long; ``parts``: so often some have begun. ``hollow``: where the network's owner could allow inputs
    that are empty; empty = nothing to allow.
    """

    pair: int
    network: Network
    arrival_s: float
    deadline_s: float = math.inf
    hard_timeout_s: float = math.inf  # after this instant it is dropped, whatever the policy thinks
    batch: int = 1
    through: int = 0
    later: int = 0
    parts: int = 1
    urgency: float = (
        1.0  # at most 1: a client may put its own request behind its others, never before another's
    )
    group: object = None  # jobs with equal groups may share a batch; None = never
    sizes: tuple[int, ...] = ()
    shapes: Shapes = ()
    payload: Any = None
    number: int = field(default_factory=lambda: next(_numbers))
    state: str = WAITING
    block: int = 0
    device: int = -1  # where its tensors are; -1 = in the arena
    row: int = -1  # in the table of waiting jobs
    start_s: float = math.nan
    ended_s: float = 0.0  # when its last run ended
    heard_s: float = 0.0  # when that was heard
    attained_s: float = 0.0
    work_s: float = 0.0
    expected_s: float = 0.0
    lost_s: float = 0.0
    usual_s: float = 0.0
    runs: int = 0
    own_s: float = math.inf
    worked_on: int = NOWHERE
    reach_s: float = 0.0  # from its acceptance until the policy had seen it and devices had their orders
    unsized_s: float = 0.0  # from its arrival to its acceptance: so long nobody knew what its size takes
    answer_s: float = 0.0  # from the end of its last run to its answer
    cancelled: bool = False
    retries: int = 0
    felled: bool = False  # it took its device down, or had to be ended there
    killed: bool = False  # a process had to go to end it
    crashed: bool = False  # it took its device down by itself
    lost: int = 0  # devices that went away while it ran there, for reasons of their own
    preemptions: int = 0
    whole: bool = False  # its run has no boundaries
    together: list[Job] = field(default_factory=list)
    split: set[int] | None = None
    cost_row: int = -1
    probe: bool = False
    hollow: str = ""
    stuck: int = 0
    unsure: bool = False
    request_id: str = ""  # the client's

    def __post_init__(self) -> None:
        if self.cost_row < 0:
            self.cost_row = self.network.first_row

    @property
    def accepted_s(self) -> float:
        """When its wait for a device began."""
        return self.arrival_s + self.unsized_s

    @property
    def all_rows(self) -> int:
        """Of its input."""
        return self.through + self.batch + self.later

    def go_on(self) -> None:
        """Its next rows are to run, from the first block on."""
        self.through, self.block = self.through + self.batch, 0
        self.batch = min(self.batch, self.later)
        self.later -= self.batch

    @property
    def even(self) -> bool:
        """Whether all of its inputs have as many rows: one row may stand for all of another input's."""
        return all(sizes[:1] == (self.all_rows,) for _, sizes in self.shapes)

    def divides(self, costs: CostBook) -> bool:
        """Whether a few of its rows may run at a time."""
        return self.batch > 1 and self.network.index in costs.by_row and self.even

    def row_of_one(self, costs: CostBook) -> int:
        """Where the block times begin of an input with one of its rows."""
        return costs.row_of(self.network, 1, self.sizes, self.pair)

    def said_s(self, costs: CostBook) -> float:
        """What its class takes, if that is known; else inf."""
        if not costs.evident(self.cost_row):
            return math.inf
        return costs.rest_s(self.network, self.cost_row)[0][0] * self.rows

    @property
    def rows(self) -> int:
        """Of the whole batch that it runs in."""
        return self.batch + sum(job.batch for job in self.together) if self.together else self.batch
