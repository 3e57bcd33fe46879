"""The process that reads and writes large JSON, and whose turn it is there.

Tenants take turns, one message each, so that a tenant waits for at most one message of every other. A tenant whose
messages there hold more than ``most_bytes`` is refused. The process starts with the first large message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from eunomia.core.workers import deaf_to_ctrl_c
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.strings import Strings, Value
from eunomia.serving.fronts.json_line import hear, say
from eunomia.serving.fronts.one_thread import over
from eunomia.serving.protocol.errors import BadRequest, Refused, TooLarge, Unavailable
from eunomia.serving.protocol.infer import (
    SMALL_BYTES,
    InferRequest,
    read_request,
    split_body,
    split_uncopied,
)
from eunomia.serving.protocol.json_work import (
    SMALL_NUMBERS,
    Pieces,
    pack,
    put_numbers_in,
    unpack,
)
from eunomia.serving.protocol.packed import inflate_at_once, room_of
from eunomia.serving.protocol.pieces import Pieces as Scattered
from eunomia.serving.protocol.written import Written
from eunomia.serving.tenants.rounds import Rounds

AT_ONCE_BYTES = 4096  # of JSON; more than that in place is read for one message of a tenant at a time
PATIENCE_S = 30.0  # for one message
WRITTEN = 16  # bytes of JSON that a number takes, roughly
AGAIN_S = 0.5
LARGE = 1024**2  # bytes that are copied beside the event loop
T = TypeVar("T")


class Turns:
    """One at a time; who waits, waits in a queue of its tenant, and the queues are served in turn."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._busy = False

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str, size: int) -> AsyncIterator[None]:
        """Inside, nobody else is; raises Refused when the tenant has too much waiting already."""
        held = self._held.get(tenant, 0)
        if held and held + size > self._most:
            raise Refused(
                f"tenant '{tenant}' has {held} bytes of JSON in work; at most {self._most} are taken at a time: wait,"
                " or send raw tensors (binary_data_size)",
                retry_after_s=AGAIN_S,
            )
        self._held[tenant] = held + size
        try:
            await self._wait(tenant)
            try:
                yield
            finally:
                self._next()
        finally:
            self._held[tenant] -= size
            if not self._held[tenant]:
                del self._held[tenant]

    async def _wait(self, tenant: str) -> None:
        if not self._busy:
            self._busy = True
            return
        mine = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was our turn already
                self._next()
            raise

    def _next(self) -> None:
        """The first tenant in the circle has its turn and goes to the end."""
        while self._queues:
            tenant = next(iter(self._queues))
            queue = self._queues.pop(tenant)
            while queue:
                waiting = queue.popleft()
                if waiting.done():  # cancelled
                    continue
                if queue:
                    self._queues[tenant] = queue
                waiting.set_result(None)
                return
        self._busy = False


