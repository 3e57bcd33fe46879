"""Requests that were let in before anybody knew that their size is too long in a block, and still wait for a device.

The first of a size runs if it seems short, and others may come meanwhile. Once it has run, those that have not begun
wait as later ones do (``unsized``): until their network is cut for them, or it is known that it cannot be. So do those
of a tenant and network under which a device died (``unguarded``).
"""

from __future__ import annotations

import asyncio
from functools import partial

from eunomia.serving.devices.answers import Answer
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import ServingError, TooLarge, TooLong
from eunomia.serving.tenants.grants import Directory, Grant, grant_of
from eunomia.serving.tenants.holding import Holding
from eunomia.serving.tenants.unsized import Later, Unsized, Wait


class HeldBack:
    """Looks at those that wait when a class of shapes has run for the first time, or a device has died."""

    def __init__(self, pool: DevicePool, holding: Holding, directory: Directory, unsized: Unsized) -> None:
        self._pool, self._holding, self._directory, self._unsized = pool, holding, directory, unsized
        pool.execution.lessons.on_learnt, pool.recovery.felled = self.learnt, self._felled

    def learnt(self, cost_row: int) -> None:
        """It is known what inputs of this class take; who hears that is in the midst of its bookkeeping."""
        asyncio.get_running_loop().call_soon(self._look, cost_row)

    def _felled(self, job: Job) -> None:
        """A device died under it: its like may do the same."""
        self._pool.unguarded.felled(job)
        asyncio.get_running_loop().call_soon(self._look_after, job.pair)

    def _look_after(self, pair: int) -> None:
        state = self._pool.dispatcher
        for job in state.waiting.jobs():
            if job.pair == pair and not job.block and not job.through and state.waiting.shown(job):
                self._hold_back(grant_of(self._directory, state.agreements[pair].tenant), job)

    def _look(self, cost_row: int) -> None:
        state = self._pool.dispatcher
        for job in state.waiting.jobs():
            if job.cost_row == cost_row and job.unsure and not job.block and state.waiting.shown(job):
                tenant = state.agreements[job.pair].tenant
                if self._holding.too_long(tenant, job):
                    self._hold_back(grant_of(self._directory, tenant), job)

    def _hold_back(self, grant: Grant, job: Job) -> None:
        self._pool.dispatcher.withdraw(job)
        self._pool.unsized.add(job)

        def enter() -> Answer | Wait:
            if not job.payload.over:
                known = self._holding.check(grant, job)
                if known is not None:
                    return Wait(known)
                self._pool.enter(job)
            answer: Answer = job.payload.answer
            return answer

        def refused(error: ServingError) -> None:
            why = TooLong(str(error)) if isinstance(error, TooLarge) else error
            self._pool.answers.fail_soon(job, why)

        later = Later(grant.name, job, 0, enter, refused)
        self._pool.answers.in_turn(grant.name, partial(self._unsized.go_on, later))
