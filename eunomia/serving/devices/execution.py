"""Carries out the dispatcher's decisions on the devices, and passes their reports back."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.arena import Arena, ArenaFull, Slot
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.lessons import Lessons
from eunomia.serving.devices.loading import FIRST_ROOM, Loading
from eunomia.serving.devices.looking import LEAST_WAIT_S, Looking
from eunomia.serving.devices.messages import Message, Placed
from eunomia.serving.devices.moving import Moving
from eunomia.serving.devices.objection import failure
from eunomia.serving.devices.portions import Portions
from eunomia.serving.devices.run import NO_ROOM, Run
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.less import ended
from eunomia.serving.protocol.errors import Cancelled, Expired, Hopeless, ServingError

HANG_FACTOR = 50.0  # a run that lasts this many times its estimate, and ``hang_s`` of its place on top, hangs
MOST_ROOM = 4 * 1024**2  # bytes for outputs that a run gets before it begins: they may turn out to be few
NEW_SHAPE_S = 60.0  # the same where nobody has measured such an input yet
OnRun = Callable[[int, Job, tuple[float, float], bool], None]  # device, job, begin and end, stopped?


class Execution:
    """The dispatcher's executor. ``queues``: per device what runs there, then what is queued behind it."""

    dispatcher: Dispatcher
    answers: Answers
    lessons: Lessons
    portions: Portions

    def __init__(self, arena: Arena, devices: Sequence[Device], loading: Loading, clock: Clock) -> None:
        self.queues: list[deque[Run]] = [deque() for _ in devices]
        self.looking = Looking(self.queues)
        self.on_run: OnRun = lambda device, job, span_s, preempted: None
        self.tries_on: Callable[[int], int | None] = lambda device: (
            None
        )  # the trial of sizes that a device is at
        self._arena, self._devices, self._loading, self._clock = arena, devices, loading, clock
        self._ticket = 0
        self._waking: asyncio.TimerHandle | None = None
        self.moving = Moving(self, devices, loading)

    def connect(self, dispatcher: Dispatcher, answers: Answers) -> None:
        """Set the dispatcher that receives reports, and the holder of the answers."""
        self.dispatcher, self.answers = dispatcher, answers
        self.portions = Portions(self._arena, dispatcher, answers)
        self.lessons = Lessons(dispatcher, self._clock)
        self.looking.connect(dispatcher)

    def running(self) -> list[Run]:
        """Every run that a device works on, or whose outputs are on their way."""
        return [queue[0] for queue in self.queues if queue] + [
            run for _, run in self.moving.fetching.values()
        ]

    # --- what the dispatcher wants -----------------------------------------------------------------------

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """Start a run, after fetching its tensors if another device holds them."""
        run = self._told(device, job, first, last)
        if first > 0 and job.device not in (device, -1):
            run.move_from = job.device
            self.moving.fetch(run, job.device)
        else:
            self.send(device, run)
        self._begins(device, run)

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        """Tell a busy device what to run next."""
        run = self._told(device, job, first, last)
        if self.queues[device][0].sent:
            self.send(device, run)

    def stop(self, device: int) -> None:
        """Ask a device to stop what it runs at its next block boundary."""
        if self.queues[device]:
            self._devices[device].stop(self.queues[device][0].ticket)

    def revoke(self, device: int) -> None:
        """Ask a device not to start what was queued last."""
        run = self.queues[device][-1]
        self._devices[device].skip(run.ticket)
        if not run.sent:
            self._released(device, run)

    def look(self, device: int) -> None:
        """Look at the next boundary: somebody waits by now."""
        self.looking.soon(device)

    def wake(self, in_s: float) -> None:
        """Ask the policy again in so many seconds: it waits for something, such as a batch. The last counts."""
        if self._waking is not None:
            self._waking.cancel()
        loop, again = asyncio.get_running_loop(), self.dispatcher.look_again
        self._waking = loop.call_later(max(in_s, LEAST_WAIT_S), again)

    def dropped(self, job: Job, why: str) -> None:
        """The dispatcher gives a waiting job up."""
        self.forget(job)
        error: ServingError = Expired("its timeout passed while it waited")
        if why == "hopeless":
            error = Hopeless("its deadline can no longer be met", retry_after_s=0.1)
        elif why == "cancelled":
            error = Cancelled("the client has gone away")
        self.answers.fail_soon(job, error)

    def forget(self, job: Job) -> None:
        """Tensors of a half-done request are not needed any more; what shared its batch begins anew."""
        if job.device >= 0 and job.block > 0:
            self._devices[job.device].tell({"kind": "forget", "request": job.number})
        if job.together:
            self.dispatcher.run_others(job)
            asyncio.get_running_loop().call_soon(self.dispatcher.decide)

    def _told(self, device: int, job: Job, first: int, last: int) -> Run:
        self._ticket += 1
        run = Run(job, first, last, self._ticket, self._room(job))
        self.queues[device].append(run)
        return run

    def _begins(self, device: int, run: Run) -> None:
        """A device works on it from now on."""
        now_s = self._clock.now_s()
        left_s = self.dispatcher.lanes[device].end_s(now_s) - now_s
        hang_s = self._devices[device].place.hang_s if self.dispatcher.sure(run.job) else NEW_SHAPE_S
        run.limit_s = now_s + HANG_FACTOR * left_s + hang_s
        if run.job.cancelled and not run.job.together:
            self.stop(device)
        self.looking.begins(device, run, left_s)

    def send(self, device: int, run: Run) -> None:
        """Tell a device."""
        members = [run.job, *run.job.together]
        inputs = [member.payload.inputs for member in members] if run.first == 0 else None
        self.send_run(device, run, inputs)

    def send_run(self, device: int, run: Run, inputs: list[list[Message]] | None) -> None:
        """Tell a device, with tensors that lie in the arena or with none."""
        run.sent, run.behind = True, self.tries_on(device)
        self._devices[device].tell(
            {
                "kind": "run",
                "ticket": run.ticket,
                "request": run.job.number,
                "model": self._loading.label(run.job.network, run.ticket),
                "first": run.first,
                "last": run.last,
                "inputs": inputs,
                "whole": run.job.whole,
                "room": [run.slot.offset, run.slot.size],
            }
        )
        self.dispatcher.later.soon()

    def _room(self, job: Job) -> Slot:
        """Memory for the outputs; a full arena leaves none, and the outputs are fetched later."""
        model = self._loading.models.get(job.network.name)
        try:
            return self._arena.allocate(min((model.room if model else FIRST_ROOM) * job.rows, MOST_ROOM))
        except ArenaFull:
            return NO_ROOM

    # --- what devices say ------------------------------------------------------------------------------

    def on_message(self, device: int, message: Message) -> None:
        """Anything but an answer to a load."""
        kind = message["kind"]
        if kind == "skipped":
            self._on_skipped(device, message["ticket"])
        elif kind == "tensors":
            self.moving.on_tensors(message)
        elif self.queues[device] and self.queues[device][0].ticket == message["ticket"]:
            self._on_end(device, message)

    def _on_end(self, device: int, message: Message) -> None:
        """A run has ended, well or not; the device may have gone on with the next one already."""
        run = self.queues[device].popleft()
        self._skipped(device, message["skipped"])
        follows, size = self._follower(device), (run.job.rows, run.job.cost_row)  # that may run apart now
        if message["kind"] == "failed":
            message["input"] = bool(message.get("input")) and not run.ended
            self._failed(device, message, follows)
            hits = None
        else:
            run.job.payload.ran(run.job, message)
            hits = self._ended(device, run, message, follows)
        if follows is not None:
            self._begins(device, follows)
        hand_out = partial(self._hand_out, device, run, message, hits, size)
        steps: list[Callable[[], None]] = [self.dispatcher.decide, hand_out]
        if follows is not None or not len(self.dispatcher.waiting):
            steps.reverse()  # else the device has its order first, and works while the answer is handed out
        try:
            steps[0]()
        finally:
            steps[1]()

    def _hand_out(
        self, device: int, run: Run, message: Message, hits: list[bool] | None, size: tuple[int, int]
    ) -> None:
        """Answers to clients, memory to the arena; what was measured is learned later, for rows and class ``size``."""
        if message["kind"] == "failed" and run.ended:
            held_s = message["span_s"][1] - message["span_s"][0]
            for member in (run.job, *run.job.together):
                member.felled = True
            if not run.job.together:
                run.job.payload.took_s += held_s
                self.answers.offer(run.job)  # in blocks it may run to its end
            self.fail(run, ended(self.dispatcher, run.job, held_s))
        elif message["kind"] == "failed" and not message.get("again"):
            self.fail(run, failure(run.job.network.name, message))
        elif hits is not None:
            self.answers.finish(run.job, message["tensors"], hits, run.slot)
        if hits is None and run.job.number not in self.moving.fetching:
            self.answers.release(run.slot)
        if message["kind"] == "done":
            self.lessons.hear(run, device, message, size)

    def _ended(self, device: int, run: Run, message: Message, follows: Run | None) -> list[bool] | None:
        """Tell the dispatcher; whether its requests met their deadlines, None when there is no answer yet."""
        start_s, end_s = (self._clock.of(stamp_s) for stamp_s in message["span_s"])
        job = self.dispatcher.done(
            device,
            message["next"],
            follows.job if follows else None,
            span_s=(start_s, end_s),
            work_s=message["ends_s"][-1] - message["ends_s"][0],
        )
        job.own_s = message.get("own_s", math.inf)
        self.on_run(device, job, (start_s, end_s), message["next"] < run.last)
        if message["next"] < job.network.blocks:
            if job.cancelled:
                self.dispatcher.withdraw(job)
                self.forget(job)
                self.answers.fail(job, Cancelled("the client has gone away"))
            return None
        if job.split is not None and not job.together:
            job.split.discard(job.number)
            if not job.split:  # all run, and their batch did not
                self.dispatcher.costs.apart.add(job.network.index)
        if message["tensors"] is None:  # finished, but the outputs did not fit
            self.moving.enlarge(device, run, message["bytes"])
            return None
        return None if self.unfinished(run, message["tensors"]) else self.answers.leave(job)

    def unfinished(self, run: Run, tensors: Sequence[Placed]) -> bool:
        """Whether nobody is to be answered by what came of a run.

        It was of some rows of its request, or of a batch and not one row after the other: then each request runs again,
        by itself, and so does every later one of this network.
        """
        job = run.job
        if job.payload.gathered is not None:
            slot, run.slot = run.slot, NO_ROOM
            self.portions.ended(job, tensors, slot)
            return True
        if not job.together or all(tensor["shape"][:1] == [job.rows] for tensor in tensors):
            return False
        self.dispatcher.costs.apart.add(job.network.index)
        self.dispatcher.costs.by_row.discard(job.network.index)
        self.dispatcher.run_again(job)
        return True

    def _failed(self, device: int, message: Message, follows: Run | None) -> None:
        """A run without a result took its time all the same."""
        next_job = follows.job if follows else None
        if "span_s" not in message:
            self.dispatcher.failed(device, next_job)
            return
        start_s, end_s = (self._clock.of(stamp_s) for stamp_s in message["span_s"])
        job = self.dispatcher.failed(device, next_job, span_s=(start_s, end_s))
        job.own_s = message.get("own_s", math.inf)
        self.on_run(device, job, (start_s, end_s), False)
        if message["input"] and job.together:  # one of them is at fault
            message["again"] = True
            split = {member.number for member in (job, *job.together)}
            for member in (job, *job.together):
                member.split = split
            self.dispatcher.run_again(job)

    def _on_skipped(self, device: int, ticket: int) -> None:
        """A device has not started a revoked run; if it was idle before, it goes on with what stands behind it."""
        queue = self.queues[device]
        if queue and queue[0].ticket == ticket:
            self.answers.release(queue.popleft().slot)
            follows = self._follower(device)
            self.dispatcher.unstarted(device, follows.job if follows else None)
            if follows is not None:
                self._begins(device, follows)
        else:
            self._skipped(device, [ticket])
        self.dispatcher.decide()

    def _follower(self, device: int) -> Run | None:
        """The queued run that the device has started, or will start with its next message.

        A revoked one counts too: the device may have seen its message first, and says so if not.
        """
        queue = self.queues[device]
        if not queue:
            return None
        if not queue[0].sent:
            self.send(device, queue[0])
        return queue[0]

    def gave_up(self, device: int) -> Job:
        """What a device was to run next has lost its tensors; returns the job, which waits nowhere."""
        self.answers.release(self.queues[device].popleft().slot)
        follows = self._follower(device)
        job = self.dispatcher.failed(device, follows.job if follows else None, sent=False)
        if follows is not None:
            self._begins(device, follows)
        return job

    def _skipped(self, device: int, tickets: Sequence[int]) -> None:
        for run in [r for r in self.queues[device] if r.ticket in tickets]:
            self._released(device, run)

    def _released(self, device: int, run: Run) -> None:
        """A revoked run does not happen."""
        self.queues[device].remove(run)
        self.answers.release(run.slot)
        self.dispatcher.released(device, run.job)

    def fail(self, run: Run, error: ServingError) -> None:
        """Tell everybody in the batch."""
        for member in [run.job, *run.job.together]:
            self.answers.fail(member, error)
