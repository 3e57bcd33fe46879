"""What the head of a call says: who calls, until when, and how messages are packed."""

from __future__ import annotations

import math

from eunomia.serving.fronts.caller import FAIRNESS, FORWARDED, WHO, is_loopback
from eunomia.serving.http2.call import Call
from eunomia.serving.http2.heads import TWICE
from eunomia.serving.protocol.errors import BadRequest, Unmarked, Unspoken
from eunomia.serving.visit import Caller

UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
MOST_DIGITS = 8
LEAST_S = 1e-3
PACKED = ("gzip", "deflate")


def caller_of(call: Call) -> Caller:
    """Key, names and deadline; raises BadRequest, also where one who asks gives two keys or names."""
    fields = call.fields
    if TWICE in fields and (name := next((n for n in WHO if n in fields[TWICE].split()), None)) is not None:
        raise BadRequest(f"{name} has two values: send it once, with one of them")
    scheme, _, key = fields.get("authorization", "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" and key.strip() else None
    return Caller(
        bearer or fields.get("x-api-key"),
        next((fields[name] for name in FAIRNESS if name in fields), None),
        fields.get("x-tenant-id"),
        timeout_s(fields.get("grpc-timeout")),
        fields.get("traceparent"),
        is_loopback(call.host) and not any(name in fields for name in FORWARDED),
    )


def timeout_s(text: str | None) -> float:
    """Seconds until the caller gives up; raises BadRequest."""
    if text is None:
        return math.inf
    digits, unit = text[:-1], UNITS_S.get(text[-1:])
    if unit is None or not digits.isascii() or not digits.isdigit() or len(digits) > MOST_DIGITS:
        raise BadRequest(
            f"grpc-timeout is {text!r:.50}; give up to {MOST_DIGITS} digits and one of H M S m u n"
        )
    return max(int(digits) * unit, LEAST_S)


def packing_of(call: Call) -> str:
    """How packed messages of a call are packed; raises Unmarked or Unspoken."""
    name = call.fields.get("grpc-encoding", "identity")
    if name == "identity":
        raise Unmarked("a message is packed, and grpc-encoding does not say how")
    if name not in PACKED:
        raise Unspoken(f"grpc-encoding is {name!r:.50}; {', '.join(PACKED)} or none are taken")
    return name


def check_only(call: Call, *, came: bool, packed: bool) -> None:
    """A message of a call that has one; raises BadRequest where one ``came`` before, or Unspoken."""
    if came:
        raise BadRequest("the call has a second message: send it in a call of its own")
    if packed:
        packing_of(call)
