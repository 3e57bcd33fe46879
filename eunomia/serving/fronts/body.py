"""The body of an HTTP request: read only within bounds, and only after its caller may send one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from eunomia.core.data import Json
from eunomia.serving.protocol.checks import FILES, check_load
from eunomia.serving.protocol.errors import BadRequest, TooLarge, too_large
from eunomia.serving.protocol.infer import parameters_of, read_json
from eunomia.serving.protocol.packed import inflate, room_of
from eunomia.serving.protocol.pieces import Pieces
from eunomia.serving.tenants.bodies import Body

CONTROL_BYTES = 16 * 1024  # of a message that is no inference request
LARGE = 1024**2  # what is joined beside the event loop
CODINGS, CHUNKED = ("gzip", "deflate"), "chunked"
Unpack = Callable[
    [bytes | memoryview, int], Awaitable[bytes | memoryview]
]  # a packed message and the most that it may become


async def inflated(packed: bytes | memoryview, most: int) -> bytes:
    """A small message, in place."""
    return inflate(bytes(packed), min(most, LARGE))


async def body_of(
    http: web.Request, most: int, body: Body | None = None, unpack: Unpack = inflated, remedy: str = ""
) -> bytes | memoryview:
    """The whole body, joined once (``http.read`` copies it three times) and inflated if it was packed.

    Raises TooLarge, with the ``remedy``, BadRequest, or Refused by ``body``.
    """
    if (coding := http.headers.get("Transfer-Encoding", CHUNKED)).lower() != CHUNKED:
        raise BadRequest(f"Transfer-Encoding is {coding!r:.50}; '{CHUNKED}' is taken: use Content-Encoding")
    if body is not None:
        body.need(http.content_length or 0)
    pieces, size = list[bytes](), 0
    while piece := await http.content.readany():
        size += len(piece)
        if size > most:
            raise too_large(http.content_length or f"more than {most}", most, remedy)
        if body is not None:
            body.need(size)
        pieces.append(piece)
    whole: bytes | memoryview
    if len(pieces) == 1:
        whole = pieces[0]
    else:
        whole = b"".join(pieces) if size < LARGE else await asyncio.to_thread(Pieces(pieces).whole)
    coding = http.headers.get("Content-Encoding", "identity")
    return whole if coding == "identity" else await _unpacked(whole, coding.lower(), most, body, unpack)


async def _unpacked(
    packed: bytes | memoryview, coding: str, most: int, body: Body | None, unpack: Unpack
) -> bytes | memoryview:
    """Inflated by ``unpack``; room for all that it may become is held before."""
    if coding not in CODINGS:
        raise BadRequest(f"Content-Encoding is {coding!r:.50}; {', '.join(CODINGS)} or none are taken")
    if body is not None:
        body.need(len(packed) + room_of(len(packed), most))
    return await unpack(packed, most)


async def control_of(http: web.Request, most: int = CONTROL_BYTES, empty: str = "") -> Json:
    """The JSON of a message that is no inference request; raises BadRequest or TooLarge.

    Without a body it is ``{}``; ``empty``: why that is refused.
    """
    if (http.content_length or 0) > most:
        raise TooLarge(f"the body has {http.content_length} bytes; at most {most} are taken here")
    content = bytes(await body_of(http, most))
    if empty and not content:
        raise BadRequest(f"the body is empty; {empty}")
    return read_json(content or b"{}")


async def without_parameters(http: web.Request) -> None:
    """That the body of a load has none; raises BadRequest."""
    try:
        check_load(parameters_of(await control_of(http)))
    except TooLarge:
        check_load(FILES)
