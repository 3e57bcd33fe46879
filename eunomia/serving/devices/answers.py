"""From tensors to the arena, and from the arena to whoever waits: every accepted request gets exactly one answer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.arena import Arena, ArenaFull, Slot
from eunomia.serving.devices.copying import AT_ONCE_BYTES, AT_ONCE_IN_BYTES, Copying, Outputs, Part
from eunomia.serving.devices.messages import DATATYPES, Message, Placed, array_at, place, value_at
from eunomia.serving.devices.run import NO_ROOM
from eunomia.serving.devices.strings import Value
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Cancelled, Crowded, NoRoom, Refused, ServingError, Unavailable

T = TypeVar("T")
log = logging.getLogger("eunomia.serving")
AGAIN_S = 0.1
LONG_S = 0.01  # what is shorter is no reason to cut a network that was tried


class Elsewhere(Protocol):
    """A tensor that is not an array of this process; it is there as long as anybody holds it."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of an element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""

    @property
    def ndim(self) -> int:
        """Axes."""

    @property
    def size(self) -> int:
        """Elements."""

    @property
    def nbytes(self) -> int:
        """Bytes."""

    def reshape(self, shape: tuple[int, ...]) -> Elsewhere:
        """The same elements in other axes."""

    def read_into(self, target: Tensor) -> None:
        """Copy it; raises ServingError."""


Inputs = Mapping[str, Tensor | Elsewhere]
Answer = asyncio.Future[dict[str, Value]]


@dataclass
class Gathered:
    """Of a request that runs a few rows at a time: its input, and where its answer lies once the first have run."""

    inputs: list[Placed]
    outputs: list[Placed] = field(default_factory=list)
    slot: Slot = NO_ROOM


@dataclass
class Payload:
    """What stays with a job until its answer: where its input lies, and whom to tell.

    ``over``: it has its answer, or the reason why there is none. Whoever waits for it may have gone before.
    ``took_s``: its runs, where its network runs on requests' inputs alone; else the long ones.
    """

    inputs: list[Placed]
    slot: Slot
    answer: Answer
    over: bool = False
    took_s: float = 0.0
    gathered: Gathered | None = None

    def ran(self, job: Job, message: Message) -> None:
        """A run of it has ended well."""
        took_s = message["ends_s"][-1] - message["ends_s"][0]
        if job.network.untried:
            self.took_s += took_s
        elif took_s > LONG_S and not job.together:
            self.took_s += min(took_s, message.get("own_s", math.inf))


