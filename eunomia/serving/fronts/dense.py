"""Bytes full of short lines, each of which costs aiohttp as much as a long one: it gets a few in a round of the loop.

What comes behind an error is thrown away: aiohttp would make an error of each piece of it, with all of it in its log.
What comes in one piece behind an offer of another protocol, aiohttp may lose: its answer ends the connection, so that
the client knows what has none.

Nothing is read while some wait. aiohttp itself stops reading and goes on, so it is asked whether it wants more, and its
going on is caught (``_resume_transport_reading``); both are its own names, hence the least version in pyproject.toml.
"""

from __future__ import annotations

from typing import Any

from aiohttp import StreamReader, web
from aiohttp.hdrs import CONNECTION, SERVER, UPGRADE
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from eunomia.serving.fronts.expecting import OURS
from eunomia.serving.fronts.waiting import Waiting
from eunomia.serving.protocol.errors import BadRequest

LINE_END, DENSE_LINES, DENSE_BYTES = b"\r\n", 500, 2048
DENSE_MOST = 1024**2  # bytes that wait; a connection with more ends
MOST_LETTERS = 200  # of what is said of bytes that are no request


class DenseHandler(RequestHandler):
    """One connection of aiohttp's."""

    __slots__ = ("_dense", "_failed", "_held", "_latest", "_parsing", "mixed")

    def __init__(self, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._dense = Waiting()
        self._parsing = False  # the next round of the loop takes some of them
        self._held = False  # nothing is read, for what waits here
        self.mixed = False  # what came need not end with a request
        self._latest: StreamReader | None = None  # the newest request's body
        self._failed = False  # what came is no request: the connection ends with that answer

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nobody wants the rest."""
        self._dense = Waiting()
        super().connection_lost(exc)
        self._messages.clear()
        self._latest = None

    def _much(self) -> bool:
        """Whether so much waits that no more shall come."""
        return len(self._dense) > 0

    def _hold(self) -> None:
        """Read no further while much waits; then go on, unless aiohttp wants nothing."""
        much = self._much()
        if much != self._held and self.transport is not None:
            self._held = much
            if much:
                self.transport.pause_reading()
            elif not self._full:
                self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        """These come next, behind those that wait; more than one request may be among them."""
        self.mixed = True
        if self._failed:
            return
        if not self._dense and data.count(LINE_END) <= DENSE_LINES:
            self._read(data)
            return
        self._dense.add(data)
        if len(self._dense) > DENSE_MOST and self.transport is not None:
            self.transport.abort()
            return
        self._hold()
        self._parse_soon()

    def _read(self, data: bytes) -> None:
        if self._failed:
            return
        super().data_received(data)
        if self._messages:
            self._latest = self._messages[-1][1]
        if not self._messages or isinstance(self._messages[-1][0], RawRequestMessage):
            return
        self._failed = True
        error = self._messages[-1][0]
        if error.exc is not None:  # its frames hold all that came, in a circle with this object
            error.exc.__traceback__ = error.exc.__context__ = error.exc.__cause__ = None
        bodies = [payload for _, payload in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            if not body.is_eof():  # its request would wait for the rest
                body.set_exception(BadRequest(no_http(error.message)))
                body.feed_eof()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """One line of what a client did wrong, as JSON and not for the log, which it would fill."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is on its way already")
        response = web.json_response(
            {"error": no_http(message or ""), "reason": "bad_request"},
            status=status,
            headers={SERVER: OURS},
        )
        response.force_close()
        return response

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """The last answer of a connection, if what stood behind its request may be lost."""
        if may_lose(request):
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

    def _parse_soon(self) -> None:
        if not self._parsing:
            self._parsing = True
            self._loop.call_soon(self._parse_on)

    def _parse_on(self) -> None:
        """The next of them; while aiohttp wants none, none."""
        self._parsing = False
        if self.transport is None or not self._dense or self._full:
            return
        self._read(self._dense.take(DENSE_BYTES))
        if self._failed:
            self._dense = Waiting()
        if self._dense:
            self._parse_soon()
        else:
            self._hold()

    @property
    def has_more(self) -> bool:
        """Whether whole requests come behind the present one."""
        return bool(self._dense) or self._whole > 0

    @property
    def _whole(self) -> int:
        return len(self._messages) - (self._latest is not None and not self._latest.is_eof())

    @property
    def in_silence(self) -> bool:
        """Whether nothing of the present request's answer has left."""
        return self._current_request is not None and not self._current_request.writer.output_size

    @property
    def has_requests(self) -> bool:
        """Whether it has whole ones to answer."""
        in_work = self._request_count > 0 and self._waiter is None
        return bool(self._dense) or self._whole + in_work > 0

    @property
    def _full(self) -> bool:
        """Whether aiohttp wants nothing now."""
        return self._reading_paused or self._buffer_paused

    def _resume_transport_reading(self) -> None:
        """aiohttp wants more: first what waits here."""
        if self._dense:
            self._parse_soon()
        if not self._held:
            super()._resume_transport_reading()


def no_http(words: str) -> str:
    """What a client hears of bytes of which aiohttp says so."""
    return f"this is no HTTP: {words.partition(chr(10))[0].rstrip(': ')[:MOST_LETTERS]}"


def may_lose(request: web.BaseRequest) -> bool:
    """Whether its body broke off, or what came in one piece behind it may be lost, as it offers another protocol."""
    if request.content.exception() is not None:
        return True
    offers = UPGRADE in request.headers and "upgrade" in request.headers.get(CONNECTION, "").lower()
    return offers and isinstance(request.protocol, DenseHandler) and request.protocol.mixed
