"""Who serves calls that are no inference: with what bounds, and on whose account."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

from eunomia.serving.http2.call import Call
from eunomia.serving.rpc.streams import Places, Sight, Stream
from eunomia.serving.rpc.unary import CONTROL_BYTES, Answer, Unary


class Serving:
    """With the places that streams have."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def unary(self, call: Call, who: str, answer: Answer) -> Unary:
        """One message, one answer."""
        return Unary(call, who, answer, self._places.common)

    def stream(
        self,
        call: Call,
        who: str,
        behave: Callable[[Stream], Awaitable[None]],
        most: int = CONTROL_BYTES,
        sight: Sight | None = None,
    ) -> Stream:
        """Many messages; each stream takes one of its caller's places. ``sight``: judges what comes of them."""
        return Stream(call, who, self._places, behave, most, sight)

    def watching(self, who: str) -> AbstractContextManager[None]:
        """A place among those who watch the server's health; raises Refused."""
        return self._places.watching(who)
