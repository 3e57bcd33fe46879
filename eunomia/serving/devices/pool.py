"""All devices of a server: carries out the dispatcher's decisions, and survives what devices do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from eunomia.inference.view import Assign, View
from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.arena import FLAGS, Arena, ArenaFull, Slot
from eunomia.serving.devices.device import Device, DeviceSpec
from eunomia.serving.devices.loading import FIRST_ROOM, LoadedModel, Loading
from eunomia.serving.devices.messages import Message
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.dispatcher import Dispatcher, DispatchOptions
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import (
    Cancelled,
    Expired,
    Hopeless,
    ModelFailed,
    ServingError,
    Unavailable,
)

log = logging.getLogger("eunomia.serving")

HANG_FACTOR, HANG_S = 50.0, 2.0  # a run that lasts this many times its estimate, and this long on top, hangs
NO_ROOM = Slot(FLAGS, 0)
MAX_RETRIES = 1  # a request whose device died runs once more; then it is taken for the cause


@dataclass
class _Run:
    """A run in progress, and where its outputs may go."""

    job: Job
    last: int
    slot: Slot
    limit_s: float
    next: int = 0
    seconds: list[float] = field(default_factory=list)
    move_from: int = -1


class DevicePool:
    """Owns the arena, the worker processes and the dispatcher."""

    def __init__(
        self, specs: Sequence[DeviceSpec], clock: Clock, policy: Callable[[View], Sequence[Assign]],
        options: DispatchOptions, *, cache: Path, arena_bytes: int, target_s: float,
    ) -> None:  # fmt: skip
        self.arena = Arena.create(arena_bytes)
        self.costs = CostBook(len(specs))
        self.dispatcher = Dispatcher(clock, self, self.costs, len(specs), policy, options)
        self.answers = Answers(self.arena, self.dispatcher)
        self.on_run: Callable[[int, Job, float, bool], None] = lambda device, job, start_s, preempted: None
        self.deaths = 0
        self._clock = clock
        self._devices = [
            Device(n, spec, self.arena, str(cache), self._on_message, self._on_death)
            for n, spec in enumerate(specs)
        ]
        self._runs: list[_Run | None] = [None] * len(specs)
        self.loading = Loading(self._devices, self.costs, target_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every device; raises Unavailable."""
        try:
            await asyncio.gather(*(device.start() for device in self._devices))
        except TimeoutError:
            raise Unavailable("a device process did not start in time") from None
        self._spawn(self._watch())

    async def close(self) -> None:
        """End every device; waiting requests are told that the server stops."""
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        for job in self.dispatcher.waiting.jobs():
            self.dispatcher.withdraw(job)
            self.answers.fail(job, Unavailable("the server is stopping"))
        for run in self._runs:
            for job in [run.job, *run.job.together] if run is not None else []:
                self.answers.fail(job, Unavailable("the server is stopping"))
        for device in self._devices:
            device.disconnect()
        for device in self._devices:
            await asyncio.to_thread(device.wait)
        self.arena.close()

    @property
    def devices(self) -> Sequence[Device]:
        """The worker processes."""
        return self._devices

    @property
    def busy(self) -> bool:
        """Whether any request waits or runs."""
        return len(self.dispatcher.waiting) > 0 or any(run is not None for run in self._runs)

    # --- networks --------------------------------------------------------------------------------------

    @property
    def models(self) -> Mapping[str, LoadedModel]:
        """Networks in service, by name."""
        return self.loading.models

    async def load(self, name: str, path: str, shapes: Mapping[str, list[int]]) -> Message:
        """Load a network, in place of an older one of its name; returns its ports. Raises ModelError."""
        old = self.models.get(name)
        ports = await self.loading.load(name, path, shapes)
        if old is not None:
            self._spawn(self.loading.retire(old, self._in_use))
        return ports

    def unload(self, name: str) -> None:
        """No new requests; workers forget the network once those that wait are through."""
        old = self.loading.models.pop(name, None)
        self.costs.networks.pop(name, None)
        if old is not None:
            self._spawn(self.loading.retire(old, self._in_use))

    def _in_use(self, network: Network) -> bool:
        jobs = [*self.dispatcher.waiting.jobs(), *(run.job for run in self._runs if run is not None)]
        return any(job.network is network for job in jobs)

    # --- requests --------------------------------------------------------------------------------------

    def submit(
        self, job: Job, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> asyncio.Future[dict[str, npt.NDArray[Any]]]:
        """Put the tensors into the arena and the job before the policy; raises ArenaFull."""
        answer = self.answers.take_in(job, inputs)
        self.dispatcher.arrive(job)
        return answer

    def cancel(self, job: Job) -> None:
        """The client is gone: out of the queue now, or off the device at the next boundary."""
        if job.payload is None or job.payload.answer.done():
            return
        job.cancelled = True
        if job.row >= 0:
            self.dispatcher.withdraw(job)
            self._forget(job)
            self.answers.fail(job, Cancelled("the client has gone away"))
        else:
            for device, run in enumerate(self._runs):
                if run is not None and run.job is job and not job.together:
                    self.stop(device)

    # --- the dispatcher's executor ---------------------------------------------------------------------

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """Start a run, after fetching its tensors if another device holds them."""
        room = self._room(job)
        expected_s = (
            float(self.costs.latency_s[self.costs.rows(job.network), device][first:last].sum()) * job.batch
        )
        run = _Run(job, last, room, self._clock.now_s() + HANG_FACTOR * expected_s + HANG_S, first)
        self._runs[device] = run
        self.arena.stop(device, False)
        if first > 0 and job.device not in (device, -1):
            run.move_from = job.device
            self._devices[job.device].tell(
                {"kind": "fetch", "request": job.number, "next": first, "room": [room.offset, room.size]}
            )
            return
        members = [job, *job.together]
        self._send_run(device, run, [member.payload.inputs for member in members] if first == 0 else None)

    def stop(self, device: int) -> None:
        """Ask a device to stop at its next block boundary."""
        self.arena.stop(device, True)

    def dropped(self, job: Job, why: str) -> None:
        """The dispatcher gives a waiting job up."""
        self._forget(job)
        error: ServingError = Expired("its timeout passed while it waited")
        if why == "hopeless":
            error = Hopeless("its deadline can no longer be met", retry_after_s=0.1)
        self.answers.fail(job, error)

    def _send_run(self, device: int, run: _Run, inputs: list[list[Message]] | None) -> None:
        self._devices[device].tell({
            "kind": "run", "request": run.job.number, "model": self.loading.label(run.job.network), "first": run.next,
            "last": run.last, "inputs": inputs, "room": [run.slot.offset, run.slot.size],
        })  # fmt: skip

    def _room(self, job: Job) -> Slot:
        """Memory for the outputs; a full arena leaves the smallest piece, and the outputs are fetched later."""
        model = self.models.get(job.network.name)
        size = model.room if model else FIRST_ROOM
        try:
            return self.arena.allocate(size * (job.batch + sum(j.batch for j in job.together)))
        except ArenaFull:
            return NO_ROOM

    # --- what devices say ------------------------------------------------------------------------------

    def _on_message(self, device: int, message: Message) -> None:
        kind = message["kind"]
        if kind in ("loaded", "refused"):
            self.loading.answered(device, message)
        elif kind == "failed":
            self._on_failed(device, message)
        else:
            self._on_done(device, message)

    def _on_done(self, device: int, message: Message) -> None:
        target = next((n for n, r in enumerate(self._runs) if r is not None and r.move_from == device
                       and r.job.number == message["request"]), None)  # fmt: skip
        if target is not None:
            self._on_moved(target, message)
            return
        run = self._runs[device]
        if run is None or run.job.number != message["request"]:
            return  # of a run that was given up
        run.next, run.seconds = message["next"], run.seconds + message["seconds"]
        if message["tensors"] is None and message["bytes"]:  # finished, but the outputs did not fit
            self._enlarge(device, run, message["bytes"])
            return
        self._runs[device] = None
        start_s = self.dispatcher.lanes[device].start_s
        job = self.dispatcher.done(device, run.next, run.seconds)
        self.on_run(device, job, start_s, run.next < run.last)
        hits = self.answers.leave(job) if run.next >= job.network.blocks else None
        if hits is None and job.cancelled:
            self.dispatcher.withdraw(job)
            self._forget(job)
            self.answers.fail(job, Cancelled("the client has gone away"))
        try:
            self.dispatcher.decide()  # first, so that the device works on while the answer is handed out
        finally:
            if hits is not None:
                self.answers.finish(job, message["tensors"], hits)
            self.answers.release(run.slot)

    def _on_moved(self, device: int, message: Message) -> None:
        """Tensors of a half-done request are in the arena: go on with them here."""
        run = self._runs[device]
        assert run is not None
        if message["tensors"] is None:
            self._fetch_again(device, run.move_from, run, message["bytes"])
            return
        run.move_from = -1
        self._send_run(device, run, [message["tensors"]])

    def _enlarge(self, device: int, run: _Run, size: int) -> None:
        """Fetch outputs into a piece that is large enough, and remember the size."""
        model = self.models.get(run.job.network.name)
        if model is not None:
            rows = run.job.batch + sum(j.batch for j in run.job.together)
            model.room = max(model.room, -(-size // rows))
        self._fetch_again(device, device, run, size)

    def _fetch_again(self, device: int, holder: int, run: _Run, size: int) -> None:
        """Ask whoever holds the tensors for them once more, with room enough; the request fails if there is none."""
        self.answers.release(run.slot)
        run.slot = NO_ROOM
        try:
            run.slot = self.arena.allocate(size)
        except ArenaFull:
            self._devices[holder].tell({"kind": "forget", "request": run.job.number})
            self._on_failed(
                device, {"request": run.job.number, "why": f"no room for {size} bytes of tensors"}
            )
            return
        self._devices[holder].tell(
            {
                "kind": "fetch",
                "request": run.job.number,
                "next": run.next,
                "room": [run.slot.offset, run.slot.size],
            }
        )

    def _on_failed(self, device: int, message: Message) -> None:
        run = self._runs[device]
        if run is None or run.job.number != message["request"]:
            return
        self._runs[device] = None
        lane = self.dispatcher.lanes[device]
        job, lane.job = run.job, None
        self.answers.release(run.slot)
        for member in [job, *job.together]:
            self.answers.fail(member, ModelFailed(f"network '{job.network.name}' failed: {message['why']}"))
        self.dispatcher.decide()

    def _on_death(self, device: int) -> None:
        """A worker has died: its requests run again elsewhere or fail, and a new worker starts."""
        if self._closing:
            return
        self.deaths += 1
        log.warning("device '%s' died; it is started again", self._devices[device].spec.name)
        self.loading.died(device)
        run, self._runs[device] = self._runs[device], None
        self.dispatcher.lost(device)
        stranded = [j for j in self.dispatcher.waiting.jobs() if j.device == device and j.block > 0]
        for n, other in enumerate(self._runs):
            if other is not None and other.move_from == device:
                self._runs[n], self.dispatcher.lanes[n].job = None, None
                self.answers.release(other.slot)
                stranded.append(other.job)
        for job in stranded:
            self.dispatcher.withdraw(job)
            self.dispatcher.wait_again(job)
        if run is not None:
            self.answers.release(run.slot)
            self._run_again(run.job)
        self._spawn(self._restart(device))
        self.dispatcher.decide()

    def _run_again(self, job: Job) -> None:
        members, job.together = [job, *job.together], []
        for member in members:
            member.retries += 1
            if member.retries > MAX_RETRIES:
                self.answers.fail(
                    member, ModelFailed(f"network '{member.network.name}' took its device down twice with it")
                )
            else:
                self.dispatcher.wait_again(member)

    async def _restart(self, device: int) -> None:
        with contextlib.suppress(TimeoutError):
            await self._devices[device].start()
            await self.loading.load_again(self._devices[device])
            self.dispatcher.lanes[device].alive = True
            self.dispatcher.decide()

    async def _watch(self) -> None:
        """Kill runs that hang, and drop what has expired even when nothing else happens."""
        while True:
            await asyncio.sleep(0.05)
            now_s = self._clock.now_s()
            for device, run in enumerate(self._runs):
                if run is not None and now_s > run.limit_s:
                    log.warning(
                        "device '%s' hangs in network '%s'",
                        self._devices[device].spec.name,
                        run.job.network.name,
                    )
                    run.job.retries = MAX_RETRIES
                    self._devices[device].kill()
            self.dispatcher.decide()

    def _forget(self, job: Job) -> None:
        if job.device >= 0 and job.block > 0:
            self._devices[job.device].tell({"kind": "forget", "request": job.number})

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
