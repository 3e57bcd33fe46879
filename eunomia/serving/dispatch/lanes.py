"""One device as the dispatcher sees it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.serving.dispatch.jobs import Job

NEVER = -1


@dataclass
class Claim:
    """A job that a device shall run next, and what the policy noted in its memory when it chose it.

    ``generation``: of the policy that chose; ``news``: state of the queue then; ``busy_s``: of the lane when it
    runs, as foreseen. ``elsewhere``: it runs already, and would go on on this other device.
    """

    job: Job
    before: npt.NDArray[np.float64]
    after: npt.NDArray[np.float64]
    generation: int = 0
    news: int = NEVER
    busy_s: float = 0.0
    elsewhere: int = NEVER


@dataclass
class Lane:
    """What runs (blocks ``first`` .. ``last - 1``; ``due_s``: when each should end), and what is to run next.

    ``revoked``: a claim that was to run next and shall not; the device has not said yet whether it got the
    message in time. ``asked_next``, ``asked_stop``: state of the queue at the policy's last call. ``looked``:
    the boundary of the policy's last call between boundaries. ``goes_on``: a boundary at which the policy
    lets this run go on, and what it notes in its memory then. ``followed``: the device had this order before it had
    ended the run before. ``alone``: nobody waits, and its boundaries are not looked at until somebody does.
    """

    job: Job | None = None
    first: int = 0
    last: int = 0
    start_s: float = 0.0
    due_s: list[float] = field(default_factory=list)
    stopping: bool = False
    last_request: int = -1
    free_s: float = 0.0  # when the last run ended
    heard_s: float = 0.0  # when that was heard
    busy_s: float = 0.0
    alive: bool = True
    next: Claim | None = None
    revoked: Claim | None = None
    asked_next: int = NEVER
    asked_stop: int = NEVER
    looked: int = NEVER
    goes_on: tuple[int, Claim] | None = None
    followed: bool = False
    alone: bool = False

    @property
    def uncut(self) -> bool:
        """Whether what runs has no boundaries."""
        return self.job is not None and self.job.whole

    def boundary(self, now_s: float, *, cut: bool = False) -> int:
        """The block before which the device will next look at its flag, by estimate; ``cut``: if it had boundaries."""
        if self.uncut and not cut:
            return self.last
        return min(self.first + bisect_right(self.due_s, now_s) + 1, self.last)

    def boundary_s(self, now_s: float, *, cut: bool = False) -> float:
        """When that will be; never in the past."""
        return max(self.due_s[self.boundary(now_s, cut=cut) - self.first - 1], now_s)

    def last_boundary_s(self, now_s: float, before: int = 0) -> float:
        """When the run will reach its last boundary, or one so many before that; never in the past."""
        return max(self.due_s[-2 - before], now_s)

    def look_s(self, now_s: float) -> float | None:
        """When to look next at what runs while others wait; once at what has no boundaries, as it stops at none."""
        if not self.uncut:
            return self.boundary_s(now_s, cut=True)
        last = self.boundary(now_s, cut=True) + 1 >= self.last
        return None if last else self.last_boundary_s(now_s, before=1)

    def end_s(self, now_s: float) -> float:
        """When the run will end."""
        return max(self.due_s[-1], now_s)

    def clear(self) -> None:
        """Nothing runs."""
        self.job, self.stopping, self.alone = None, False, False
        self.asked_next = self.asked_stop = NEVER
        self.goes_on, self.looked = None, NEVER
