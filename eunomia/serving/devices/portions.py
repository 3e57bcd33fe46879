"""Requests that run a few rows at a time, as all of them together would hold their device for too long.

Whoever lets them in says how many (``tenants.holding``), and only of networks that answer each row as if it were alone
(``rows``). Before each portion but the first a request waits for a device like any other, so that more urgent ones go
first. What comes of a portion is gathered where the whole answer will lie; the request has one answer, one deadline and
one line in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.answers import Answers, Gathered, bytes_of
from eunomia.serving.devices.arena import Arena, Slot
from eunomia.serving.devices.copying import AT_ONCE_IN_BYTES
from eunomia.serving.devices.messages import DATATYPES, Placed, array_at
from eunomia.serving.devices.run import NO_ROOM
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Cancelled, ServingError, TooLong, Unavailable

UNLIKE = (
    "network '{}' answers rows of this input in different shapes, and all would hold a device for too long: "
    "send fewer rows"
)


class Portions:
    """``closed``: nothing runs any more."""

    def __init__(self, arena: Arena, dispatcher: Dispatcher, answers: Answers) -> None:
        self._arena, self._dispatcher, self._answers = arena, dispatcher, answers
        self.closed = False

    def begin(self, job: Job) -> None:
        """Its tensors are in the arena, and its first rows are to run."""
        job.group = None
        job.payload.gathered = gathered = Gathered(job.payload.inputs)
        job.payload.inputs = rows_of(gathered.inputs, 0, job.batch)

    def ended(self, job: Job, tensors: Sequence[Placed], slot: Slot) -> None:
        """A portion has run, and left these in the ``slot``, which is given back once they are gathered."""
        try:
            pairs = self._pairs(job, tensors)
        except ServingError as error:
            self._over(job, slot, error)
            return
        if sum(source.nbytes for source, _ in pairs) <= AT_ONCE_IN_BYTES:
            _copy(pairs)
            self._over(job, slot, None)
        else:
            self._answers.gather_beside(job, partial(_copy, pairs), partial(self._over, job, slot, late=True))

    def _pairs(self, job: Job, tensors: Sequence[Placed]) -> list[tuple[Tensor, Tensor]]:
        """What is to be copied where; raises ServingError."""
        gathered = gathered_of(job)
        if not gathered.outputs:
            whole = [_with_rows(t, job.all_rows, 0) for t in tensors]
            sizes = [-(-_bytes(t) // 64) * 64 for t in whole]
            gathered.slot = self._answers.room_for(job, sum(sizes))
            offsets = accumulate(sizes, initial=gathered.slot.offset)
            gathered.outputs = [
                _with_rows(t, job.all_rows, at) for t, at in zip(whole, offsets, strict=False)
            ]
        mine = rows_of(gathered.outputs, job.through, job.batch)
        if any(a["shape"] != b["shape"] for a, b in zip(tensors, mine, strict=True)):
            if any(tensor["shape"][:1] != [job.batch] for tensor in tensors):  # as none of its trial
                self._dispatcher.costs.by_row.discard(job.network.index)
            raise TooLong(UNLIKE.format(job.network.name))
        memory = memoryview(self._arena.memory)
        return [(array_at(memory, a), array_at(memory, b)) for a, b in zip(tensors, mine, strict=True)]

    def _over(self, job: Job, slot: Slot, error: ServingError | None, *, late: bool = False) -> None:
        """Its next rows wait; after the last it is answered."""
        self._answers.release(slot)
        if error is None and self.closed:
            error = Unavailable("the server is stopping")
        elif error is None and job.cancelled:
            error = Cancelled("the client has gone away")
        if error is not None:
            self._answers.fail(job, error)
            return
        gathered = gathered_of(job)
        if not job.later:
            whole, gathered.slot = gathered.slot, NO_ROOM
            self._answers.finish(job, gathered.outputs, self._answers.leave(job), whole)
            return
        job.go_on()
        job.parts += 1
        job.payload.inputs = rows_of(gathered.inputs, job.through, job.batch)
        self._dispatcher.wait_again(job)
        if late:
            self._dispatcher.decide()


def gathered_of(job: Job) -> Gathered:
    """Of one that runs a few rows at a time."""
    gathered: Gathered | None = job.payload.gathered
    assert gathered is not None, "it has begun"
    return gathered


def rows_of(tensors: Sequence[Placed], first: int, count: int) -> list[Placed]:
    """These rows of each, which lie one after the other."""
    return [_with_rows(t, count, t["offset"] + first * _bytes(t) // max(t["shape"][0], 1)) for t in tensors]


def _with_rows(tensor: Placed, rows: int, offset: int) -> Placed:
    found: Placed = {**tensor, "shape": [rows, *tensor["shape"][1:]], "offset": offset}
    return found


def _bytes(tensor: Placed) -> int:
    return math.prod(tensor["shape"]) * DATATYPES[tensor["datatype"]].itemsize


def _copy(pairs: list[tuple[Tensor, Tensor]]) -> None:
    for source, target in pairs:
        bytes_of(target)[...] = bytes_of(source)
