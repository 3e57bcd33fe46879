"""Is a client's first message of TLS all here? Only then its handshake begins, which costs the server up to 5 ms.

Begun with half of it, two hundred handshakes could all go on in one turn of the event loop.
"""

from __future__ import annotations

MOST_BYTES, MOST_RECORDS = 16 * 1024, 16  # of the message; clients send 300 to 2,000 bytes in one record
PEEKED = MOST_BYTES + 5 * MOST_RECORDS
_HANDSHAKE, _HEAD, _TOP = 22, 5, 4  # kind of a record; bytes before its content, and before that of a message


def needed(came: bytes) -> int | None:
    """How many bytes must be here until more can be said; 0 = enough are. None = nobody's message is like that.

    What is no handshake is enough: the library says what is wrong with it.
    """
    at, message = 0, b""
    for _ in range(MOST_RECORDS):
        content = at + _HEAD
        if len(came) < content:
            return content
        end = content + int.from_bytes(came[at + 3 : content], "big")
        if came[at] != _HANDSHAKE or end == content:
            return 0
        if end > PEEKED:
            return None
        if len(came) < end:
            return end
        message += came[content:end]
        at = end
        if len(message) >= _TOP:
            size = _TOP + int.from_bytes(message[1:_TOP], "big")
            if size > MOST_BYTES:
                return None
            if len(message) >= size:
                return 0
    return None
