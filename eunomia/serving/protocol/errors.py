"""Why a request gets no result, with the status of each protocol."""

from __future__ import annotations

import re
from collections.abc import Collection


class ServingError(Exception):
    """One clear sentence for the client; ``reason`` is the label in the metrics.

    ``http``: status code. ``grpc``: name of the status code. ``retry_after_s``: when it makes sense to
    ask again; None = never with this request. ``by_client``: whoever asked has given the request up.
    ``of_input``: it is the input's fault; no promise was broken.
    """

    http, grpc, reason = 500, "INTERNAL", "internal"
    by_client = False
    of_input = False

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BadRequest(ServingError):
    """The request itself is wrong."""

    http, grpc, reason = 400, "INVALID_ARGUMENT", "bad_request"
    of_input = True


class Unmarked(BadRequest):
    """A message is packed, and nothing says how: gRPC's test of compression wants this status."""

    grpc = "INTERNAL"


class TooLarge(ServingError):
    """More bytes than this tenant may send."""

    http, grpc, reason = 413, "RESOURCE_EXHAUSTED", "too_large"


def too_large(size: int | str, most: int, remedy: str) -> TooLarge:
    """A body; ``size``: in words where nobody has said it."""
    return TooLarge(f"the body has {size} bytes; at most {most} are taken{remedy}")


FEWER = " (the server's max_body_mib): send fewer rows at a time"  # what helps whoever asks, and its operator


class NoRoom(TooLarge):
    """What the network made of its input fits into no memory that there is."""

    reason = "no_room"
    of_input = True


class TooLong(TooLarge):
    """Its run was ended, for others wait."""

    reason = "too_long"
    of_input = True


class HeadTooLarge(ServingError):
    """More head than any client needs."""

    http, grpc, reason = 431, "INVALID_ARGUMENT", "too_large"
    of_input = True


class OtherVersion(ServingError):
    """HTTP/2 where HTTP/1.1 is spoken."""

    http, grpc, reason = 505, "UNIMPLEMENTED", "bad_request"
    of_input = True


class Unspoken(ServingError):
    """The server has no such method, or cannot read what it is sent."""

    http, grpc, reason = 501, "UNIMPLEMENTED", "bad_request"
    of_input = True


class NoCall(ServingError):
    """A request of HTTP/2 that is no call of gRPC."""

    http, grpc, reason = 415, "INVALID_ARGUMENT", "bad_request"
    of_input = True


class Unauthenticated(ServingError):
    """No key, or one that nobody has."""

    http, grpc, reason = 401, "UNAUTHENTICATED", "unauthenticated"


class Forbidden(ServingError):
    """A key that does not open this door."""

    http, grpc, reason = 403, "PERMISSION_DENIED", "forbidden"


class NotFound(ServingError):
    """No such model or version."""

    http, grpc, reason = 404, "NOT_FOUND", "not_found"


class Refused(ServingError):
    """The tenant's limits are exceeded, or the server is full: 429."""

    http, grpc, reason = 429, "RESOURCE_EXHAUSTED", "limit"


class Untried(Refused):
    """Nobody knows yet what an input of this size takes; one at a time runs to find out."""


class Crowded(Refused):
    """The network's answer does not fit beside what its tenant holds already."""

    reason = "no_room"
    of_input = True


class Unavailable(ServingError):
    """The server cannot do it now: draining, no device, model not ready."""

    http, grpc, reason = 503, "UNAVAILABLE", "unavailable"


class Hopeless(ServingError):
    """The deadline cannot be met, so no device time is spent on it."""

    http, grpc, reason = 503, "RESOURCE_EXHAUSTED", "hopeless"


class Expired(ServingError):
    """The request's own timeout has passed while it waited."""

    http, grpc, reason = 504, "DEADLINE_EXCEEDED", "expired"
    by_client = True


class Cancelled(ServingError):
    """The client has gone away."""

    http, grpc, reason = 499, "CANCELLED", "cancelled"
    by_client = True


class ModelFailed(ServingError):
    """The network took its device down."""

    http, grpc, reason = 500, "INTERNAL", "model_failed"


class InputFailed(ModelFailed):
    """The network failed on this input."""

    of_input = True


class InputRefused(BadRequest):
    """A node of the network refuses the values or the shape of this input."""

    reason = "bad_input"


IN_VAIN = (
    InputRefused.reason,
    InputFailed.reason,
    NoRoom.reason,
    TooLong.reason,
)  # of requests that may have cost a lot


def forget_frames(error: BaseException) -> None:
    """Once its sentence is on its way: its frames hold the request, and that the error, until the collector comes."""
    error.__traceback__ = None


def not_offered(method: str, path: str, allowed: Collection[str], meant: str = "") -> dict[str, str]:
    """What to say of a path that nobody serves, or not by this method; ``meant``: one that somebody does."""
    if allowed:
        said = f"{path!r:.100} takes {' and '.join(sorted(allowed))}, not {method:.20}"
        return {"error": said, "reason": "method_not_allowed"}
    other = f"leave out the slash behind {meant!r:.100}" if meant else f"inference is POST {infer_path(path)}"
    said = f"nothing is served at {path!r:.100}; {other}"
    return {"error": said, "reason": NotFound.reason}


INSIDE = re.compile(r"/(?:models|predictions)/([^/:]+)(?:/versions/([^/:]+))?")
FITTING = re.compile(r"[\w.~-]{1,60}", re.ASCII)


def infer_path(path: str) -> str:
    """Where inference with the network is that a path of another protocol names."""
    found = INSIDE.search(path)
    name, version = (found[1], found[2]) if found else ("NAME", None)
    if not FITTING.fullmatch(name):
        name = "NAME"
    behind = f"/versions/{version}" if version and FITTING.fullmatch(version) else ""
    return f"/v2/models/{name}{behind}/infer"


PATH = re.compile(r"(?<![\w:/.])/(?!v2/repository/)(?:[^\s/'\":,;()]+/)+(?=[^\s/])")


def without_folders(text: str) -> str:
    """Without the folders of files on the server: whoever asks for a network needs no map of the machine."""
    return PATH.sub("", text)
