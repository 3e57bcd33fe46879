"""Requests in the server, and the table of those that wait."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.inference.view import READY
from eunomia.serving.dispatch.costs import Network

WAITING, RUNNING, GONE = "waiting", "running", "gone"
_numbers = itertools.count(1)


@dataclass(eq=False, slots=True)
class Job:
    """One accepted request, from its arrival to its one answer.

    ``payload`` belongs to whoever submitted it. ``batch``: rows of its input. ``together``: requests that
    run in the same batch with it, itself not included.
    """

    pair: int
    network: Network
    arrival_s: float
    deadline_s: float = math.inf
    hard_timeout_s: float = math.inf  # after this instant it is dropped, whatever the policy thinks
    batch: int = 1
    urgency: float = (
        1.0  # at most 1: a client may put its own request behind its others, never before another's
    )
    group: Any = None  # jobs with equal groups may share a batch; None = never
    payload: Any = None
    number: int = field(default_factory=lambda: next(_numbers))
    state: str = WAITING
    block: int = 0
    device: int = -1  # where its tensors are; -1 = in the arena
    row: int = -1  # in the table of waiting jobs
    start_s: float = math.nan
    ended_s: float = 0.0  # when its last run ended
    attained_s: float = 0.0
    reach_s: float = 0.0  # from its acceptance until the policy had seen it and devices were told
    answer_s: float = 0.0  # from the end of its last run to its answer
    cancelled: bool = False
    retries: int = 0
    preemptions: int = 0
    whole: bool = False  # its run has no boundaries
    together: list[Job] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Of the whole batch that it runs in."""
        return self.batch + sum(job.batch for job in self.together) if self.together else self.batch


class WaitingTable:
    """READY records of waiting jobs, kept in place so that a view costs no Python per job.

    A job may be hidden: it waits, but is promised to a device, and no other may be offered it.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.records: npt.NDArray[Any] = np.zeros(capacity, READY)
        self.hard_timeout_s = np.full(capacity, np.inf)
        self._jobs: list[Job | None] = [None] * capacity
        self._shown: set[int] = set()  # rows
        self._row_of: dict[int, int] = {}  # number -> row
        self._free = list(range(capacity - 1, -1, -1))
        self._sequence = 0

    def __len__(self) -> int:
        """Jobs that may be offered to a device."""
        return len(self._shown)

    def add(self, job: Job, facts: tuple[Any, ...]) -> None:
        """A job waits from now on; ``facts`` are the fields of READY in their order."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.records[row] = facts
        self.records["sequence"][row] = self._sequence
        self._sequence += 1
        self.hard_timeout_s[row] = job.hard_timeout_s
        job.row, self._jobs[row], self._row_of[job.number] = row, job, row
        self._shown.add(row)

    def put_first(self, job: Job) -> None:
        """Before all that are equal to it."""
        self.records["sequence"][job.row] = -1

    def remove(self, job: Job) -> None:
        """It runs or is gone."""
        self._jobs[job.row] = None
        self._shown.discard(job.row)
        del self._row_of[job.number]
        self._free.append(job.row)
        job.row = -1

    def hide(self, job: Job) -> None:
        """It is promised to a device."""
        self._shown.discard(job.row)

    def show(self, job: Job) -> None:
        """It is not promised any more, and stands where it stood."""
        self._shown.add(job.row)

    def shown(self, job: Job) -> bool:
        """Whether it waits and may be offered."""
        return job.row in self._shown

    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of those that may be offered, in order of becoming ready."""
        rows = np.fromiter(self._shown, np.int64, len(self._shown))
        return rows[np.argsort(self.records["sequence"][rows])]

    def job(self, row: int) -> Job:
        """Who waits in this row."""
        job = self._jobs[row]
        assert job is not None
        return job

    def first(self) -> Job:
        """Who became ready first of those that may be offered."""
        return self.job(int(self.rows()[0]))

    def numbered(self, number: int) -> Job:
        """Who waits under this number."""
        return self.job(self._row_of[number])

    def jobs(self) -> list[Job]:
        """Everyone who waits, hidden or not."""
        return [job for job in self._jobs if job is not None]

    def _grow(self) -> None:
        old = len(self._jobs)
        self.records = np.concatenate([self.records, np.zeros(old, READY)])
        self.hard_timeout_s = np.concatenate([self.hard_timeout_s, np.full(old, np.inf)])
        self._jobs += [None] * old
        self._free = list(range(2 * old - 1, old - 1, -1))