class JsonProcess:
    """Requests to read and responses to write; small ones are done at once, in place.

    ``most_bytes``: of one message and, together, of one tenant's messages in work. ``begin``: this turn of the event
    loop has work.
    """

    def __init__(self, most_bytes: int, begin: Callable[[], None] = lambda: None) -> None:
        self.most_bytes, self._begin = most_bytes, begin
        self.rounds = Rounds()  # for what is done in place
        self._turns = Turns(most_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._work: asyncio.Future[tuple[Message, Pieces]] | None = None

    async def read(
        self, model: str, version: str, body: memoryview, header_bytes: int | None, tenant: str
    ) -> InferRequest:
        """An HTTP body; raises BadRequest, TooLarge, Refused or Unavailable."""
        if (request := self.read_now(model, version, body, header_bytes, tenant)) is not None:
            return request
        header, raw = split_uncopied(body, header_bytes)
        if len(header) <= SMALL_BYTES:
            await self.rounds.turn(tenant)
            return read_request(model, version, bytes(header), raw, tenant=tenant)
        rest, numbers = await self.take_out("read", header, tenant)
        return read_request(model, version, rest, raw, numbers)

    def read_now(
        self, model: str, version: str, body: memoryview | Scattered, header_bytes: int | None, tenant: str
    ) -> InferRequest | None:
        """An HTTP body with little JSON, None if there is more; raises BadRequest or TooLarge."""
        size = len(body) if header_bytes is None else min(header_bytes, len(body))
        if size > self.most_bytes:
            raise TooLarge(
                f"the JSON has {size} bytes; at most {self.most_bytes} are taken (max_json_mib): send raw tensors "
                "(binary_data_size)"
            )
        if size > AT_ONCE_BYTES:
            return None
        return read_request(model, version, *split_body(body, header_bytes), tenant=tenant)

    async def inflate(self, packed: bytes | memoryview, most: int, tenant: str) -> bytes | memoryview:
        """What was packed; raises TooLarge, BadRequest, Refused or Unavailable."""
        if len(packed) <= SMALL_BYTES:
            await self.rounds.turn(tenant)
            if (found := inflate_at_once(packed, most)) is not None:
                return found
        message: Message = {"kind": "inflate", "most": most}
        head, pieces = await self._ask(tenant, room_of(len(packed), most), message, [packed])
        if "wrong" in head:
            raise (TooLarge if head["large"] else BadRequest)(head["wrong"])
        return pieces[0]

    async def take_out(
        self, kind: str, message: bytes | memoryview, tenant: str
    ) -> tuple[bytes, list[Value | None]]:
        """A message of this kind without its numbers, and those; raises BadRequest, Refused or Unavailable."""
        head, pieces = await self._ask(tenant, len(message), {"kind": kind}, [message])
        if "wrong" in head:
            raise BadRequest(head["wrong"])
        return bytes(pieces[0]), unpack(head["facts"], pieces[1:])

    async def write(self, written: Written, tenant: str) -> bytes | memoryview:
        """The JSON part of a response; raises TooLarge, Refused or Unavailable."""
        if (text := self.write_now(written)) is not None:
            return text
        count = _numbers(written)
        if count * WRITTEN > self.most_bytes:
            raise TooLarge(
                f"the answer holds {count} numbers; at most {self.most_bytes // WRITTEN} are written as JSON: "
                "ask for raw tensors (binary_data)"
            )

        size = count * WRITTEN
        facts, raw = pack(written.numbers) if size < LARGE else await asyncio.to_thread(pack, written.numbers)
        _, pieces = await self._ask(
            tenant, size, {"kind": "write", "content": written.content, "facts": facts}, raw
        )
        return pieces[0]

    def write_now(self, written: Written) -> bytes | None:
        """The JSON part of a response with few numbers, None if there are more."""
        return (
            put_numbers_in(written.content, written.numbers) if _numbers(written) <= SMALL_NUMBERS else None
        )

    def close(self) -> None:
        """End the process, and whoever waits for it."""
        if self._work is not None:
            self._work.cancel()
        self._end()

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None

    async def _ask(
        self, tenant: str, size: int, head: Message, pieces: Sequence[bytes | memoryview]
    ) -> tuple[Message, Pieces]:
        async with self._turns.turn(tenant, size):
            work = self._work = asyncio.ensure_future(self._exchange(head, pieces))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:  # the line holds one message at a time
                await over(work)
                raise

    async def _exchange(self, head: Message, pieces: Sequence[bytes | memoryview]) -> tuple[Message, Pieces]:
        try:
            if self._line is None:
                self._line = await asyncio.to_thread(self._start)
            async with asyncio.timeout(PATIENCE_S):
                await say(self._line, head, pieces, self._begin)
                return await hear(self._line, self._begin)
        except (OSError, EOFError):
            self._end()
            raise Unavailable(
                "the process that reads and writes JSON has ended", retry_after_s=AGAIN_S
            ) from None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with deaf_to_ctrl_c():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eunomia.serving.protocol.json_work", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        return ours


def _numbers(written: Written) -> int:
    """How many, a text as those that its letters would take."""
    return sum(
        [
            max(array.size, array.nbytes // WRITTEN if isinstance(array, Strings) else 0)
            for array in written.numbers
            if array is not None
        ]
    )
