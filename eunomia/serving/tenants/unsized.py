"""Requests of sizes that never ran wait, within their deadlines, until the server knows what they take.

They count among their tenant's requests. What they hold of the server's memory is in their tenant's account of bodies,
and one tenant may have ``MOST`` of them. Those that have waited for the same go on one after the other, each in a turn
of the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from eunomia.serving.devices.answers import Answer, seen
from eunomia.serving.devices.strings import Value
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.dispatcher import EARLY_SHARE
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import ServingError, Unavailable
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.holding import Known
from eunomia.serving.tenants.unproven import Unproven

MOST = 128  # of one tenant
SOON_S = 0.2  # until somebody asks again who could not wait


@dataclass(frozen=True)
class Wait:
    """Until then nothing can be said."""

    known: Known


@dataclass(frozen=True)
class Later:
    """A request that cannot be accepted yet.

    ``size``: bytes that wait with it. ``enter``: its answer, if it may go on; ``refused`` counts it out. Both may raise
    ServingError.
    """

    tenant: str
    job: Job
    size: int
    enter: Callable[[], Answer | Wait]
    refused: Callable[[ServingError], None]


class Unsized:
    """``jobs``: those that wait now. ``follow``: has one that has waited run on what came of its network."""

    def __init__(
        self, clock: Clock, bodies: Bodies, jobs: set[Job], follow: Callable[[Job], None], unproven: Unproven
    ) -> None:
        self._clock, self._bodies, self._jobs, self._follow = clock, bodies, jobs, follow
        self._unproven = unproven
        self.unguarded: Callable[[Job], bool] = lambda job: (
            False
        )  # whether it waits for a process to stand by
        self._waiting = Counter[str]()
        self._door = asyncio.Lock()

    def answer(self, later: Later, entered: Answer | Wait) -> Answer:
        """What the request gets in the end."""
        if not isinstance(entered, Wait):
            return entered
        answer = asyncio.get_running_loop().create_task(self._answer(later, entered))
        answer.add_done_callback(seen)
        return answer

    def go_on(self, later: Later) -> None:
        """The same of one that is inside already, and among the ``jobs``; it has its answer elsewhere."""
        try:
            self.answer(later, entered := later.enter())
        except ServingError as error:
            self._jobs.discard(later.job)
            later.refused(error)
        except Exception:
            self._jobs.discard(later.job)
            later.refused(Unavailable("the server has failed", retry_after_s=SOON_S))
            raise
        else:
            if not isinstance(entered, Wait):
                self._jobs.discard(later.job)

    async def _answer(self, later: Later, entered: Answer | Wait) -> dict[str, Value]:
        try:
            while isinstance(entered, Wait):
                await self._wait(later, entered.known)
                self._follow(later.job)
                entered = later.enter()
        except ServingError as error:
            later.refused(error)
            raise
        return await entered

    async def _wait(self, later: Later, known: Known) -> None:
        job, tenant = later.job, later.tenant
        tried = f"the server finds out now how '{job.network.name}' runs inputs of this size, and"
        if guards := self.unguarded(job):
            tried = f"'{job.network.name}' has ended a device, and no other process stands by yet:"
        if self._waiting[tenant] >= MOST:
            text = f"{tried} {MOST} requests of tenant '{tenant}' wait for such sizes already"
            raise Unavailable(text, retry_after_s=SOON_S)
        left_s = min(job.deadline_s, job.hard_timeout_s) - self._clock.now_s()
        with self._bodies.of(tenant) as body:
            body.need(later.size)
            self._waiting[tenant] += 1
            self._jobs.add(job)
            try:
                done, _ = await asyncio.wait([known], timeout=left_s if math.isfinite(left_s) else None)
                async with self._door:
                    await asyncio.sleep(0)
            finally:
                self._jobs.discard(job)
                self._waiting[tenant] -= 1
        job.unsized_s = self._clock.now_s() - job.arrival_s
        if not done:
            if (
                job.payload is None and not guards and not _impatient(job)
            ):  # who was let in before counts as any other
                self._unproven.note(tenant, job, known)
            late = "its time is not known before the request's deadline"
            text = f"{tried} {'the deadline has passed' if guards else late}"
            raise Unavailable(text, retry_after_s=SOON_S)


def _impatient(job: Job) -> bool:
    """Whether its client's own timeout ends it long before its deadline: no promise is broken."""
    return job.hard_timeout_s - job.arrival_s < EARLY_SHARE * (job.deadline_s - job.arrival_s)
