"""Runs that held a device for long and gave no answer: their tenant pauses before it sends such inputs again.

So it is where the answer had no room, or the network failed. What an input's values make of it shows in no shape, so
that nobody can foresee it. After ``FIRST_S`` one request of the class is let through, and the pause doubles until one
is answered. From ``FEW`` such classes of a network on, all its inputs are one class. So they are from ``FEW`` deaths of
a device under them on, whoever it was: of those that wait to run again, some leave before, and others come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Refused

FIRST_S, LONGEST_S = 10.0, 960.0
FEW, ALL = 3, -1  # ALL: in place of a class
CRASHED_S = math.inf  # in place of what a run took that took its device down


@dataclass
class _Closed:
    held_s: float
    pause_s: float
    since_s: float
    until_s: float
    probe: int = 0  # number of the request that was let through last


class Vain:
    """By tenant and network, then by class of shapes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[tuple[str, int], dict[int, _Closed]] = {}
        self._deaths_s: dict[tuple[str, int], list[float]] = {}  # the last ones

    def __bool__(self) -> bool:
        """Whether anybody pauses."""
        return bool(self._closed)

    def check(self, tenant: str, job: Job) -> None:
        """Raises Refused in a pause; who comes after it is let through, and the next pause begins."""
        found = self._find(tenant, job) if self._closed else None
        if found is None or found.probe == job.number:
            return
        if self._clock.now_s() < found.until_s:
            raise self.why(tenant, job)
        found.until_s, found.probe = self._clock.now_s() + found.pause_s, job.number

    def foresee(self, tenant: str, job: Job) -> None:
        """The same, of one that is not here yet: nobody is let through by this."""
        found = self._find(tenant, job) if self._closed else None
        if found is not None and self._clock.now_s() < found.until_s:
            raise self.why(tenant, job)

    def why(self, tenant: str, job: Job) -> Refused:
        """To those who must pause."""
        found = self._find(tenant, job)
        assert found is not None, "it is closed"
        left_s = max(found.until_s - self._clock.now_s(), 0.001)
        what = f"held a device for {found.held_s * 1e3:.0f} ms and got no answer"
        if found.held_s == CRASHED_S:
            what = "took its device down"
        text = f"an input of this size {what}; tenant '{tenant}' may send such inputs again in {math.ceil(left_s)} s"
        return Refused(text, retry_after_s=left_s)

    def died(self, tenant: str, job: Job) -> bool:
        """A device died under it; whether all sizes pause, as it was one of ``FEW`` in the longest pause."""
        key, now_s = (tenant, job.network.index), self._clock.now_s()
        lately = [at_s for at_s in self._deaths_s.get(key, ()) if now_s - at_s < LONGEST_S]
        self._deaths_s[key] = [*lately[1 - FEW :], now_s]
        if len(lately) + 1 < FEW:
            return False
        self.close(tenant, job, CRASHED_S, whole=True)
        return True

    def close(self, tenant: str, job: Job, held_s: float, *, whole: bool = False) -> None:
        """It ran so long in vain, or crashed its device (``CRASHED_S``). ``whole``: with all its sizes."""
        classes = self._closed.setdefault((tenant, job.network.index), {})
        found, row = self._find(tenant, job), ALL if whole or ALL in classes else job.cost_row
        pause_s = FIRST_S if found is None else min(2.0 * found.pause_s, LONGEST_S)
        now_s = self._clock.now_s()
        classes[row] = closed = _Closed(held_s, pause_s, now_s, now_s + pause_s)
        if whole or len(classes) >= FEW:
            self._closed[tenant, job.network.index] = {ALL: closed}

    def answered(self, tenant: str, job: Job) -> None:
        """One of its class has its answer: the next may come at once. Where all pause, one that has come since."""
        found = self._find(tenant, job) if self._closed else None
        if found is None:
            return
        classes = self._closed[tenant, job.network.index]
        if ALL in classes and job.accepted_s < found.since_s:
            return
        classes.pop(ALL if ALL in classes else job.cost_row)
        if not classes:
            del self._closed[tenant, job.network.index]

    def _find(self, tenant: str, job: Job) -> _Closed | None:
        classes = self._closed.get((tenant, job.network.index), {})
        return classes.get(ALL) or classes.get(job.cost_row)
