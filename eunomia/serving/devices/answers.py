"""From tensors to the arena, and from the arena to whoever waits: every accepted request gets exactly one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.arena import Arena, Slot
from eunomia.serving.devices.messages import Placed, array_at, place
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import ServingError


class Elsewhere(Protocol):
    """A tensor that is not an array of this process."""

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

    def read_into(self, target: Tensor) -> None:
        """Copy it; raises ServingError."""


Inputs = Mapping[str, Tensor | Elsewhere]


@dataclass
class Payload:
    """What stays with a job until its answer: where its input lies, and whom to tell."""

    inputs: list[Placed]
    slot: Slot
    answer: asyncio.Future[dict[str, Tensor]]


class Answers:
    """Takes inputs in, hands outputs or errors out, and gives the memory back."""

    def __init__(self, arena: Arena, dispatcher: Dispatcher) -> None:
        self._arena, self._dispatcher = arena, dispatcher
        self._memory = memoryview(arena.memory)
        self.on_retired: Callable[[Job, str], None] = lambda job, outcome: None

    def take_in(self, job: Job, inputs: Inputs) -> asyncio.Future[dict[str, Tensor]]:
        """Copy the tensors into the arena; raises ArenaFull, and what reading them raises."""
        tensors = list(inputs.items())
        slot = self._arena.allocate(sum(-(-a.nbytes // 64) * 64 for _, a in tensors))
        try:
            placed, _ = place(tensors, slot.offset)
            for (_, tensor), where in zip(tensors, placed, strict=True):
                target = array_at(self._memory, where)
                if isinstance(tensor, np.ndarray):
                    target[...] = tensor
                else:
                    tensor.read_into(target)
        except BaseException:
            self.release(slot)
            raise
        answer: asyncio.Future[dict[str, Tensor]] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # its client may be gone
        job.payload = Payload(placed, slot, answer)
        return answer

    def leave(self, job: Job) -> list[bool]:
        """Every request of the batch has its result now: whether each met its deadline. Moves the indicators."""
        return [self._dispatcher.leave(member) for member in [job, *job.together]]

    def finish(self, job: Job, tensors: list[Placed], hits: list[bool]) -> None:
        """Hand each request of the batch its rows, copied out of the arena."""
        arrays = {t["name"]: array_at(self._memory, t) for t in tensors}
        members, row = [job, *job.together], 0
        for member, hit in zip(members, hits, strict=True):
            rows = slice(None) if len(members) == 1 else slice(row, row + member.batch)
            row += member.batch
            if member.payload.answer.done():  # its memory is given back already
                continue
            mine = {name: array[rows].copy() for name, array in arrays.items()}
            self.release(member.payload.slot)
            self.on_retired(member, "hit" if hit else "late")
            member.payload.answer.set_result(mine)

    def fail(self, job: Job, error: ServingError) -> None:
        """Tell why there is no result."""
        if job.payload.answer.done():
            return
        self._dispatcher.leave(job, dropped=True, by_client=error.by_client)
        self.release(job.payload.slot)
        self.on_retired(job, error.reason)
        job.payload.answer.set_exception(error)

    def release(self, slot: Slot) -> None:
        """Give a piece of the arena back; a piece without room is none."""
        if slot.size:
            self._arena.release(slot)
