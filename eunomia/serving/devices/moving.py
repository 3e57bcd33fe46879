"""Tensors that move: outputs that had no room at first, and half-done requests that change their device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.arena import Slot
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import Loading
from eunomia.serving.devices.messages import Message, Placed
from eunomia.serving.devices.run import NO_ROOM, Run
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import InputFailed, NoRoom, ServingError

STARTS = 8
LOST = "network '{}' failed: the device that ran its first blocks has lost its tensors"


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

    def unfinished(self, run: Run, tensors: Sequence[Placed]) -> bool:
        """Whether nobody is to be answered by what came of a run: its requests run again, or have more rows."""

    def fail(self, run: Run, error: ServingError) -> None:
        """Fail every request of a run."""


class Moving:
    """Fetches tensors from devices, and passes them on. ``fetching``: request -> who holds its outputs, and
    their run. ``_abandoned``: request, holder and room of those that nobody waits for any more."""

    def __init__(self, runs: Runs, devices: Sequence[Device], loading: Loading) -> None:
        self.fetching: dict[int, tuple[int, Run]] = {}
        self._abandoned: list[tuple[int, int, Slot]] = []
        self._runs, self._devices, self._loading = runs, devices, loading

    def fetch(self, run: Run, holder: int) -> None:
        """Ask a device to put a request's tensors into the room of this run."""
        self._devices[holder].fetch(run.job.number, run.slot)

    def enlarge(self, device: int, run: Run, size: int) -> None:
        """Fetch outputs into a piece that is large enough, and remember the size."""
        model = self._loading.models.get(run.job.network.name)
        if model is not None:
            model.room = max(model.room, -(-size // run.job.rows))
        self.fetching[run.job.number] = (device, run)
        if error := self._fetch_again(device, run, size):
            self._without_room(run, error)

    def on_tensors(self, message: Message) -> None:
        """A device has put them where they were wanted, or says how large they are."""
        number = message["request"]
        for late in self._abandoned:
            if late[0] == number:  # whoever holds tensors answers in order: this is for the oldest question
                self._abandoned.remove(late)
                self._runs.answers.release(late[2])
                return
        if number in self.fetching:
            self._on_outputs(message)
            return
        for device, queue in enumerate(self._runs.queues):
            if queue and queue[0].move_from >= 0 and queue[0].job.number == number:
                self._on_moved(device, queue[0], message)

    def abandon(self, run: Run) -> None:
        """Its holder may still write into the room: that is given back once the holder has answered or died."""
        self._abandoned.append((run.job.number, run.move_from, run.slot))

    def died(self, holder: int) -> None:
        """A device writes nothing any more."""
        for late in [late for late in self._abandoned if late[1] == holder]:
            self._abandoned.remove(late)
            self._runs.answers.release(late[2])

    def _fetch_again(self, holder: int, run: Run, size: int) -> ServingError | None:
        """Ask whoever holds the tensors for them, with room enough; why not: then nobody holds them any more."""
        self._runs.answers.release(run.slot)
        run.slot = NO_ROOM
        try:
            run.slot = self._runs.answers.room_for(run.job, size)
        except ServingError as error:
            self._devices[holder].tell({"kind": "forget", "request": run.job.number})
            self.fetching.pop(run.job.number, None)
            return error
        self.fetch(run, holder)
        return None

    def _without_room(self, run: Run, error: ServingError) -> None:
        """Requests of a batch may find room one by one; of a network whose batches never will, later ones run so.

        One that only wanted to change its device begins anew, ``STARTS`` times: its input is still there.
        """
        if not run.job.together and (run.move_from < 0 or run.job.stuck >= STARTS):
            self._runs.fail(run, error)
            return
        run.job.stuck += 1
        if isinstance(error, NoRoom):
            self._runs.dispatcher.costs.apart.add(run.job.network.index)
        self._runs.dispatcher.run_again(run.job)

    def _on_outputs(self, message: Message) -> None:
        holder, run = self.fetching[message["request"]]
        if message["tensors"] is None and not message["bytes"]:
            del self.fetching[message["request"]]
            self._runs.answers.release(run.slot)
            self._runs.fail(run, lost(run))
            return
        if message["tensors"] is None:
            if error := self._fetch_again(holder, run, message["bytes"]):
                self._without_room(run, error)
                self._runs.dispatcher.decide()
            return
        del self.fetching[message["request"]]
        answers = self._runs.answers
        if self._runs.unfinished(run, message["tensors"]):
            answers.release(run.slot)
            self._runs.dispatcher.decide()
            return
        answers.finish(run.job, message["tensors"], answers.leave(run.job), run.slot)

    def _on_moved(self, device: int, run: Run, message: Message) -> None:
        if message["tensors"] is None:
            error = self._fetch_again(run.move_from, run, message["bytes"]) if message["bytes"] else lost(run)
            if error is None:
                return
            self._runs.gave_up(device)
            if message["bytes"]:
                self._without_room(run, error)
            else:
                self._runs.fail(run, error)
            self._runs.dispatcher.decide()
            return
        run.move_from = -1
        self._runs.send_run(device, run, [message["tensors"]])
        for later in list(self._runs.queues[device])[1:]:
            if not later.sent:
                self._runs.send(device, later)


def lost(run: Run) -> ServingError:
    """Why a run whose tensors are gone has no result."""
    return InputFailed(LOST.format(run.job.network.name))
