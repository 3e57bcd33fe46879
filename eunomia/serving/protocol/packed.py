"""Messages that arrive packed: inflated to no more than they may hold, and no more than ``RATIO`` times their size.

Pictures and numbers shrink to a tenth; what becomes a hundred times as large was made to cost more than it did.
"""

from __future__ import annotations

import zlib

from eunomia.serving.protocol.errors import BadRequest, TooLarge

GZIP, ZLIB = b"\x1f\x8b", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
EITHER, BARE = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS  # gzip or zlib by the first bytes; deflate without a head
RATIO, FREE_BYTES = 100, 4 * 1024**2  # so much may come of any message
AT_ONCE_BYTES = 128 * 1024  # inflated in place
NOT_PACKED = "the message cannot be inflated: it is no gzip or deflate"


def is_packed(data: bytes) -> bool:
    """Whether it is gzip or zlib. No message of the protocol begins so: field 3 of no type, or a field 15."""
    return data[:2] == GZIP or data[:2] in ZLIB


def room_of(size: int, most: int) -> int:
    """Bytes that a packed message of this size may become."""
    return min(most, max(RATIO * size, FREE_BYTES))


def inflate_at_once(data: bytes, most: int) -> bytes | None:
    """What was packed, where it is little and whole, else None; raises BadRequest. Half a millisecond at most."""
    inflater = zlib.decompressobj(EITHER if is_packed(data) else BARE)
    room = min(AT_ONCE_BYTES, room_of(len(data), most))
    try:
        found = inflater.decompress(data, room + 1)
    except zlib.error:
        raise BadRequest(NOT_PACKED) from None
    return found if inflater.eof and len(found) <= room else None


def inflate(data: bytes, most: int) -> bytes:
    """What was packed; raises TooLarge above ``most`` bytes, without making more, and BadRequest."""
    inflater = zlib.decompressobj(EITHER if is_packed(data) else BARE)
    room = room_of(len(data), most)
    try:
        found = inflater.decompress(data, room + 1)
    except zlib.error:
        raise BadRequest(NOT_PACKED) from None
    if len(found) > room:
        raise TooLarge(
            f"{len(data)} packed bytes become more than {room}, which is the most that is taken: send it unpacked"
        )
    if not inflater.eof:
        raise BadRequest("the packed message ends in its midst")
    return found
