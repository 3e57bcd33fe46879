"""One inference request, from its head to the bytes of its answer, as far as possible without a task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus

from eunomia.serving.devices.strings import Value
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.foresight import Beginning, Foresight, bytes_to_judge
from eunomia.serving.fronts.head import Head
from eunomia.serving.fronts.http import HEADER_LENGTH, header_length
from eunomia.serving.fronts.in_words import error_facts
from eunomia.serving.fronts.json_process import AT_ONCE_BYTES, LARGE, JsonProcess
from eunomia.serving.fronts.reading import reading, writing
from eunomia.serving.fronts.started import must_have_started
from eunomia.serving.protocol.errors import FEWER, ServingError, forget_frames, too_large
from eunomia.serving.protocol.infer import InferRequest, is_plain, read_request
from eunomia.serving.protocol.pieces import Coming, Gathered
from eunomia.serving.protocol.pieces import Pieces as Scattered
from eunomia.serving.protocol.written import write_response
from eunomia.serving.service import Service
from eunomia.serving.tenants.bodies import Body
from eunomia.serving.visit import Caller, Inside, Served

log = logging.getLogger("eunomia.serving")
FAILED = b'{"error": "the server has failed; its log says more"}'
HEADER = HEADER_LENGTH.lower()
Pieces = list[bytes | memoryview]


@dataclass(frozen=True)
class Inference:
    """What every inference request needs."""

    service: Service
    json: JsonProcess
    most_bytes: int  # of a body
    connections: Connections
    making: set[asyncio.Task[None]] = field(default_factory=set)  # what is read or written in tasks
    foresight: Foresight = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "foresight", Foresight(self.service))

    def later(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that a server which ends waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self.making.add(task)
        task.add_done_callback(self.making.discard)
        return task


class Exchange:
    """``body``: as it comes. ``tenant``: whose it is, once that is known.

    A protocol says how a request is read and an answer written (``_read_now`` and its like).
    """

    def __init__(self, inference: Inference, caller: Caller, model: str) -> None:
        self.body = Gathered()
        self.tenant = ""
        self._inference, self._service, self._caller, self._model = (
            inference,
            inference.service,
            caller,
            model,
        )
        self._room: Body | None = None
        self._inside: Inside | None = None
        self._task: asyncio.Task[None] | None = None

    def serve(self) -> None:
        """The body is here. What is small beside its tensors is read and handed on at once, the rest in a task."""
        try:
            if not self._serve_now(self.body.so_far()):
                self._task = self._inference.later(self._serve_later())
        except Exception as error:
            self._fail(error)

    def abandon(self) -> None:
        """Its client has gone, or it may not come in."""
        self._let_go()
        task, self._task = self._task, None  # the two, and what was read, would hold each other
        if task is not None:
            task.cancel()
        inside, self._inside = self._inside, None
        if inside is not None:
            self._service.abandon(inside)

    def _serve_now(self, body: Scattered) -> bool:
        """Whether it was small; raises ServingError."""
        try:
            request = self._read_now(body)
        except ServingError as error:
            self._service.unreadable(self.tenant, self._model, error)
            raise
        if request is None:
            return False
        self._let_go()
        self._inside = self._service.enter(request, self._caller)
        self._inside.answer.add_done_callback(self._done)
        return True

    def _done(self, _: asyncio.Future[dict[str, Value]]) -> None:
        """The network has run, or will not; of many that end at once, some wait for a later turn of the loop."""
        self._service.rota.do(self.tenant, self._leave)

    def _leave(self) -> None:
        inside, self._inside = self._inside, None
        if inside is None:  # abandoned
            return
        try:
            served = self._service.leave(inside)
            if served.rest is not None:
                self._task = self._inference.later(self._write_rest(inside.request, served.rest))
            elif not self._write_now(inside.request, served):
                self._task = self._inference.later(self._write(inside.request, served))
        except Exception as error:
            self._fail(error)

    async def _write_rest(self, request: InferRequest, rest: Callable[[], Awaitable[Served]]) -> None:
        try:
            served = await rest()
        except Exception as error:
            self._fail(error)
        else:
            await self._write(request, served)

    async def _serve_later(self) -> None:
        try:
            with reading(self._service, self.tenant, self._model):
                request = await self._read(self.body.so_far())
            self._let_go()
            served = await self._service.infer(request, self._caller)
        except Exception as error:
            self._fail(error)
        else:
            await self._write(request, served)

    async def _write(self, request: InferRequest, served: Served) -> None:
        try:
            if not self._write_now(request, served):
                await self._write_beside(request, served)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._let_go()
        self._say(error)

    def _let_go(self) -> None:
        """The body has been read, or is not wanted."""
        self.body = Gathered()
        room, self._room = self._room, None
        if room is not None:
            room.close()

    # --- what a protocol says --------------------------------------------------------------------------

    def _read_now(self, body: Scattered) -> InferRequest | None:
        """None = that takes too long here; raises ServingError."""
        raise NotImplementedError

    async def _read(self, body: Scattered) -> InferRequest:
        """Beside the event loop; raises ServingError."""
        raise NotImplementedError

    def _write_now(self, request: InferRequest, served: Served) -> bool:
        """Answer; False = that takes too long here. Raises ServingError."""
        raise NotImplementedError

    async def _write_beside(self, request: InferRequest, served: Served) -> None:
        """The same, beside the event loop."""
        raise NotImplementedError

    def _say(self, error: Exception) -> None:
        """Answer that there is none."""
        raise NotImplementedError


class HttpExchange(Exchange):
    """``answered`` gets the bytes of the answer, unless it is abandoned."""

    def __init__(
        self, inference: Inference, head: Head, caller: Caller, answered: Callable[[Pieces], None]
    ) -> None:
        assert head.infers is not None, "an inference request"
        model, self._version = head.infers
        super().__init__(inference, caller, model)
        self._head, self._answered = head, answered
        self._judged_by = 0  # bytes that say what comes, 0 = nothing to judge
        self._header = b""  # they, once they have been judged
        self._length: int | None = None  # of the JSON part; None = all is JSON

    def knock(self) -> None:
        """May the body come? Raises ServingError."""
        if self._head.size > self._inference.most_bytes:
            raise too_large(self._head.size, self._inference.most_bytes, FEWER)
        must_have_started(self._service)
        self.tenant = self._service.knock(self._caller, self._model)
        self._room = self._service.bodies.open(self.tenant)
        self._room.need(self._head.size)
        self._length = header_length(self._head.headers.get(HEADER))
        self._judged_by = bytes_to_judge(self._head.size, self._length)

    def take(self, data: bytes) -> None:
        """Some of the body; raises ServingError as soon as it is known that the rest is in vain."""
        self.body.add(data)
        if self._judged_by and self.body.size >= self._judged_by:
            length, self._judged_by = self._judged_by, 0
            self._judge(bytes(self.body.so_far()[:length].joined()))

    def _judge(self, header: bytes) -> None:
        model, version, left = self._model, self._version, self._head.size - len(header)
        come = Beginning(
            (model, version, header, left), model,
            lambda: read_request(model, version, header, Coming(left), tenant=self.tenant), partial(is_plain, header),
        )  # fmt: skip
        self._inference.foresight.foresee(come, self._caller, self.tenant)
        self._header = header

    def _read_now(self, body: Scattered) -> InferRequest | None:
        if 0 < len(self._header) <= min(AT_ONCE_BYTES, self._inference.json.most_bytes):
            raw = body[len(self._header) :]
            return read_request(self._model, self._version, self._header, raw, tenant=self.tenant)
        return self._inference.json.read_now(self._model, self._version, body, self._length, self.tenant)

    async def _read(self, body: Scattered) -> InferRequest:
        whole = memoryview(body.joined()) if len(body) < LARGE else await asyncio.to_thread(body.whole)
        length = self._length
        return await self._inference.json.read(self._model, self._version, whole, length, self.tenant)

    def _write_now(self, request: InferRequest, served: Served) -> bool:
        written = write_response(request, served.version, served.outputs, served.in_regions)
        header = self._inference.json.write_now(written)
        if header is not None:
            self._answer(success(header, written.raw))
        return header is not None

    async def _write_beside(self, request: InferRequest, served: Served) -> None:
        written = write_response(request, served.version, served.outputs, served.in_regions)
        with writing(self._service, self.tenant, request):
            header = await self._inference.json.write(written, self.tenant)
        self._answer(success(header, written.raw))

    def _say(self, error: Exception) -> None:
        self._answered(failure(error))

    def _answer(self, pieces: Pieces) -> None:
        self._let_go()
        self._answered(pieces)


def success(header: bytes | memoryview, raw: Sequence[memoryview]) -> Pieces:
    """The answer to a request: JSON, or JSON with raw tensors behind it."""
    if not raw:
        return answer(200, {"Content-Type": "application/json"}, [header])
    headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
    return answer(200, headers, [header, *raw])


def failure(error: Exception) -> Pieces:
    """The answer where there is none: the reason, or for a fault of the server's a sentence that tells nothing."""
    if isinstance(error, ServingError):
        forget_frames(error)
        status, headers, text = error_facts(error)
        return answer(status, headers, [text.encode()])
    log.error("a request failed", exc_info=error)
    return answer(500, {"Content-Type": "application/json; charset=utf-8"}, [FAILED])


def answer(status: int, headers: Mapping[str, str], body: Sequence[bytes | memoryview]) -> Pieces:
    """Head and body, to be sent together."""
    lines, size = "", sum(map(len, body))
    for name, value in headers.items():
        lines += f"{name}: {value}\r\n"
    lines += f"Content-Length: {size}\r\nDate: {_date(int(time.time()))}\r\n\r\n"
    return [f"HTTP/1.1 {status} {_phrase(status)}\r\n{lines}".encode("latin-1"), *body]


def ending(pieces: Pieces) -> Pieces:
    """The same answer, the last of its connection."""
    return [bytes(pieces[0]).replace(b"\r\n", b"\r\nConnection: close\r\n", 1), *pieces[1:]]


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


@lru_cache(maxsize=100)
def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Client Closed Request"