class Answers:
    """Takes inputs in, hands outputs or errors out, and gives the memory back."""

    def __init__(self, arena: Arena, dispatcher: Dispatcher) -> None:
        self._arena, self._dispatcher = arena, dispatcher
        self._memory = memoryview(arena.memory)
        self._copying = Copying()
        self.sizes: dict[
            tuple[int, int], int
        ] = {}  # of the last answer, by pair and class, where it was large
        self.entering = set[Job]()  # whose tensors are being copied in, or rows of whose answers together
        self._large: dict[int, tuple[str, int]] = {}  # by offset: outputs that came later than their run
        self.on_retired: Callable[[Job, str], ServingError | None] = lambda job, outcome: (
            None
        )  # why its answer may not leave
        self.room: Callable[[str, int], None] = lambda tenant, size: (
            None
        )  # for a large answer; raises Refused
        self.on_input: Callable[[str, Job], None] = lambda tenant, job: None  # of such
        self.in_turn: Callable[[str, Callable[[], None]], None] = lambda tenant, work: work()

    def take_in(self, job: Job, inputs: Inputs, enter: Callable[[Job], None]) -> Answer:
        """Copy the tensors into the arena; the request can ``enter`` then, at once or, if they are large, later.

        Raises ArenaFull, and what reading them at once raises.
        """
        tensors = list(inputs.items())
        size = sum([-(-a.nbytes // 64) * 64 for _, a in tensors])
        slot = self._arena.allocate(size)
        later = size > AT_ONCE_IN_BYTES
        try:
            placed, _ = place(tensors, slot.offset)
            copy = partial(self._copy_in, tensors, placed)
            if not later:
                copy()
        except BaseException:
            self.release(slot)
            raise
        answer: Answer = asyncio.get_running_loop().create_future()
        job.payload = Payload(placed, slot, answer)
        if later:
            self.entering.add(job)
            self._copying.enter(copy, partial(self._copied_in, job, enter))
        else:
            enter(job)
        return answer

    def _copy_in(self, tensors: list[tuple[str, Tensor | Elsewhere]], placed: list[Placed]) -> None:
        for (_, tensor), where in zip(tensors, placed, strict=True):
            target = array_at(self._memory, where)
            if isinstance(tensor, np.ndarray) and tensor.flags.c_contiguous:
                bytes_of(target)[...] = bytes_of(tensor)  # of any type: NumPy gives the interpreter free
            elif isinstance(tensor, np.ndarray):
                target[...] = tensor
            else:
                tensor.read_into(target)

    def _copied_in(self, job: Job, enter: Callable[[Job], None], error: Exception | None) -> None:
        """A large input is there, or cannot be read; its client may have gone away meanwhile."""
        self.entering.discard(job)
        try:
            if error is not None:
                raise error
            if job.cancelled:
                raise Cancelled("the client has gone away")
            enter(job)
        except ServingError as why:
            self.fail(job, why)
        except Exception as why:  # whoever waits gets an answer
            log.error("an input was not copied", exc_info=why)
            self.fail(job, Unavailable("the server could not take the input in", retry_after_s=1.0))

    def gather_beside(
        self, job: Job, copy: Callable[[], None], done: Callable[[ServingError | None], None]
    ) -> None:
        """Rows of its answer are put where the others are, beside the event loop."""

        def over(error: Exception | None) -> None:
            self.entering.discard(job)
            if error is not None and not isinstance(error, ServingError):
                log.error("rows of an answer were not copied", exc_info=error)
                error = Unavailable("the server could not put the answer together", retry_after_s=1.0)
            try:
                done(error)
            except Exception as why:  # whoever waits gets an answer
                log.error("a request did not go on", exc_info=why)
                self.fail(job, Unavailable("the server could not go on with the request", retry_after_s=1.0))

        self.entering.add(job)
        self._copying.enter(copy, over)

    def room_for(self, job: Job, size: int) -> Slot:
        """Room for outputs that a run had none for; raises ServingError.

        As with inputs (``limits``), no tenant may hold more of it than is left for the others.
        """
        tenant, most = self._dispatcher.agreements[job.pair].tenant, self._arena.most_bytes
        if size > most:
            raise NoRoom(f"the answer holds {size} bytes of tensors; the server has room for {most}")
        held, free = sum(s for who, s in self._large.values() if who == tenant), self._arena.free_bytes
        if held and held + size > free:
            raise Crowded(
                f"tenant '{tenant}' has {held} bytes of answers in the server's memory for tensors, and this one holds "
                f"{size} more: none may hold more than is left for the others",
                retry_after_s=AGAIN_S,
            )
        try:
            slot = self._arena.allocate(size)
        except ArenaFull as error:
            raise Refused(
                f"the server's memory for tensors is full: {error}", retry_after_s=AGAIN_S
            ) from None
        self._large[slot.offset] = tenant, slot.size
        return slot

    def leave(self, job: Job) -> list[bool]:
        """Every request of the batch has its result now: whether each met its deadline. Moves the indicators."""
        return [self._dispatcher.leave(member) for member in [job, *job.together]]

    def finish(self, job: Job, tensors: list[Placed], hits: list[bool], slot: Slot) -> None:
        """Hand each request of the batch its rows, copied out of the arena, and give back the ``slot`` they lie in."""
        arrays = {t["name"]: value_at(self._memory, t) for t in tensors}
        members, row, parts = [job, *job.together], 0, []
        for member, hit in zip(members, hits, strict=True):
            alone = len(members) == 1
            rows = slice(None) if alone else slice(row, row + member.batch)
            row += member.batch
            if not member.payload.over:  # else its memory is given back already
                if alone:
                    self.offer(member)
                member.payload.over = True
                mine = arrays if alone else {name: array[rows] for name, array in arrays.items()}
                size = sum([array.nbytes for array in mine.values()])
                parts.append(Part(member, hit, mine, size, self._arena.descriptor, starts_of(tensors, rows)))
        size, key = sum([part.size for part in parts]), (job.pair, self._class_of(job))
        if size <= AT_ONCE_BYTES:
            if self.sizes:
                self.sizes.pop(key, None)
            for part in parts:
                self._hand_out(part, part.copied())
            self.release(slot)
        else:
            self.sizes[key] = size // len(members)
            self._copying.copy(parts, self._hand_out, self._room, lambda: self.release(slot))

    def _class_of(self, job: Job) -> int:
        """By which its like are known when they come: with all of their rows."""
        if not job.through:
            return job.cost_row
        return self._dispatcher.costs.row_of(job.network, job.all_rows, job.sizes, job.pair)

    def offer(self, job: Job) -> None:
        """Its input is not needed any more, and may tell how its network is to be cut."""
        if job.payload.took_s and not job.payload.over:
            self.on_input(self._dispatcher.agreements[job.pair].tenant, job)

    def _room(self, part: Part) -> None:
        self.room(self._dispatcher.agreements[part.job.pair].tenant, part.size)

    def _hand_out(self, part: Part, copied: Outputs | ServingError) -> None:
        """One request's tensors, or why there are none after all."""
        self.release(part.job.payload.slot)
        answer = part.job.payload.answer
        if isinstance(copied, ServingError):
            self.on_retired(part.job, copied.reason)
            end(answer, copied)
            return
        held = self.on_retired(part.job, "hit" if part.hit else "late")
        if held is not None:
            end(answer, held)
        elif not answer.done():
            answer.set_result(copied)

    @property
    def copying(self) -> bool:
        """Whether any is on its way out of the arena."""
        return self._copying.under_way > 0

    async def beside(self, work: Callable[[], T]) -> T:
        """Behind the outputs that are being copied; returns and raises what ``work`` does."""
        return await self._copying.beside(work)

    def close(self) -> None:
        """What is being copied is copied to its end."""
        self._copying.close()

    def fail_soon(self, job: Job, error: ServingError) -> None:
        """The same of one of many, in a turn of the event loop that has time for it; it waits for no device."""
        self.in_turn(self._dispatcher.agreements[job.pair].tenant, partial(self.fail, job, error))

    def fail(self, job: Job, error: ServingError) -> None:
        """Tell why there is no result."""
        payload = job.payload
        if payload.over:
            return
        payload.over = True
        self._dispatcher.leave(job, dropped=True, by_client=error.by_client, of_input=error.of_input)
        self.release(payload.slot)
        if payload.gathered is not None:
            self.release(payload.gathered.slot)
        self.on_retired(job, error.reason)
        end(payload.answer, error)

    def release(self, slot: Slot) -> None:
        """Give a piece of the arena back; a piece without room is none."""
        if slot.size:
            self._large.pop(slot.offset, None)
            self._arena.release(slot)


def bytes_of(tensor: Tensor) -> Tensor:
    """Of a contiguous one, without a copy."""
    return tensor.reshape(-1).view(np.uint8)


def starts_of(tensors: list[Placed], rows: slice) -> dict[str, int]:
    """Where in the arena these rows of each begin."""
    first = rows.start or 0
    return {
        t["name"]: t["offset"] + first * math.prod(t["shape"][1:]) * DATATYPES[t["datatype"]].itemsize
        for t in tensors
    }


def end(answer: Answer, error: ServingError) -> None:
    """Without a result."""
    if not answer.done():
        answer.set_exception(error)
        seen(answer)


def seen(answer: Answer) -> None:
    """Nobody may wait for it any more: then its error is no fault of the server."""
    if not answer.cancelled():
        answer.exception()
