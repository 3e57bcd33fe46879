"""What follows the death of a device: its requests run again, and its process starts anew, the wanted networks first.

A device may die of what ran there, or of a kill from outside. Signals of an operator blame nobody. Of a crash, or a
kill where the machine ran out of memory, all that ran there are suspects: each runs once more, in no batch. Who is the
cause takes a device down again, alone, and is not tried a third time. A run that went on when it was to end has
the answer of one that did end: its process was killed for the others' sake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

from eunomia.serving.devices.device import Device
from eunomia.serving.devices.execution import Execution
from eunomia.serving.devices.ladder import Ladder
from eunomia.serving.devices.loading import Loading
from eunomia.serving.devices.run import Run
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.less import ended
from eunomia.serving.protocol.errors import InputFailed, Unavailable

log = logging.getLogger("eunomia.serving")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # before a device is started again that did not come to serve
MAX_LOST = 3  # devices that may go away under a request, nobody to blame; then it gets 503
MAX_RETRIES = 1  # a request whose device died runs once more, alone; then it is taken for the cause


def pause_s(vain: int) -> float:
    """Seconds before a device is started again after so many starts in vain."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(vain - 1, 20)) if vain else 0.0


class Recovery:
    """``in_vain``: deaths in a row of each device before it had all networks again."""

    def __init__(
        self,
        devices: Sequence[Device],
        loading: Loading,
        execution: Execution,
        ladder: Ladder,
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self._devices, self._loading, self._execution, self._ladder = devices, loading, execution, ladder
        self._spawn = spawn
        self.suspected: Callable[[Job], None] = lambda job: None  # it waits to run again, or has its answer
        self.felled: Callable[[Job], None] = lambda job: None  # a device died under it
        self.deaths = 0
        self.in_vain = [0] * len(devices)
        self._whole = [True] * len(devices)  # whether it has all networks
        self._restarts: dict[int, asyncio.Task[None]] = {}

    def whole(self, device: int) -> bool:
        """Whether it has all networks."""
        return self._whole[device] and self._devices[device].alive

    def died(self, device: int) -> None:
        """Its requests run again elsewhere or fail, and a new process starts."""
        execution, dispatcher = self._execution, self._execution.dispatcher
        if (earlier := self._restarts.get(device)) is not None:
            earlier.cancel()  # before its loads fail, which would have it go on
        dispatcher.later.settle()  # what was measured there is not to be learned after its death
        self.deaths += 1
        self.in_vain[device] = 0 if self._whole[device] else self.in_vain[device] + 1
        self._whole[device] = False
        log.warning("device '%s' died; it is started again", self._devices[device].spec.name)
        queue = execution.queues[device]
        busy = any(run.sent for run in queue) or self._ladder.tries_on(device) is not None
        self._loading.died(device, busy=busy)
        self._ladder.died(device)
        execution.moving.died(device)
        for run in queue:
            if run.move_from >= 0:
                execution.moving.abandon(run)
            else:
                execution.answers.release(run.slot)
        ran = queue[0] if queue else None
        queue.clear()
        blame = not self._devices[device].blameless
        held_s = dispatcher.clock.now_s() - dispatcher.lanes[device].start_s
        dispatcher.lost(device, sent=ran is None or ran.sent, blame=blame)
        stranded = [j for j in dispatcher.waiting.jobs() if j.device == device and j.block > 0]
        for job in stranded:
            dispatcher.withdraw(job)
        stranded += self._moving_from(device)
        for job in stranded:
            dispatcher.wait_again(job)
        lost = [] if ran is None else [(ran, blame and ran.sent)]
        fetching = execution.moving.fetching
        lost += [(run, False) for holder, run in fetching.values() if holder == device]
        for run, suspect in lost:
            if fetching.pop(run.job.number, None):
                execution.answers.release(run.slot)
            self._run_again(run, held_s, suspect=suspect)
            if suspect:
                self.felled(run.job)
            if suspect and not run.ended:
                self.suspected(run.job)
        self._restarts[device] = self._spawn(self._restart(device))
        self._refuse()
        dispatcher.decide()

    def _refuse(self) -> None:
        """Who waits for a network that no device has, though one has tried to load all, waits no longer."""
        if not any(whole and one.alive for whole, one in zip(self._whole, self._devices, strict=True)):
            return
        self._loading.give_up()
        dispatcher = self._execution.dispatcher
        waiting = dispatcher.waiting
        for job in [job for job in waiting.jobs() if self._loading.away and waiting.shown(job)]:
            try:
                self._loading.check(job.network)
            except Unavailable as error:
                dispatcher.withdraw(job)
                self._execution.forget(job)
                self._execution.answers.fail_soon(job, error)

    def _moving_from(self, device: int) -> list[Job]:
        """Jobs that another device was about to take over; their tensors are lost."""
        moving = []
        for n, queue in enumerate(self._execution.queues):
            if queue and queue[0].move_from == device:
                moving.append(self._execution.gave_up(n))
        return moving

    def _run_again(self, run: Run, held_s: float, *, suspect: bool) -> None:
        job = run.job
        members, job.together = [job, *job.together], []
        if suspect and run.ended and len(members) == 1:  # of a batch, nobody knows whose input is too long
            job.felled = job.killed = True
            job.payload.took_s += held_s
            self._execution.answers.offer(job)  # in blocks it may run to its end
            self._execution.answers.fail(job, ended(self._execution.dispatcher, job, held_s))
            return
        for member in members:
            self.run_again(member, suspect=suspect)

    def run_again(self, job: Job, *, suspect: bool) -> None:
        """Its device died. A suspect runs in no batch from now on, so that the next death says who it was."""
        answers = self._execution.answers
        job.retries += suspect
        job.lost += not suspect
        if suspect:
            job.group = None
        if job.lost > MAX_LOST:
            why = f"{job.lost} devices went away while it ran"
            answers.fail(job, Unavailable(why, retry_after_s=1.0))
        elif job.retries > MAX_RETRIES:
            job.felled = job.crashed = True
            why = f"network '{job.network.name}' took its device down with this input, twice: do not send it again"
            answers.fail(job, InputFailed(why))
        else:
            self._execution.dispatcher.wait_again(job)

    async def _restart(self, device: int) -> None:
        """At once; after starts in vain later and later, so that a device that cannot start burns no core.

        It serves with the first network that it has; those that somebody waits for come first, then the last used.
        """
        if vain := self.in_vain[device]:
            await asyncio.sleep(pause_s(vain))
        try:
            await self._devices[device].start()
        except TimeoutError:  # it hangs: its death is noticed, and it is started again
            self._devices[device].kill()
            return
        except Unavailable as error:  # its process ends by itself, and is started again later
            log.warning("%s", error)
            return
        except OSError as error:
            log.error("device '%s' cannot be started: %s", self._devices[device].spec.name, error)
            asyncio.get_running_loop().call_soon(self.died, device)
            return
        dispatcher = self._execution.dispatcher
        wanted = {job.network.index for job in dispatcher.waiting.jobs()}
        async for _ in self._loading.load_again(self._devices[device], wanted):
            dispatcher.lanes[device].alive = True
            dispatcher.decide()
        self._loading.drop_rest(self._devices[device])
        self._whole[device] = dispatcher.lanes[device].alive = True
        self._refuse()
        dispatcher.decide()
        await self._loading.complete(self._devices[device])
