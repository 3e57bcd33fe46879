"""The end of a connection whose client still sends: closed at once, it would lose the answer with what was not read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

LINGER_S = 1.0  # until the client has read why


def say_no_more(transport: asyncio.Transport) -> None:
    """Behind the last answer, to a client that has sent no body and may wait for the end."""
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()


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
