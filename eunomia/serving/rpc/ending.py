"""How a call ends that has no answer: its status, one sentence, and when to ask again."""

from __future__ import annotations

import logging
import math
from enum import IntEnum

from eunomia.serving.http2.call import Call
from eunomia.serving.protocol.errors import NoCall, ServingError, Unspoken, forget_frames, without_folders

log = logging.getLogger("eunomia.serving")
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
    after = [] if again is None else [("retry-after-ms", str(max(1, math.ceil(again * 1e3))))]
    if isinstance(error, Unspoken):
        after.append(("grpc-accept-encoding", "identity,deflate,gzip"))
    call.finish(Status[error.grpc], without_folders(str(error)), after)
