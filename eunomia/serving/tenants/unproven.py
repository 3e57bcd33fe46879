"""Refusals of inputs of which nobody knew for sure what they take: each that proves wrong is a miss of its pair.

So are requests whose deadline passed while the server found out what their size takes. The proof is a measurement of
their size, by a trial of the server or by a later request that is answered. What never proves anything counts for
nobody: a client that asks for what no device can do in time moves no indicator. ``MOST`` of a tenant are remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from eunomia.serving.devices.climbs import Known
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.state import State

MOST = 128


class Unproven:
    """``fits``: whether a request of a tenant would be let in. ``follow``: has one run on what came of its network.

    ``missed``: hears the pair of each that was refused wrongly. ``soon``: does work once what has run is written up.
    """

    def __init__(self, state: State, fits: Callable[[str, Job], bool]) -> None:
        self._state, self._fits = state, fits
        self.follow: Callable[[Job], None] = lambda job: None
        self.missed: Callable[[int], None] = lambda pair: None
        self.soon: Callable[[Callable[[], None]], object] = lambda work: work()
        self._of: dict[str, deque[Job]] = {}

    def note(self, tenant: str, job: Job, known: Known | None = None) -> None:
        """It is refused; ``known`` is done once the server may have found out what it takes."""
        self._of.setdefault(tenant, deque(maxlen=MOST)).append(job)
        if known is not None:
            known.add_done_callback(lambda _: self._look(tenant, lambda one: one is job))

    def answered(self, tenant: str, job: Job) -> None:
        """One that was let in has its answer: what it took says something of its like, once it is written up."""
        if tenant in self._of:
            self.soon(partial(self._look, tenant, partial(_alike, job)))

    def _look(self, tenant: str, which: Callable[[Job], bool]) -> None:
        found = [job for job in self._of.get(tenant, ()) if which(job)]
        if not found:
            return
        self._state.later.settle()
        wrong = {job.number for job in found if self._wrong(tenant, job)}
        for job in found:
            if job.number in wrong:
                self.missed(job.pair)
        kept = [job for job in self._of[tenant] if job.number not in wrong]
        self._of[tenant] = deque(kept, MOST)
        if not kept:
            del self._of[tenant]

    def _wrong(self, tenant: str, job: Job) -> bool:
        self.follow(job)
        self._state.classify(job)
        left_s = min(job.deadline_s, job.hard_timeout_s) - job.arrival_s
        return self._fits(tenant, job) and self._state.rest_s(job) <= left_s


def _alike(job: Job, refused: Job) -> bool:
    """Of one class, or of one size, as which either may run a few rows at a time."""
    if refused.network.name != job.network.name:
        return False
    return refused.cost_row == job.cost_row or refused.shapes == job.shapes
