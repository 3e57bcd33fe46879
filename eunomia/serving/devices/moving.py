"""Tensors that move: outputs that had no room at first, and half-done requests that change their device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.arena import Arena, ArenaFull
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import Loading
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.run import NO_ROOM, Run
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job


class Runs(Protocol):
    """The runs of all devices, as far as moving tensors changes them: what :class:`.Execution` offers."""

    queues: list[deque[Run]]
    answers: Answers
    dispatcher: Dispatcher

    def send(self, device: int, run: Run) -> None:
        """Tell a device about a run."""

    def send_run(self, device: int, run: Run, inputs: list[list[Message]] | None) -> None:
        """Tell a device about a run, with tensors that lie in the arena or with none."""

    def gave_up(self, device: int) -> Job:
        """Take the next run of a device back: its tensors are lost."""

    def fail(self, run: Run, why: str) -> None:
        """Fail every request of a run."""


class Moving:
    """Fetches tensors from devices, and passes them on. ``fetching``: request -> who holds its outputs, and
    their run."""

    def __init__(self, runs: Runs, arena: Arena, devices: Sequence[Device], loading: Loading) -> None:
        self.fetching: dict[int, tuple[int, Run]] = {}
        self._runs, self._arena, self._devices, self._loading = runs, arena, devices, loading

    def fetch(self, run: Run, holder: int) -> None:
        """Ask a device to put a request's tensors into the room of this run."""
        room = [run.slot.offset, run.slot.size]
        self._devices[holder].tell({"kind": "fetch", "request": run.job.number, "room": room})

    def enlarge(self, device: int, run: Run, size: int) -> None:
        """Fetch outputs into a piece that is large enough, and remember the size."""
        model = self._loading.models.get(run.job.network.name)
        if model is not None:
            model.room = max(model.room, -(-size // run.job.rows))
        self.fetching[run.job.number] = (device, run)
        self._fetch_again(device, run, size)

    def on_tensors(self, message: Message) -> None:
        """A device has put them where they were wanted, or says how large they are."""
        number = message["request"]
        if number in self.fetching:
            self._on_outputs(message)
            return
        for device, queue in enumerate(self._runs.queues):
            if queue and queue[0].move_from >= 0 and queue[0].job.number == number:
                self._on_moved(device, queue[0], message)

    def _fetch_again(self, holder: int, run: Run, size: int) -> bool:
        """Ask whoever holds the tensors for them, with room enough; the request fails if there is none."""
        self._runs.answers.release(run.slot)
        run.slot = NO_ROOM
        try:
            run.slot = self._arena.allocate(size)
        except ArenaFull:
            self._devices[holder].tell({"kind": "forget", "request": run.job.number})
            self.fetching.pop(run.job.number, None)
            self._runs.fail(run, f"no room for {size} bytes of tensors")
            return False
        self.fetch(run, holder)
        return True

    def _on_outputs(self, message: Message) -> None:
        holder, run = self.fetching[message["request"]]
        if message["tensors"] is None:
            self._fetch_again(holder, run, message["bytes"])
            return
        del self.fetching[message["request"]]
        answers = self._runs.answers
        answers.finish(run.job, message["tensors"], answers.leave(run.job))
        answers.release(run.slot)

    def _on_moved(self, device: int, run: Run, message: Message) -> None:
        if message["tensors"] is None:
            if not self._fetch_again(run.move_from, run, message["bytes"]):
                self._runs.gave_up(device)
                self._runs.dispatcher.decide()
            return
        run.move_from = -1
        self._runs.send_run(device, run, [message["tensors"]])
        for later in list(self._runs.queues[device])[1:]:
            if not later.sent:
                self._runs.send(device, later)
