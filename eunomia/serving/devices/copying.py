"""Large tensors enter and leave the arena beside the event loop: fresh memory takes milliseconds a megabyte.

One thread at low priority for each way copies one request after the other, and leaves the interpreter to others. Before
outputs are copied it is asked whether the tenant has room for the answer, so that answers nobody takes cost no copies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from eunomia.serving.devices.strings import Strings, Value
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import ServingError, Unavailable

T = TypeVar("T")
log = logging.getLogger("eunomia.serving")
AT_ONCE_BYTES = 512 * 1024  # of outputs that the event loop copies itself
AT_ONCE_IN_BYTES = 1024 * 1024  # of inputs: their place in the arena is no fresh memory
POLITE = 5  # niceness
Outputs = dict[str, Value]


@dataclass(frozen=True)
class Part:
    """What one request gets of a batch: views of the arena, ``size`` bytes in all."""

    job: Job
    hit: bool
    views: Outputs
    size: int
    arena: int = -1  # descriptor
    starts: Mapping[str, int] = field(default_factory=dict)  # where in the arena views begin that are arrays

    def copied(self) -> Outputs:
        """The same in memory of its own."""
        return {name: self._copy(view, self.starts.get(name)) for name, view in self.views.items()}

    def _copy(self, view: Value, start: int | None) -> Value:
        """By the system, which leaves the interpreter free; as ``bytes``, which gRPC joins without holding it."""
        if start is None or isinstance(view, Strings):
            return view.copy()
        data = os.pread(self.arena, view.nbytes, start)
        return np.ndarray(view.shape, view.dtype, data) if len(data) == view.nbytes else view.copy()


HandOut = Callable[[Part, Outputs | ServingError], None]


class Copying:
    """A thread for each way, from the first large one on."""

    def __init__(self) -> None:
        self._in: ThreadPoolExecutor | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.under_way = 0  # answers

    def enter(self, copy: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """``done`` hears in the event loop what went wrong."""
        if self._in is None:
            self._in = ThreadPoolExecutor(1, "inputs", initializer=_polite)

        def over(work: asyncio.Future[None]) -> None:
            stopped = None if not work.cancelled() else Unavailable("the server is stopping")
            done(stopped or work.exception())  # type: ignore[arg-type]

        asyncio.get_running_loop().run_in_executor(self._in, copy).add_done_callback(over)

    def copy(
        self,
        parts: list[Part],
        hand_out: HandOut,
        room: Callable[[Part], None],
        ended: Callable[[], None],
    ) -> None:
        """``hand_out`` each part, in the event loop; ``room`` raises ServingError; ``ended`` once all are copied."""
        loop, left = asyncio.get_running_loop(), len(parts)
        self.under_way += left

        def over(part: Part, copied: Outputs | ServingError) -> None:
            nonlocal left
            left -= 1
            self.under_way -= 1
            try:
                hand_out(part, copied)
            finally:
                if not left:
                    ended()

        for part in parts:
            try:
                room(part)
            except ServingError as error:
                over(part, error)
            else:
                work = loop.run_in_executor(self._out(), part.copied)
                work.add_done_callback(partial(_handed, over, part))

    async def beside(self, work: Callable[[], T]) -> T:
        """In the thread of answers; returns and raises what ``work`` does."""
        return await asyncio.get_running_loop().run_in_executor(self._out(), work)

    def _out(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "answers", initializer=_polite)
        return self._thread

    def close(self) -> None:
        """Wait for what is being copied."""
        for thread in (self._in, self._thread):
            if thread is not None:
                thread.shutdown()


def _handed(over: HandOut, part: Part, done: asyncio.Future[Outputs]) -> None:
    copied: Outputs | ServingError
    try:
        copied = done.result()
    except (Exception, asyncio.CancelledError) as error:  # whoever waits gets an answer
        log.error("an answer was not copied", exc_info=error)
        copied = Unavailable("the server has no memory for the answer", retry_after_s=1.0)
    over(part, copied)


def _polite() -> None:
    with suppress(OSError, AttributeError):  # systems without niceness of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), POLITE)
