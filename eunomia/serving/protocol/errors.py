"""Why a request gets no result, with the status of each protocol."""

from __future__ import annotations


class ServingError(Exception):
    """One clear sentence for the client; ``reason`` is the label in the metrics.

    ``http``: status code. ``grpc``: name of the status code. ``retry_after_s``: when it makes sense to
    ask again; None = never with this request. ``by_client``: whoever asked has given the request up.
    """

    http, grpc, reason = 500, "INTERNAL", "internal"
    by_client = False

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BadRequest(ServingError):
    """The request itself is wrong."""

    http, grpc, reason = 400, "INVALID_ARGUMENT", "bad_request"


class TooLarge(ServingError):
    """More bytes than this tenant may send."""

    http, grpc, reason = 413, "INVALID_ARGUMENT", "too_large"


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
    """The network failed on this input, or took its device with it."""

    http, grpc, reason = 500, "INTERNAL", "model_failed"
