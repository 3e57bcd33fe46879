"""Which deadline a request has: what its client claims, within what its tenant was granted.

A deadline is a claim on the devices: under rules that serve the most urgent first, whoever claims less gets them, and
whoever misses its own impossible claims looks let down. So a claim may loosen what was promised, and shorten it only
as far as the promise says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from eunomia.serving.protocol.checks import duration_s, whole_number
from eunomia.serving.tenants.grants import Promise

CLAIMS = frozenset(("slo_ms", "timeout", "priority"))


@dataclass(frozen=True, slots=True)
class Claim:
    """What one request says of its time, in seconds from its arrival; inf = nothing.

    ``slo_s``: its soft deadline. ``timeout_s``: its ``timeout`` parameter. ``call_s``: what is left of the call's own
    deadline (gRPC). ``urgency``: at most 1, among its tenant's other requests.
    """

    slo_s: float = math.inf
    timeout_s: float = math.inf
    call_s: float = math.inf
    urgency: float = 1.0

    @property
    def limit_s(self) -> float:
        """When it is given up, whatever its deadline: the client's own affair, which no grant changes."""
        return min(self.timeout_s, self.call_s)


def claim_of(parameters: Mapping[str, object], call_s: float) -> Claim:
    """What the parameters of a request and its call say; raises BadRequest."""
    if CLAIMS.isdisjoint(parameters):
        return Claim(call_s=call_s)
    return Claim(
        duration_s(parameters, "slo_ms", 1e-3),
        duration_s(parameters, "timeout", 1e-6),
        call_s,
        1.0 / max(whole_number(parameters, "priority"), 1),
    )


def deadline_s(claim: Claim, promise: Promise | None, shortest_s: float = 0.0) -> float:
    """Seconds from arrival until which the request is to be answered; inf = no deadline.

    The claim: ``slo_s``, else ``timeout_s``, else what was promised, or ``call_s`` if that is sooner. It is lifted to
    the shortest that the promise lets a client claim; without a promise, to ``shortest_s``.
    """
    if claim.slo_s < math.inf:
        claimed_s = claim.slo_s
    elif claim.timeout_s < math.inf:
        claimed_s = claim.timeout_s
    else:
        claimed_s = min(claim.call_s, promise.deadline_s if promise else math.inf)
    return max(claimed_s, promise.shortest_s if promise else shortest_s)
