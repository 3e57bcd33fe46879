"""How a call ends that has no answer: its status, one sentence, and when to ask again."""

from __future__ import annotations

import logging
import math
from enum import IntEnum

from eunomia.serving.http2.call import Call
from eunomia.serving.protocol.errors import (
    NoCall,
    ServingError,
    TooLarge,
    Unspoken,
    forget_frames,
    without_folders,
)

log = logging.getLogger("eunomia.serving")
PUSHBACK = "grpc-retry-pushback-ms"  # clients that ask again by themselves wait so long; -1 = they do not
FAILED = "the server has failed; its log says more"


class Status(IntEnum):
    """Of gRPC."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


def refuse(call: Call, error: Exception) -> None:
    """It ends; a fault of the server's tells nothing but that."""
    if not isinstance(error, ServingError):
        log.error("a call over gRPC failed", exc_info=error)
        call.finish(Status.INTERNAL, FAILED)
        return
    forget_frames(error)
    if isinstance(error, NoCall):
        call.turn_away(error.http, str(error))
        return
    again = error.retry_after_s
    wait_ms = None if again is None else str(max(1, math.ceil(again * 1e3)))
    after = [] if wait_ms is None else [("retry-after-ms", wait_ms), (PUSHBACK, wait_ms)]
    if isinstance(error, TooLarge):
        after.append((PUSHBACK, "-1"))
    if isinstance(error, Unspoken):
        after.append(("grpc-accept-encoding", "identity,deflate,gzip"))
    call.finish(Status[error.grpc], without_folders(str(error)), after)
