"""What a connection of HTTP is in the midst of."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """Whose the next bytes are."""

    HEAD = "a request begins"
    BODY = "of an inference request"
    BUSY = "behind a request that has no answer yet"
    SKIP = "of a body that nobody wants"
    FED = "aiohttp's, until it has answered one request"
    ALL = "aiohttp's"
    GONE = "of a connection that has had its last answer"
