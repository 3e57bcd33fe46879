"""A process that reads and writes JSON, with the bounds of one message there: its memory, and its processor time.

The process starts with its first message. A message that takes ``TIMES`` its size in memory is refused. One that takes
far more processor time than its size would explain ends the process, and its tenant pauses: others have waited.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

from eunomia.core.workers import deaf_to_ctrl_c
from eunomia.serving.devices.messages import Message
from eunomia.serving.fronts.json_line import hear, say
from eunomia.serving.fronts.json_turns import AGAIN_S, Turns
from eunomia.serving.fronts.one_thread import over
from eunomia.serving.protocol.errors import Refused, TooLong, Unavailable
from eunomia.serving.protocol.json_work import Pieces

MIB = 1024**2
LEAST_S, MIB_S = 2.0, 0.5  # of a processor for one message, and for each MiB: honest ones take 0.02 to 0.2
PATIENCE_S = 60.0  # for one message, on a machine that has little time for it
PAUSE_S = 10.0  # for whose message took too long


class JsonWorker:
    """``most_bytes``: of one tenant's messages in work; ``largest``: of one message."""

    def __init__(self, most_bytes: int, largest: int, begin: Callable[[], None]) -> None:
        self._largest, self._begin = largest, begin
        self.turns = Turns(most_bytes)
        self.process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._work: asyncio.Future[tuple[Message, Pieces]] | None = None
        self._pauses: dict[str, float] = {}  # until when, by tenant

    async def ask(
        self, tenant: str, size: int, head: Message, pieces: Sequence[bytes | memoryview]
    ) -> tuple[Message, Pieces]:
        """What it answers; raises Refused, TooLong or Unavailable."""
        self._check(tenant)
        async with self.turns.turn(tenant, size):
            self._check(tenant)  # another of its messages may have gone before
            seconds = LEAST_S + MIB_S * size / MIB
            work = self._work = asyncio.ensure_future(
                self._exchange(tenant, {**head, "seconds": seconds}, pieces)
            )
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:  # the line holds one message at a time
                await over(work)
                raise

    def close(self) -> None:
        """End the process, and whoever waits for it."""
        if self._work is not None:
            self._work.cancel()
        self._end()

    def _check(self, tenant: str) -> None:
        """Raises Refused in a pause."""
        left_s = self._pauses.get(tenant, -math.inf) - asyncio.get_running_loop().time()
        if left_s > 0:
            raise Refused(
                f"JSON of tenant '{tenant}' has taken too long to read or write: it may send more in "
                f"{math.ceil(left_s)} s, and raw tensors (binary_data_size) now",
                retry_after_s=left_s,
            )
        self._pauses.pop(tenant, None)

    async def _exchange(
        self, tenant: str, head: Message, pieces: Sequence[bytes | memoryview]
    ) -> tuple[Message, Pieces]:
        try:
            if self._line is None:
                self._line = await asyncio.to_thread(self._start)
            async with asyncio.timeout(PATIENCE_S):
                await say(self._line, head, pieces, self._begin)
                return await hear(self._line, self._begin)
        except (OSError, EOFError):
            if self._end() != -signal.SIGPROF:
                raise Unavailable(
                    "the process that reads and writes JSON has ended", retry_after_s=AGAIN_S
                ) from None
            self._pauses[tenant] = asyncio.get_running_loop().time() + PAUSE_S
            raise TooLong(
                f"to read or write this JSON takes more than {head['seconds']:g} s of a processor, which is the most "
                "for its size: send raw tensors (binary_data_size), and ask for them (binary_data)"
            ) from None

    def _end(self) -> int | None:
        """The status with which it ended, by itself or now."""
        if self._line is not None:
            self._line.close()
        process, self._line, self.process = self.process, None, None
        if process is None:
            return None
        process.kill()
        return process.wait()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        work = [sys.executable, "-m", "eunomia.serving.protocol.json_work"]
        with deaf_to_ctrl_c():
            self.process = subprocess.Popen(
                [*work, str(theirs.fileno()), str(self._largest)],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        return ours
