"""One call of gRPC on a connection: the messages that come, those that leave, and its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from eunomia.serving.http2.frames import END_STREAM, Code, Kind, frame, more, reset
from eunomia.serving.http2.heads import BEGIN, Fields, end, plain
from eunomia.serving.http2.outlet import EACH, Outlet
from eunomia.serving.tenants.bodies import Body

PREFIX = 5  # bytes before a message: whether it is packed, and its length
WINDOW = 1024**2  # bytes of a call that may come before anybody asks for them
MOST_WORDS = 1000  # letters of a sentence that says why
Piece = bytes | memoryview
OK = 0
# Of what is no call, before it hears so: old clients read no answer while they write.
AWAY_BYTES, AWAY_S = WINDOW // 2, 10.0
AT_ONCE = 16  # messages that are taken up in one step


class Taker(Protocol):
    """Whoever serves a call. What raises ServingError ends it with that."""

    def begin(self, size: int, *, packed: bool) -> None:
        """A message of so many bytes comes; raises ServingError."""

    def take(self, data: memoryview) -> None:
        """Some of it."""

    def whole(self) -> None:
        """All of it is here."""

    def end(self) -> None:
        """No more messages come."""

    def gone(self) -> None:
        """Nobody waits for the answer any more."""


class Call:
    """``host``: the address it comes from. ``tenant``: whose it is, once that is known.

    ``unread``: messages that are here. ``half``: no more come.
    """

    __slots__ = (
        "_away",
        "_begun",
        "_declared",
        "_emptied",
        "_head",
        "_left",
        "_outlet",
        "_room",
        "_trailer",
        "awaited",
        "came",
        "closed",
        "done",
        "fields",
        "half",
        "host",
        "number",
        "out",
        "taker",
        "tenant",
        "timer",
        "unread",
        "untaken",
        "used",
        "window",
    )

    def __init__(self, outlet: Outlet, number: int, fields: Fields, host: str) -> None:
        self._outlet, self.number, self.fields, self.host = outlet, number, fields, host
        self.tenant, self.taker = "", NOBODY
        self._head, self._left, self._room = b"", 0, WINDOW  # of a message that comes; the client's window
        self.unread, self.half = 0, False
        self.used = 0  # bytes of what was last taken
        self.awaited = False  # nothing is done for it before its message is here
        self._emptied: asyncio.Future[None] | None = None
        self.window = outlet.first_window
        self.out = deque[Piece]()
        self._begun, self._trailer = False, b""
        self._away: tuple[int, str] | None = None  # status and text of an answer to what is no call
        self._declared = int(fields["content-length"]) if "content-length" in fields else None
        self.came = 0  # bytes of its messages
        self.done = self.closed = False  # no more leaves; nothing is left of it
        self.untaken: Body | None = None  # of what waits to leave
        self.timer: asyncio.TimerHandle | None = None

    # --- what comes ------------------------------------------------------------------------------------

    @property
    def arriving(self) -> bool:
        """Whether it holds nothing but what comes."""
        return self.awaited and not self.half

    def covers(self, size: int) -> bool:
        """Whether the client may send so many bytes; they are taken from its window."""
        self._room -= size
        return self._room >= 0

    def exceeds(self, size: int) -> bool:
        """Whether so many bytes more are more than its head says that there are."""
        return self._declared is not None and self.came + size > self._declared

    def take(self, data: memoryview) -> None:
        """Bytes of its messages, of a few of them at a time; ``used``: how many. Raises ServingError."""
        self.used, size = 0, len(data)
        if self._away is not None:
            self.used = size
            if self.came + size > AWAY_BYTES:
                self._answer_away(*self._away)
            return
        much = (
            memoryview(data.obj).nbytes // 2
        )  # fewer are copied, or they would hold all that came with them
        for _ in range(AT_ONCE):
            if self.used == size or self.closed:
                return
            if not self._left:
                need = PREFIX - len(self._head)
                self._head += bytes(data[self.used : self.used + need])
                self.used = min(self.used + need, size)
                if len(self._head) < PREFIX:
                    return
                self._left = int.from_bytes(self._head[1:], "big")
                self.taker.begin(self._left, packed=bool(self._head[0]))
                self.ask()
            if self._left:
                piece = data[self.used : self.used + self._left]
                self.used += len(piece)
                self._left -= len(piece)
                if len(piece):
                    self.taker.take(piece if len(piece) > much else memoryview(bytes(piece)))
            if not self._left:
                self._head = b""
                self.taker.whole()

    def end(self) -> None:
        """The client has sent all; raises ServingError."""
        self.half = True
        if self._away is not None:
            self._answer_away(*self._away)
        self.taker.end()

    @property
    def torn(self) -> bool:
        """Whether a message has not come whole, or less than its head says."""
        return bool(self._head) or self._declared not in (None, self.came)

    def read(self) -> None:
        """A message has been read: there is room for another."""
        self.unread -= 1
        self.ask()

    def ask(self) -> None:
        """Let the client send what comes of this message; nothing while others wait to be read."""
        most = max(WINDOW, self._left)
        if self.unread or self.half:
            return
        if self._room < self._left or self._room < WINDOW // 2:
            self._outlet.say(more(self.number, most - self._room))
            self._room = most

    # --- what leaves -----------------------------------------------------------------------------------

    def send(self, pieces: Sequence[Piece]) -> None:
        """A message."""
        if self.done:
            return
        self._start()
        self._outlet.sent += EACH
        size = sum(map(len, pieces))
        self.out.append(b"\0" + size.to_bytes(4, "big"))
        self.out.extend(piece for piece in pieces if len(piece))
        self._outlet.pump(self)

    def finish(self, status: int = OK, message: str = "", metadata: Sequence[tuple[str, str]] = ()) -> None:
        """The end; what waits to leave comes before it."""
        if self.done:
            return
        self.done, self._trailer = True, end(status, message[:MOST_WORDS], metadata)
        self._outlet.pump(self)

    def answer(self, pieces: Sequence[Piece]) -> None:
        """The only message, and the end."""
        if self.done:
            return
        self.done, self._trailer = True, end(OK)
        self._start()
        self.out.append(b"\0" + sum(map(len, pieces)).to_bytes(4, "big"))
        self.out.extend(piece for piece in pieces if len(piece))
        self._outlet.pump(self)

    def turn_away(self, status: int, why: str) -> None:
        """It is no call: an answer of HTTP, once all of it is here, or much, or none has come for long."""
        self._away = status, why[:MOST_WORDS]
        self.timer = asyncio.get_running_loop().call_later(AWAY_S, self._answer_away, *self._away)

    def _answer_away(self, status: int, why: str) -> None:
        self.taken()
        self._away, self.done, self._begun = None, True, True
        self._outlet.headers(self.number, plain(status, why), last=False)
        if self.fields[":method"] != "HEAD":
            self.out.append(f"{why}\n".encode())
        self._outlet.pump(self)

    def _start(self) -> None:
        if not self._begun:
            self._begun = True
            self._outlet.headers(self.number, BEGIN, last=False)

    def last(self) -> None:
        """Everything has left: say the end, and that no more need come."""
        if self._trailer:
            self._outlet.headers(
                self.number, self._trailer if self._begun else BEGIN + self._trailer, last=True
            )
        else:
            self._outlet.say(frame(Kind.DATA, END_STREAM, self.number))
        if not self.half:
            self._outlet.say(reset(self.number, Code.NO_ERROR))
        self.close()

    def cut(self, code: Code) -> None:
        """It ends without an answer."""
        if not self.closed:
            self._outlet.say(reset(self.number, code))
            self.lost()

    def lost(self) -> None:
        """The client has given it up."""
        if not self.closed:
            self.done, taker = True, self.taker
            self.close()
            taker.gone()

    def close(self) -> None:
        """Nothing is left of it."""
        self.closed, self.taker = True, NOBODY  # the two hold each other, and what came
        self.out.clear()
        self.taken()
        self._outlet.closed(self.number)

    async def emptied(self) -> None:
        """Until nothing waits to leave."""
        if self.out and not self.closed:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def taken(self) -> None:
        """What waited to leave has left, or never will."""
        emptied, self._emptied = self._emptied, None
        if emptied is not None and not emptied.done():
            emptied.set_result(None)
        untaken, self.untaken = self.untaken, None
        if untaken is not None:
            untaken.close()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Nobody:
    """Serves a call that has been answered: what comes of it is thrown away."""

    def begin(self, size: int, *, packed: bool) -> None:
        """Of no interest."""

    def take(self, data: memoryview) -> None:
        """Of no interest."""

    def whole(self) -> None:
        """Of no interest."""

    def end(self) -> None:
        """Of no interest."""

    def gone(self) -> None:
        """Of no interest."""


NOBODY: Taker = Nobody()
