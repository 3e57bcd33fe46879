"""All devices of a server, from start to stop, and what happens when one of them dies."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path

from eunomia.contract.view import Assign, View
from eunomia.serving.devices.answers import Answers, Inputs
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.by_request import ByRequest
from eunomia.serving.devices.by_size import BySize
from eunomia.serving.devices.climbs import Known
from eunomia.serving.devices.cutting import BLOCKS, content_of, drop_chosen
from eunomia.serving.devices.device import Device, DeviceSpec
from eunomia.serving.devices.empties import Empties
from eunomia.serving.devices.execution import Execution, OnRun
from eunomia.serving.devices.ladder import Ladder
from eunomia.serving.devices.left import use
from eunomia.serving.devices.loading import LoadedModel, Loading
from eunomia.serving.devices.messages import Message, Ports
from eunomia.serving.devices.recovery import LONGEST_PAUSE_S, Recovery
from eunomia.serving.devices.rows import Word
from eunomia.serving.devices.sparing import Sparing
from eunomia.serving.devices.strings import Value
from eunomia.serving.devices.unguarded import Unguarded
from eunomia.serving.devices.watching import Watching
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.harvest import Harvest, HarvestOptions
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import Cancelled, ServingError, Unavailable


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
        self.loading.batches = options.max_batch > 1
        self.ladder = Ladder(self._devices, self.loading, self.costs, clock)
        self.execution = Execution(self.arena, self._devices, self.loading, clock)
        self.execution.tries_on = self.ladder.tries_on
        self.ladder.queued = lambda device: len(self.execution.queues[device])
        self.dispatcher = Dispatcher(clock, self.execution, self.costs, len(specs), policy, options)
        self.answers = Answers(self.arena, self.dispatcher)
        self.execution.connect(self.dispatcher, self.answers)
        self.unsized: set[Job] = set()  # requests that wait until it is known what their size takes
        self.begin: Callable[[], None] = lambda: None  # the event loop is about to work
        self._clock, self._cache = clock, cache
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._leave: Callable[[], None] = lambda: None  # the cache
        self.recovery = Recovery(self._devices, self.loading, self.execution, self.ladder, self._spawn)
        self.recovery.suspected = self._suspected
        self.of_death: Callable[[Job], ServingError | None] = lambda job: None  # why its like is given up
        self.by_request = ByRequest(self._devices, self.loading, self.arena, clock, str(cache))
        self.by_request.place, self.by_request.spawn = self._cut_otherwise, self._spawn
        self.by_request.timed, self.by_request.costs = self.costs.timed, self.costs
        self.answers.on_input, self.loading.on_lost = self.by_request.offered, self.by_request.lost
        self.by_size = BySize(self._devices, self.loading, self.costs, clock, self._cut_by)
        self.by_size.spawn, self.by_size.turn = self._spawn, lambda: self.by_request.turn
        self.empties = Empties(self.loading, clock, str(cache), specs)
        self.empties.spawn = self._spawn
        self.sparing = Sparing(self._devices, self.loading)
        self.unguarded = Unguarded(self._devices, clock)
        self.unguarded.expected = self.sparing.expects
        self.watching = Watching(self._devices, self.execution, self.ladder)

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every device; raises Unavailable."""
        self._leave = use(self._cache)
        try:
            await asyncio.gather(*(device.start() for device in self._devices))
        except TimeoutError:
            most_s = max(device.place.start_s for device in self._devices)
            raise Unavailable(f"a device process was not ready within {most_s:.0f} s") from None
        self._spawn(self._watch())
        for device in self._devices:
            if device.spec.spare and device.place.spare:
                self._spawn(self.sparing.keep(device, self.recovery.whole))

    async def close(self) -> None:
        """End every device; waiting requests fail with the reason that the server stops."""
        self._closing = True
        self.sparing.stop()
        self.ladder.close()
        self.by_size.close()
        for task in list(self._tasks):
            task.cancel()
        self.execution.portions.closed = True
        for job in self.dispatcher.waiting.jobs():
            self.dispatcher.withdraw(job)
            for member in [job, *job.together]:
                self.answers.fail(member, Unavailable("the server is stopping"))
        for run in self.execution.running():
            for job in [run.job, *run.job.together]:
                self.answers.fail(job, Unavailable("the server is stopping"))
        for queue in self.execution.queues:
            queue.clear()  # timers that still look at them find nothing
        for device in self._devices:
            device.disconnect()
        await asyncio.gather(*(asyncio.to_thread(device.wait) for device in self._devices))
        stay = {model.key for model in self.models.values() if not model.chosen}
        for model in self.models.values():
            if model.chosen and model.key not in stay:
                await asyncio.to_thread(drop_chosen, self._cache / f"{model.key}{BLOCKS}")
        self._leave()
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
    def deaths(self) -> int:
        """Of device processes, so far."""
        return self.recovery.deaths

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

    async def load(
        self, name: str, path: str, shapes: Shapes, cut: str = "", most_s: float = 0.0, apart: Word = None
    ) -> Ports:
        """Load a network, in place of an older one of its name; returns its ports. Raises ModelError.

        ``cut``: in the cache, that it is to be. ``most_s``: of a block, 0 = any. ``apart``: whether its rows are
        answered one by one; None = where that is proven.
        """
        old = self.models.get(name)
        ports = await self.loading.load(name, path, shapes, cut, most_s, apart)
        if old is not None:
            self.ladder.forget(old.network)
            self._spawn(self._forget(old, self.loading.retire(old, self._in_use)))
        return ports

    async def _cut_otherwise(self, model: LoadedModel, cut: str) -> None:
        await self._in_place_of(model, model.shapes, cut)

    async def _cut_by(self, model: LoadedModel, shapes: Shapes, most_s: float) -> None:
        await self._in_place_of(model, shapes, content_of(model.key), most_s)
        self.models[model.network.name].chosen = True

    async def _in_place_of(
        self, old: LoadedModel, shapes: Mapping[str, list[int]], cut: str, most_s: float = 0.0
    ) -> None:
        """The same network, cut otherwise; raises ModelError.

        Who gave its shapes, what is usual of it, and whether its requests share runs, stays.
        """
        await self.load(old.network.name, old.path, dict(shapes), cut, most_s, old.apart)
        new, usual = self.models[old.network.name], self.costs.usual
        new.given, new.chosen = old.given, old.chosen
        usual[new.network.index] = usual.get(old.network.index, old.network.index)
        for those in (self.costs.apart, self.costs.by_row):
            if old.network.index in those:
                those.add(new.network.index)

    def unload(self, name: str) -> None:
        """No new requests; workers forget the network once those that wait are through."""
        old = self.loading.models.pop(name, None)
        self.costs.networks.pop(name, None)
        if old is not None:
            self._spawn(self._forget(old, self.loading.retire(old, self._in_use)))

    async def _forget(self, old: LoadedModel, retired: Coroutine[object, object, None]) -> None:
        """The next start cuts it by its trial: what clients chose does not stay on disk."""
        await retired
        if old.chosen and old.key not in {model.key for model in self.models.values()}:
            await asyncio.to_thread(drop_chosen, self._cache / f"{old.key}{BLOCKS}")

    def _in_use(self, network: Network) -> bool:
        jobs = [
            *self.dispatcher.waiting.jobs(),
            *(run.job for run in self.execution.running()),
            *self.unsized,
            *self.answers.entering,
        ]
        return any(job.network is network for job in jobs)

    def hollow(self, tenant: str, job: Job) -> Known | None:
        """When to ask again of a request with inputs that are empty; None: it may run. Raises ServingError."""
        if self._closing:
            raise Unavailable("the server is stopping")
        return self.empties.check(tenant, job)

    def explore(self, tenant: str, job: Job, bound_s: float) -> bool | Known:
        """Whether the server has tried the size of a request that may be too long in a block, or what comes of it.

        In both cases the network may be cut for such sizes, which can be waited for.
        """
        if self._closing:
            raise Unavailable("the server is stopping")
        found = self.ladder.towards(tenant, job, bound_s)
        if not isinstance(found, bool):
            return found
        cut = self.by_request.wanted(job) or self.by_size.wanted(tenant, job, bound_s)
        return cut or found or self.by_size.longest_s(job) > bound_s

    # --- requests --------------------------------------------------------------------------------------

    def submit(self, job: Job, inputs: Inputs) -> asyncio.Future[dict[str, Value]]:
        """Tensors into the arena, the job before the policy; raises Unavailable, ArenaFull, and what reading raises."""
        if self._closing:
            raise Unavailable("the server is stopping")
        return self.answers.take_in(job, inputs, self.enter)

    def enter(self, job: Job) -> None:
        """Its tensors are in the arena; raises Unavailable."""
        if self._closing:
            raise Unavailable("the server is stopping")
        if self.loading.away:
            self.loading.check(job.network)
        if job.later and job.payload.gathered is None:
            self.execution.portions.begin(job)
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
        if job in self.unsized:  # it has waited for a device, and waits for its size now
            self.answers.fail(job, Cancelled("the client has gone away"))
            return
        if self.dispatcher.waiting.shown(job):
            self.dispatcher.withdraw(job)
            self.execution.forget(job)
            self.answers.fail(job, Cancelled("the client has gone away"))
            return
        for device, queue in enumerate(self.execution.queues):
            if queue and queue[0].job is job and not job.together:
                self.execution.stop(device)

    def give_up(self, job: Job, error: ServingError, *, whole: bool = False) -> None:
        """Those that wait with inputs like this one's, of the same tenant, get no device; ``whole``: of any size."""
        waiting = self.dispatcher.waiting
        like = [
            other
            for other in waiting.jobs()
            if other.pair == job.pair and (whole or other.cost_row == job.cost_row) and waiting.shown(other)
        ]
        for other in like:
            self.dispatcher.withdraw(other)
            self.execution.forget(other)
        for other in like:
            self.answers.fail_soon(other, error)

    # --- what goes wrong -------------------------------------------------------------------------------

    def _suspected(self, job: Job) -> None:
        self.empties.died(job)
        if (error := self.of_death(job)) is not None:
            self.give_up(job, error, whole=True)

    def _on_message(self, device: int, message: Message) -> None:
        self.begin()
        if message["kind"] in ("loaded", "refused"):
            self.loading.answered(device, message)
        elif message["kind"] == "tried":
            self.ladder.answered(device, message)
        else:
            self.execution.on_message(device, message)

    def _on_death(self, device: int) -> None:
        """A worker has died."""
        if not self._closing:
            self.recovery.died(device)

    async def _watch(self) -> None:
        """End runs that hang, and drop what has expired even when nothing else happens."""
        while True:
            await asyncio.sleep(0.05)
            self.begin()
            now_s = self._clock.now_s()
            self.watching.look(now_s)
            if all(self.recovery.in_vain):
                self._too_late(now_s)
            self.dispatcher.look_again()

    def _too_late(self, now_s: float) -> None:
        """No device comes back: those whose deadline has passed meanwhile wait no longer."""
        for job in self.dispatcher.waiting.jobs():
            if now_s > job.deadline_s and self.dispatcher.waiting.shown(job):
                self.dispatcher.withdraw(job)
                self.execution.forget(job)
                why = "no device answers, and its deadline has passed"
                self.answers.fail_soon(job, Unavailable(why, retry_after_s=LONGEST_PAUSE_S))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
