"""All devices of a server, from start to stop, and what happens when one of them dies."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path

from eunomia.contract.view import Assign, View
from eunomia.serving.devices.answers import Answers, Inputs
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.device import Device, DeviceSpec
from eunomia.serving.devices.execution import Execution, OnRun
from eunomia.serving.devices.ladder import Ladder
from eunomia.serving.devices.loading import LoadedModel, Loading
from eunomia.serving.devices.messages import Message, Ports
from eunomia.serving.devices.strings import Value
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.harvest import Harvest, HarvestOptions
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import Cancelled, ModelFailed, ServingError, Unavailable

log = logging.getLogger("eunomia.serving")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # before a device is started again that did not come to serve
MAX_LOST = 3  # machines that may go away under a request; then it gets 503
MAX_RETRIES = 1  # a request whose device died runs once more; then it is taken for the cause


def pause_s(vain: int) -> float:
    """Seconds before a device is started again after so many starts in vain."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(vain - 1, 20)) if vain else 0.0


class DevicePool:
    """Owns the arena, the worker processes and the dispatcher."""

    def __init__(
        self,
        specs: Sequence[DeviceSpec],
        clock: Clock,
        policy: Callable[[View], Sequence[Assign]],
        options: DispatchOptions,
        *,
        cache: Path,
        arena_bytes: int,
        target_s: float,
    ) -> None:
        self.arena = Arena.create(arena_bytes)
        self.costs = CostBook(len(specs))
        self._devices = [
            Device(n, spec, self.arena, str(cache), self._on_message, self._on_death)
            for n, spec in enumerate(specs)
        ]
        self.loading = Loading(
            self._devices, self.costs, target_s, 0.0 if options.calm_s == math.inf else options.lease_s
        )
        self.ladder = Ladder(self._devices, self.loading, self.costs, clock)
        self.execution = Execution(self.arena, self._devices, self.loading, clock)
        self.dispatcher = Dispatcher(clock, self.execution, self.costs, len(specs), policy, options)
        self.answers = Answers(self.arena, self.dispatcher)
        self.execution.connect(self.dispatcher, self.answers)
        self.unsized: set[Job] = set()  # requests that wait until it is known what their size takes
        self.deaths = 0
        self.begin: Callable[[], None] = lambda: None  # the event loop is about to work
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts: dict[int, asyncio.Task[None]] = {}
        self._in_vain = [0] * len(specs)  # deaths in a row before it served
        self._closing = False

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every device; raises Unavailable."""
        try:
            await asyncio.gather(*(device.start() for device in self._devices))
        except TimeoutError:
            most_s = max(device.place.start_s for device in self._devices)
            raise Unavailable(f"a device process was not ready within {most_s:.0f} s") from None
        self._spawn(self._watch())

    async def close(self) -> None:
        """End every device; waiting requests fail with the reason that the server stops."""
        self._closing = True
        self.ladder.close()
        for task in list(self._tasks):
            task.cancel()
        for job in self.dispatcher.waiting.jobs():
            self.dispatcher.withdraw(job)
            self.answers.fail(job, Unavailable("the server is stopping"))
        for run in self.execution.running():
            for job in [run.job, *run.job.together]:
                self.answers.fail(job, Unavailable("the server is stopping"))
        for queue in self.execution.queues:
            queue.clear()  # timers that still look at them find nothing
        for device in self._devices:
            device.disconnect()
        for device in self._devices:
            await asyncio.to_thread(device.wait)
        await asyncio.to_thread(self.answers.close)
        await asyncio.sleep(0)  # what has been copied reaches those who wait
        self.arena.close()

    @property
    def on_run(self) -> OnRun:
        """Told of every run: device, job, when it began and ended, whether it was stopped."""
        return self.execution.on_run

    @on_run.setter
    def on_run(self, listener: OnRun) -> None:
        self.execution.on_run = listener

    def harvest(self, options: HarvestOptions) -> None:
        """From now on these tenants take what the others leave."""

        def used_bytes(job: Job | None) -> int:
            if job is None:
                return self.arena.room_bytes - self.arena.free_bytes
            return 0 if job.payload is None else job.payload.slot.size

        def jobs() -> list[tuple[str, Job, float]]:
            state = self.dispatcher
            runs = [member for run in self.execution.running() for member in (run.job, *run.job.together)]
            inside = [*state.waiting.jobs(), *runs]
            return [(state.agreements[job.pair].tenant, job, state.rest_s(job)) for job in inside]

        self.dispatcher.harvest = Harvest(
            options, len(self._devices), self.arena.room_bytes, used_bytes, jobs
        )

    @property
    def devices(self) -> Sequence[Device]:
        """The worker processes."""
        return self._devices

    @property
    def busy(self) -> bool:
        """Whether any request waits or runs, or its answer is being copied."""
        waits = len(self.dispatcher.waiting) > 0 or bool(self.unsized or self.answers.entering)
        return waits or bool(self.execution.running()) or self.answers.copying

    # --- networks --------------------------------------------------------------------------------------

    @property
    def models(self) -> Mapping[str, LoadedModel]:
        """Networks in service, by name."""
        return self.loading.models

    async def load(self, name: str, path: str, shapes: Mapping[str, list[int]]) -> Ports:
        """Load a network, in place of an older one of its name; returns its ports. Raises ModelError."""
        old = self.models.get(name)
        ports = await self.loading.load(name, path, shapes)
        if old is not None:
            self.ladder.forget(old.network)
            self._spawn(self.loading.retire(old, self._in_use))
        return ports

    def unload(self, name: str) -> None:
        """No new requests; workers forget the network once those that wait are through."""
        old = self.loading.models.pop(name, None)
        self.costs.networks.pop(name, None)
        if old is not None:
            self._spawn(self.loading.retire(old, self._in_use))

    def _in_use(self, network: Network) -> bool:
        jobs = [
            *self.dispatcher.waiting.jobs(),
            *(run.job for run in self.execution.running()),
            *self.unsized,
            *self.answers.entering,
        ]
        return any(job.network is network for job in jobs)

    # --- requests --------------------------------------------------------------------------------------

    def submit(self, job: Job, inputs: Inputs) -> asyncio.Future[dict[str, Value]]:
        """Tensors into the arena, the job before the policy; raises Unavailable, ArenaFull, and what reading raises."""
        if self._closing:
            raise Unavailable("the server is stopping")
        return self.answers.take_in(job, inputs, self._enter)

    def _enter(self, job: Job) -> None:
        """Its tensors are in the arena; raises Unavailable."""
        if self._closing:
            raise Unavailable("the server is stopping")
        if self.dispatcher.idle:
            self.dispatcher.arrive(job)
        else:  # the policy is asked once for all that come in one round of the event loop
            if not self.dispatcher.unheard:
                asyncio.get_running_loop().call_soon(self._hear)
            self.dispatcher.enter(job)

    def _hear(self) -> None:
        if self.dispatcher.unheard:
            self.dispatcher.decide()

    def cancel(self, job: Job) -> None:
        """The client is gone: out of the queue now, or off the device at the next boundary."""
        if job.payload is None or job.payload.over:
            return
        job.cancelled = True
        if self.dispatcher.waiting.shown(job):
            self.dispatcher.withdraw(job)
            self.execution.forget(job)
            self.answers.fail(job, Cancelled("the client has gone away"))
            return
        for device, queue in enumerate(self.execution.queues):
            if queue and queue[0].job is job and not job.together:
                self.execution.stop(device)

    def give_up(self, job: Job, error: ServingError) -> None:
        """Those that wait with inputs like this one's, of the same tenant, get no device."""
        waiting = self.dispatcher.waiting
        like = [
            j for j in waiting.jobs() if (j.pair, j.cost_row) == (job.pair, job.cost_row) and waiting.shown(j)
        ]
        for other in like:
            self.dispatcher.withdraw(other)
            self.execution.forget(other)
        for other in like:
            self.answers.fail_soon(other, error)

    # --- what goes wrong -------------------------------------------------------------------------------

    def _on_message(self, device: int, message: Message) -> None:
        self.begin()
        if message["kind"] in ("loaded", "refused"):
            self.loading.answered(device, message)
        elif message["kind"] == "tried":
            self.ladder.answered(message)
        else:
            self.execution.on_message(device, message)

    def _on_death(self, device: int) -> None:
        """A worker has died: its requests run again elsewhere or fail, and a new worker starts."""
        if self._closing:
            return
        self.deaths += 1
        self._in_vain[device] = 0 if self.dispatcher.lanes[device].alive else self._in_vain[device] + 1
        log.warning("device '%s' died; it is started again", self._devices[device].spec.name)
        self.loading.died(device)
        self.ladder.died(device)
        queue = self.execution.queues[device]
        self.execution.moving.died(device)
        for run in queue:
            if run.move_from >= 0:
                self.execution.moving.abandon(run)
            else:
                self.answers.release(run.slot)
        ran = queue[0] if queue else None
        queue.clear()
        blame = not self._devices[device].blameless
        if ran is not None and ran.sent and blame:
            for member in (ran.job, *ran.job.together):
                member.felled = True
        self.dispatcher.lost(device, sent=ran is None or ran.sent, blame=blame)
        stranded = [j for j in self.dispatcher.waiting.jobs() if j.device == device and j.block > 0]
        for job in stranded:
            self.dispatcher.withdraw(job)
        stranded += self._moving_from(device)
        for job in stranded:
            self.dispatcher.wait_again(job)
        lost = [ran] if ran is not None else []
        lost += [run for holder, run in self.execution.moving.fetching.values() if holder == device]
        for run in lost:
            if self.execution.moving.fetching.pop(run.job.number, None):
                self.answers.release(run.slot)
            self._run_again(run.job, blame=blame)
        if (earlier := self._restarts.get(device)) is not None:
            earlier.cancel()
        self._restarts[device] = self._spawn(self._restart(device))
        self.dispatcher.decide()

    def _moving_from(self, device: int) -> list[Job]:
        """Jobs that another device was about to take over; their tensors are lost."""
        moving = []
        for n, queue in enumerate(self.execution.queues):
            if queue and queue[0].move_from == device:
                moving.append(self.execution.gave_up(n))
        return moving

    def _run_again(self, job: Job, *, blame: bool) -> None:
        members, job.together = [job, *job.together], []
        for member in members:
            member.retries += blame
            member.lost += not blame
            if member.lost > MAX_LOST:
                why = f"{member.lost} machines went away while it ran"
                self.answers.fail(member, Unavailable(why, retry_after_s=1.0))
            elif member.retries > MAX_RETRIES:
                self.answers.fail(
                    member, ModelFailed(f"network '{member.network.name}' took its device down with it")
                )
            else:
                self.dispatcher.wait_again(member)

    async def _restart(self, device: int) -> None:
        """At once; after starts in vain later and later, so that a device that cannot start burns no core."""
        if vain := self._in_vain[device]:
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
            asyncio.get_running_loop().call_soon(self._on_death, device)
            return
        await self.loading.load_again(self._devices[device])
        self.dispatcher.lanes[device].alive = True
        self.dispatcher.decide()

    async def _watch(self) -> None:
        """Kill runs that hang, and drop what has expired even when nothing else happens."""
        while True:
            await asyncio.sleep(0.05)
            self.begin()
            now_s = self._clock.now_s()
            for device, queue in enumerate(self.execution.queues):
                if queue and now_s > queue[0].limit_s:
                    run = queue[0]
                    log.warning(
                        "device '%s' hangs in network '%s'",
                        self._devices[device].spec.name,
                        run.job.network.name,
                    )
                    if not self._devices[device].place.far:  # else the way there may be at fault
                        run.job.retries = MAX_RETRIES
                    self._devices[device].kill()
            if all(self._in_vain):
                self._too_late(now_s)
            self.dispatcher.look_again()

    def _too_late(self, now_s: float) -> None:
        """No device comes back: those whose deadline has passed meanwhile wait no longer."""
        for job in self.dispatcher.waiting.jobs():
            if now_s > job.deadline_s and self.dispatcher.waiting.shown(job):
                self.dispatcher.withdraw(job)
                why = "no device answers, and its deadline has passed"
                self.answers.fail_soon(job, Unavailable(why, retry_after_s=LONGEST_PAUSE_S))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
