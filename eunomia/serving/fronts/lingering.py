"""The end of a connection whose client still sends: closed at once, it would lose the answer with what was not read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from eunomia.serving.fronts.exchange import ending, failure
from eunomia.serving.fronts.in_http2 import InHttp2
from eunomia.serving.protocol.errors import OtherVersion, ServingError

LINGER_BYTES = 1024**2  # that a client still sends while it is turned away
LINGER_S = 1.0  # until the client has read why


def say_no_more(transport: asyncio.Transport) -> None:
    """Behind the last answer, to a client that has sent no body and may wait for the end."""
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


class Farewell:
    """One sentence to a client whose bytes are no request; ``came``: those that nobody has taken up."""

    def __init__(
        self, transport: asyncio.Transport, fault: ServingError, grpc_port: int, came: bytes
    ) -> None:
        self._transport, self._left = transport, LINGER_BYTES
        self._end: InHttp2 | asyncio.TimerHandle | None
        if isinstance(fault, OtherVersion):
            self._end = InHttp2(transport, fault, grpc_port, came, LINGER_S)
        else:
            self._end = close_slowly(transport, ending(failure(fault)))

    def hear(self, data: bytes) -> None:
        """It goes on."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.abort()
        if isinstance(self._end, InHttp2):
            self._end.hear(data)

    def cancel(self) -> None:
        """It has gone."""
        if self._end is not None:
            self._end.cancel()


def close_slowly(
    transport: asyncio.Transport, last: Sequence[bytes | memoryview]
) -> asyncio.TimerHandle | None:
    """Send the last words. The handle is of the end that follows; None = it has been closed."""
    transport.writelines(last)
    if not transport.can_write_eof():
        transport.close()
        return None
    transport.write_eof()
    return asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
