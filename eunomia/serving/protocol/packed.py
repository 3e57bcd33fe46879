"""Messages that arrive packed: inflated to no more than they may hold, and no more than ``RATIO`` times their size.

Pictures and numbers shrink to a tenth; what becomes a hundred times as large was made to cost more than it did. Gzip
may come in several members, one behind the other (RFC 1952, 2.2); their contents are one message.
"""

from __future__ import annotations

import zlib

from eunomia.serving.protocol.errors import BadRequest, TooLarge

GZIP, ZLIB = b"\x1f\x8b", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
EITHER, BARE = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS  # gzip or zlib by the first bytes; deflate without a head
RATIO, FREE_BYTES = 100, 4 * 1024**2  # so much may come of any message
AT_ONCE_BYTES = 128 * 1024  # inflated in place
MEMBERS = 4096  # of one message: those of 64 KiB, as bgzip writes them, hold 256 MiB
PIECE = 32 * 1024  # bytes that are looked at in one go: what stands behind a member is copied
NOT_PACKED = "the message cannot be inflated: it is no gzip or deflate"


def is_packed(data: bytes | memoryview) -> bool:
    """Whether it is gzip or zlib. No message of the protocol begins so: field 3 of no type, or a field 15."""
    return data[:2] == GZIP or data[:2] in ZLIB


def room_of(size: int, most: int) -> int:
    """Bytes that a packed message of this size may become."""
    return min(most, max(RATIO * size, FREE_BYTES))


def inflate_at_once(data: bytes | memoryview, most: int) -> bytes | None:
    """What was packed, where it is little and one member, else None; raises BadRequest. Half a millisecond at most."""
    inflater = zlib.decompressobj(EITHER if is_packed(data) else BARE)
    room = min(AT_ONCE_BYTES, room_of(len(data), most))
    try:
        found = inflater.decompress(data, room + 1)
    except zlib.error:
        raise BadRequest(NOT_PACKED) from None
    return found if inflater.eof and not inflater.unused_data and len(found) <= room else None


def inflate(data: bytes, most: int) -> bytes:
    """What was packed; raises TooLarge above ``most`` bytes, without making more, and BadRequest."""
    room, at, found = room_of(len(data), most), 0, bytearray()
    for _ in range(MEMBERS):
        at = _take_member(data, at, room, found)
        if len(found) > room:
            remedy = "send fewer rows at a time" if room == most else "send it unpacked"
            raise TooLarge(
                f"{len(data)} packed bytes become more than {room}, which is the most that is taken: {remedy}"
            )
        if at == len(data):
            return bytes(found)
        if data[:2] != GZIP or data[at : at + 2] != GZIP:
            raise BadRequest(f"{len(data) - at} bytes stand behind the packed message: leave them out")
    raise BadRequest(f"the packed message has more than {MEMBERS} members: pack it in one")


def _take_member(data: bytes, at: int, room: int, found: bytearray) -> int:
    """Inflate what begins at a place, to one byte more than there is room for; returns its end. Raises BadRequest."""
    inflater, view = zlib.decompressobj(EITHER if is_packed(data) else BARE), memoryview(data)
    while not inflater.eof and len(found) <= room:
        if at == len(data):
            raise BadRequest("the packed message ends in its midst")
        piece = view[at : at + PIECE]
        try:
            found += inflater.decompress(piece, room + 1 - len(found))
        except zlib.error:
            raise BadRequest(NOT_PACKED) from None
        at += len(piece) - len(inflater.unused_data)
    return at
