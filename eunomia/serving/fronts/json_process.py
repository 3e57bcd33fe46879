"""Requests to read and answers to write as JSON: small ones in place, larger ones by processes of their own.

There are two such processes, one for messages up to ``LARGE``: they never wait for larger ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.strings import Strings, Value
from eunomia.serving.fronts.json_worker import JsonWorker
from eunomia.serving.protocol.errors import BadRequest, ServingError, TooLarge
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
from eunomia.serving.protocol.packed import FREE_BYTES, inflate_at_once, room_of
from eunomia.serving.protocol.pieces import Pieces as Scattered
from eunomia.serving.protocol.written import LEAST, Written, too_long
from eunomia.serving.tenants.rounds import Rounds

AT_ONCE_BYTES = 4096  # of JSON; more than that in place is read for one message of a tenant at a time
WRITTEN = 16  # bytes of JSON that a number takes, roughly
LARGE = 1024**2  # bytes that are copied beside the event loop, and read beside smaller ones


class JsonProcess:
    """Requests to read and responses to write; small ones are done at once, in place.

    ``most_bytes``: of one message and, together, of one tenant's messages in work. ``begin``: this turn of the event
    loop has work.
    """

    def __init__(self, most_bytes: int, begin: Callable[[], None] = lambda: None) -> None:
        self.most_bytes = most_bytes
        self.rounds = Rounds()  # for what is done in place
        self.small = JsonWorker(most_bytes, FREE_BYTES, begin)
        self.large = JsonWorker(most_bytes, most_bytes, begin)

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
        room, message = room_of(len(packed), most), {"kind": "inflate", "most": most}
        worker = self.small if room <= FREE_BYTES else self.large  # which is soon done
        return (await self._ask(worker, tenant, room, message, [packed]))[1][0]

    async def take_out(
        self, kind: str, message: bytes | memoryview, tenant: str
    ) -> tuple[bytes, list[Value | None]]:
        """A message of this kind without its numbers, and those; raises BadRequest, Refused or Unavailable."""
        size = len(message)
        head, pieces = await self._ask(self._worker(size), tenant, size, {"kind": kind}, [message])
        return bytes(pieces[0]), unpack(head["facts"], pieces[1:])

    async def write(self, written: Written, tenant: str) -> bytes | memoryview:
        """The JSON part of a response; raises TooLarge, Refused or Unavailable."""
        if (text := self.write_now(written)) is not None:
            return text
        count = _numbers(written)
        if count * LEAST > self.most_bytes:
            raise too_long(count, self.most_bytes)
        size = sum([array.nbytes for array in written.numbers if array is not None])
        facts, raw = pack(written.numbers) if size < LARGE else await asyncio.to_thread(pack, written.numbers)
        message = {"kind": "write", "content": written.content, "facts": facts, "most": self.most_bytes}
        return (await self._ask(self._worker(count * WRITTEN), tenant, size, message, raw))[1][0]

    def write_now(self, written: Written) -> bytes | None:
        """The JSON part of a response with few numbers, None if there are more."""
        return (
            put_numbers_in(written.content, written.numbers) if _numbers(written) <= SMALL_NUMBERS else None
        )

    def close(self) -> None:
        """End the processes, and whoever waits for them."""
        self.small.close()
        self.large.close()

    def _worker(self, size: int) -> JsonWorker:
        return self.small if size <= LARGE else self.large

    async def _ask(
        self,
        worker: JsonWorker,
        tenant: str,
        size: int,
        head: Message,
        pieces: Sequence[bytes | memoryview],
    ) -> tuple[Message, Pieces]:
        """What a process answers; raises what it objects to."""
        said, found = await worker.ask(tenant, size, head, pieces)
        if "wrong" in said:
            error: type[ServingError] = TooLarge if said["large"] else BadRequest
            raise error(said["wrong"])
        return said, found


def _numbers(written: Written) -> int:
    """How many, a text as those that its letters would take."""
    return sum(
        [
            max(array.size, array.nbytes // WRITTEN if isinstance(array, Strings) else 0)
            for array in written.numbers
            if array is not None
        ]
    )
