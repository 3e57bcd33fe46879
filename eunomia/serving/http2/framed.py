"""The frames of a connection over HTTP/2, taken apart as they come: bytes of messages at once, all else when whole."""

from __future__ import annotations

from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.http2 import frames
from eunomia.serving.http2.frames import Code, Fault, Kind
from eunomia.serving.http2.heads import MOST_BLOCK
from eunomia.serving.http2.turns import InTurn

SMALL = 16384  # bytes of a frame that is no message's: it is taken when it is whole
OTHER = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
HINT = b"this port speaks gRPC, over HTTP/2: JSON goes to the HTTP port\n"
METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ")
TOO_LONG = f"a header block has at most {MOST_BLOCK} bytes"
TOLD = (
    Code.NO_ERROR,
    Code.ENHANCE_YOUR_CALM,
)  # at NO_ERROR clients in Node and Rust go on with their other calls


class Framed(InTurn):
    """One connection. What its frames mean is said by ``Line``."""

    def __init__(self, connections: Connections, rota: Rota) -> None:
        super().__init__(connections, rota)
        self.greeted = self._set = False  # it has said that it speaks HTTP/2, and how
        self.deaf = False  # what comes is thrown away
        self._left = self._skip = 0  # of the present frame: bytes of a message, and of nobody's
        self._ends = False  # with them the client has sent all of its call
        self._block: tuple[int, int, bytes] | None = None  # a head that goes on: call, flags, what is here

    # --- what frames mean ------------------------------------------------------------------------------

    def head(self, stream: int, block: bytes, *, last: bool) -> None:
        """A header block; ``last``: nothing follows. Raises Fault."""
        raise NotImplementedError

    def data(self, stream: int, size: int) -> bool:
        """So many bytes, padding among them, follow of a call; False = they are nobody's. Raises Fault."""
        raise NotImplementedError

    def bytes_of(self, data: memoryview) -> int:
        """Of the call that ``data`` named; how many were taken up, the others come again."""
        raise NotImplementedError

    def frame_over(self, *, last: bool) -> None:
        """The bytes that ``data`` named are here; ``last``: the client has sent all of the call."""
        raise NotImplementedError

    def control(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        """Any other frame; raises Fault."""
        raise NotImplementedError

    def vain(self, size: int = 0) -> None:
        """A frame that belongs to no message, of so many bytes; raises Fault."""
        raise NotImplementedError

    def fault(self, fault: Fault) -> None:
        """The client does what it may not: the connection ends."""
        raise NotImplementedError

    # --- frames ----------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Take up the next that is here; False = it is not all here."""
        if self.deaf:
            self.tail.drop(len(self.tail))
            return False
        try:
            return self._step()
        except Fault as fault:
            self.fault(fault)
            return False

    def _step(self) -> bool:
        if self._left or self._skip:
            return self._bytes()
        if not self.greeted:
            return self._greet()
        if len(self.tail) < frames.HEAD:
            return False
        top = self.tail.first(frames.HEAD)
        size, kind, flags = int.from_bytes(top[:3], "big"), top[3], top[4]
        stream = int.from_bytes(top[5:], "big") & frames.MOST_WINDOW
        if self._block is not None and kind != Kind.CONTINUATION:
            raise Fault(Code.PROTOCOL_ERROR, "a header block goes on in the next frame")
        if not self._set and kind != Kind.SETTINGS:
            raise Fault(Code.PROTOCOL_ERROR, "settings come first")
        self._set = True
        if kind == Kind.DATA:
            return self._begin(size, flags, stream)
        if size > SMALL:
            raise _too_large(kind, stream)
        if len(self.tail) < frames.HEAD + size:
            return False
        content = self.tail.take(frames.HEAD + size)[frames.HEAD :]
        if kind == Kind.HEADERS:
            self._headers(flags, stream, frames.content_of(flags, stream, content))
        elif kind == Kind.CONTINUATION:
            self._continue(flags, stream, content)
        else:
            self.vain()
            self.control(kind, flags, stream, content)
        return True

    def _greet(self) -> bool:
        came = self.tail.first(len(frames.PREFACE))
        if not frames.PREFACE.startswith(came):
            if came.startswith(METHODS) and self.transport is not None:
                self.transport.write(OTHER + HINT)
            self.close()
            return False
        if len(came) < len(frames.PREFACE):
            return False
        self.tail.take(len(frames.PREFACE))
        self.greeted = True
        self.served()
        return True

    def _begin(self, size: int, flags: int, stream: int) -> bool:
        padded = 1 if flags & frames.PADDED else 0
        if len(self.tail) < frames.HEAD + padded:
            return False
        if size > frames.LARGEST:
            raise Fault(Code.FRAME_SIZE_ERROR, f"a frame has at most {frames.LARGEST} bytes")
        top = self.tail.take(frames.HEAD + padded)
        padding = top[-1] if padded else 0
        content = size - padded - padding
        if content < 0:
            raise Fault(Code.PROTOCOL_ERROR, "a frame has more padding than content")
        wanted = self.data(stream, size)
        if not wanted or not content:
            self.vain()
        self._left, self._skip = (content, padding) if wanted else (0, content + padding)
        self._ends = wanted and bool(flags & frames.END_STREAM)
        if wanted and not content:
            self._over()
        return True

    def _bytes(self) -> bool:
        """Of the present frame."""
        if not self.tail:
            return False
        if not self._left:
            self._skip -= self.tail.drop(self._skip)
            return True
        left = self._left
        used = self.bytes_of(self.tail.view(left))
        if self._left == left:  # they are somebody's still
            self._left -= self.tail.drop(used)
            if not self._left:
                self._over()
        return True

    def _over(self) -> None:
        ends, self._ends = self._ends, False
        self.frame_over(last=ends)

    def nobodys(self) -> None:
        """What is left of the present frame is nobody's any more."""
        self._left, self._skip, self._ends = 0, self._skip + self._left, False

    def _headers(self, flags: int, stream: int, block: bytes) -> None:
        if not stream % 2:
            raise Fault(Code.PROTOCOL_ERROR, "calls of clients have odd numbers")
        if flags & frames.END_HEADERS:
            self._head(flags, stream, block)
        else:
            self._block = stream, flags, block

    def _continue(self, flags: int, stream: int, content: bytes) -> None:
        if self._block is None or self._block[0] != stream:
            raise Fault(Code.PROTOCOL_ERROR, "no header block goes on here")
        self.vain()
        _, first, block = self._block
        block += content
        self._block = stream, first, block
        if flags & frames.END_HEADERS or len(block) > MOST_BLOCK:
            self._block = None
            self._head(first, stream, block)

    def _head(self, flags: int, stream: int, block: bytes) -> None:
        try:
            if len(block) > MOST_BLOCK:
                raise Fault(Code.NO_ERROR, TOO_LONG)
            self.head(stream, block, last=bool(flags & frames.END_STREAM))
        except Fault as fault:
            fault.stream = stream if fault.code in TOLD else 0
            raise


def _too_large(kind: int, stream: int) -> Fault:
    if kind != Kind.HEADERS:
        return Fault(Code.FRAME_SIZE_ERROR, f"a frame that is no message's has at most {SMALL} bytes")
    fault = Fault(Code.NO_ERROR, TOO_LONG)
    fault.stream = stream
    return fault
