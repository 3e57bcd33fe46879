"""The table of requests that wait."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import READY
from eunomia.core.arrays import Floats, Records
from eunomia.serving.dispatch.jobs import Job

NONE = -1


class WaitingTable:
    """READY records of waiting jobs in order of becoming ready, so that a view costs no Python per job.

    Rows are filled from the first on; one that is given up stays empty until half of them are, and then the others
    close ranks. A job may be hidden: it waits, but is promised to a device, and no other may be offered it.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.records: Records = np.zeros(capacity, READY)
        self.due_s = np.full(capacity, np.inf)  # when each is given up
        self.rows_of_input = np.ones(capacity, np.int64)
        self.offered = np.zeros(capacity, np.bool_)  # rows of those that may be offered
        self.end = 0  # rows in use, empty ones between them included
        self.ahead = NONE  # a row that stands before all others
        self._jobs: list[Job | None] = [None] * capacity
        self._row_of: dict[int, int] = {}  # number -> row
        self._count = self._sequence = 0
        self._soonest_s = math.inf  # nobody is due before

    def __len__(self) -> int:
        """Jobs that may be offered to a device."""
        return self._count

    def add(self, job: Job, facts: tuple[float, ...], due_s: float = math.inf) -> None:
        """A job waits from now on, until ``due_s`` at most; ``facts`` are the fields of READY in their order."""
        if self.end == len(self._jobs):
            self._make_room()
        row, self.end = self.end, self.end + 1
        self.records[row] = facts
        self.records["sequence"][row] = self._sequence
        self._sequence += 1
        self.due_s[row], self._soonest_s = due_s, min(due_s, self._soonest_s)
        self.rows_of_input[row] = job.rows
        job.row, self._jobs[row], self._row_of[job.number] = row, job, row
        self.show(job)

    def revise(self, job: Job, facts: tuple[float, ...], due_s: float) -> None:
        """Other facts of a job that waits; it stands where it stood."""
        sequence, ready_s = self.records["sequence"][job.row], self.records["ready_s"][job.row]
        self.records[job.row] = facts
        self.records["sequence"][job.row], self.records["ready_s"][job.row] = sequence, ready_s
        self.due_s[job.row], self._soonest_s = due_s, min(due_s, self._soonest_s)

    def put_first(self, job: Job) -> None:
        """Before all that are equal to it."""
        self.records["sequence"][job.row] = -1
        self.ahead = job.row

    def remove(self, job: Job) -> None:
        """It runs or is gone."""
        self.hide(job)
        self._jobs[job.row] = None
        del self._row_of[job.number]
        if job.row == self.ahead:
            self.ahead = NONE
        job.row = NONE
        while self.end and self._jobs[self.end - 1] is None:
            self.end -= 1

    def hide(self, job: Job) -> None:
        """It is promised to a device, if it waits."""
        if job.row == NONE:
            return
        self._count -= bool(self.offered[job.row])
        self.offered[job.row] = False

    def show(self, job: Job) -> None:
        """It is not promised any more, and stands where it stood."""
        self._count += not self.offered[job.row]
        self.offered[job.row] = True

    def shown(self, job: Job) -> bool:
        """Whether it waits and may be offered."""
        return job.row >= 0 and bool(self.offered[job.row])

    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of those that may be offered, in order of becoming ready."""
        rows = np.flatnonzero(self.offered[: self.end])
        if self.ahead >= 0 and self.offered[self.ahead]:
            rows = np.concatenate([[self.ahead], rows[rows != self.ahead]])
        return rows

    def begun_s(self, tenants: int) -> Floats:
        """(tenants,): what is left of requests that have begun and may be offered, by number of their tenant [s]."""
        records, offered = self.records[: self.end], self.offered[: self.end]
        begun = records[offered & (records["layers_done"] > 0)]
        return np.bincount(begun["tenant"], begun["work_best_s"], tenants).astype(np.float64)

    def overdue(self, now_s: float) -> list[Job]:
        """Those that may be offered and should have been given up by now."""
        if self._soonest_s >= now_s:
            return []
        in_use = np.array([job is not None for job in self._jobs[: self.end]], np.bool_)
        due_s = np.where(in_use, self.due_s[: self.end], np.inf)
        self._soonest_s = float(due_s.min(initial=math.inf))
        return [self.job(int(row)) for row in np.flatnonzero((due_s < now_s) & self.offered[: self.end])]

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
        return [job for job in self._jobs[: self.end] if job is not None]

    def _make_room(self) -> None:
        """Close ranks if half of the rows are empty, else twice as many."""
        jobs, size = self.jobs(), len(self._jobs)
        if len(jobs) > size // 2:
            self.records = np.concatenate([self.records, np.zeros(size, READY)])
            self.due_s = np.concatenate([self.due_s, np.full(size, np.inf)])
            self.rows_of_input = np.concatenate([self.rows_of_input, np.ones(size, np.int64)])
            self.offered = np.concatenate([self.offered, np.zeros(size, np.bool_)])
            self._jobs += [None] * size
            return
        rows, self.end = [job.row for job in jobs], len(jobs)
        ahead = None if self.ahead == NONE else self._jobs[self.ahead]
        for column in (self.records, self.due_s, self.rows_of_input, self.offered):
            column[: self.end] = column[rows]
        self.offered[self.end :] = False
        self._jobs = [*jobs, *[None] * (size - self.end)]
        for row, job in enumerate(jobs):
            job.row = self._row_of[job.number] = row
        self.ahead = NONE if ahead is None else ahead.row
