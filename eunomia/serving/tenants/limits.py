"""Limits of a tenant, checked before anything is spent on a request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.protocol.errors import Refused, TooLarge
from eunomia.serving.tenants.grants import Grant


@dataclass
class _State:
    tokens: float
    since_s: float
    active: int = 0


class Limits:
    """Rate (token bucket), concurrency and size, per tenant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}

    def active(self, tenant: str) -> int:
        """Requests of a tenant that have no answer yet."""
        state = self._states.get(tenant)
        return state.active if state else 0

    def check_size(self, grant: Grant, size: int) -> None:
        """Raises TooLarge."""
        if size > grant.max_request_bytes:
            raise TooLarge(
                f"the request holds {size} bytes; tenant '{grant.name}' may send {grant.max_request_bytes}"
            )

    def enter(self, grant: Grant) -> None:
        """Count one request in; raises Refused with the time after which it makes sense to ask again."""
        now_s = self._clock.now_s()
        state = self._states.setdefault(grant.name, _State(grant.burst, now_s))
        if state.active >= grant.max_concurrency:
            raise Refused(
                f"tenant '{grant.name}' has {state.active} requests in the server; {grant.max_concurrency} are allowed",
                retry_after_s=0.1,
            )
        if math.isfinite(grant.rate_per_s):
            state.tokens = min(grant.burst, state.tokens + (now_s - state.since_s) * grant.rate_per_s)
            state.since_s = now_s
            if state.tokens < 1.0:
                raise Refused(
                    f"tenant '{grant.name}' may send {grant.rate_per_s:g} requests/s",
                    retry_after_s=(1.0 - state.tokens) / grant.rate_per_s,
                )
            state.tokens -= 1.0
        state.active += 1

    def exit(self, grant: Grant) -> None:
        """Count one request out."""
        self._states[grant.name].active -= 1
