"""Limits of a tenant, checked before anything is spent on a request.

Memory for tensors is shared by all. No tenant may hold more of it than is left for the others: one that
floods gets half, two get a third each, and some is always free for small demands. This is the dynamic
threshold of Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998, with factor 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.protocol.errors import Refused, TooLarge
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.today import Today

MIB = 1024**2
LEAST_PART = 0.01  # of a tenant's rate: what is taken to be left when others admit all of it


@dataclass
class _State:
    tokens: float
    since_s: float
    active: int = 0
    held_bytes: int = 0


class Limits:
    """Rate (token bucket), concurrency, size and device time of a day, per tenant."""

    def __init__(self, clock: Clock) -> None:
        self.today = Today()
        self._clock = clock
        self._states: dict[str, _State] = {}
        self.admitted: dict[str, float] = {}  # rows of input so far
        self.elsewhere: Mapping[
            str, float
        ] = {}  # rows/s that other replicas admit: they count for the same rate

    def active(self, tenant: str) -> int:
        """Requests of a tenant that have no answer yet."""
        state = self._states.get(tenant)
        return state.active if state else 0

    def check_size(self, grant: Grant, size: int, room_bytes: int) -> None:
        """Raises TooLarge for what the tenant may not send, and what would not even fit were nobody else there."""
        if size > grant.max_request_bytes:
            raise TooLarge(
                f"the request holds {size} bytes; tenant '{grant.name}' may send {grant.max_request_bytes}"
            )
        if size > room_bytes:
            raise TooLarge(f"the request holds {size} bytes; the server has room for {room_bytes}")

    def knock(self, grant: Grant) -> None:
        """Before a body is read: raises Refused where ``enter`` would, whatever the body holds."""
        self._room(grant, 1.0)

    def charge(self, grant: Grant) -> None:
        """A message that could not be read was work, too: it counts as one request for the rate."""
        self._room(grant, 0.0).tokens -= 1.0
        self._count(grant, 1.0)

    def enter(self, grant: Grant, rows: int = 1) -> None:
        """Count one request in; raises Refused with the time after which it makes sense to ask again.

        The rate counts rows of input: 32 pictures in one request are as much work as 32 requests. One request with more
        rows than the burst enters when nothing else has of late, and those after it wait the longer.
        """
        state = self._room(grant, float(rows))
        state.tokens -= rows
        state.active += 1
        self._count(grant, float(rows))

    def _count(self, grant: Grant, rows: float) -> None:
        self.admitted[grant.name] = self.admitted.get(grant.name, 0.0) + rows

    def _room(self, grant: Grant, rows: float) -> _State:
        """The tenant's state now; raises Refused if so many rows may not enter."""
        now_s = self._clock.now_s()
        state = self._states.get(grant.name)
        if state is None:
            state = self._states[grant.name] = _State(grant.burst, now_s)
        if rows and state.active >= grant.max_concurrency:
            raise Refused(
                f"tenant '{grant.name}' has {state.active} requests in the server; {grant.max_concurrency} are allowed",
                retry_after_s=0.1,
            )
        if rows:
            self.today.check(grant)
        if grant.rate_per_s == math.inf:
            state.tokens, state.since_s = grant.burst, now_s
            return state
        left_per_s = grant.rate_per_s - self.elsewhere.get(grant.name, 0.0)
        gained = (now_s - state.since_s) * left_per_s
        least = min(
            state.tokens, -max(grant.burst, 1.0)
        )  # what others have admitted takes no more than a burst
        state.tokens = min(grant.burst, max(state.tokens + gained, least))
        state.since_s = now_s
        need = min(rows, max(grant.burst, 1.0))
        if rows and state.tokens < need:
            raise Refused(
                f"tenant '{grant.name}' may send {grant.rate_per_s:g} requests/s (rows of input)",
                retry_after_s=(need - state.tokens) / max(left_per_s, LEAST_PART * grant.rate_per_s),
            )
        return state

    def hold(self, grant: Grant, size: int, free_bytes: int) -> None:
        """Count tensors in; raises Refused when it would be more than what is free; one request may always try."""
        state = self._states[grant.name]
        if state.held_bytes and state.held_bytes + size > free_bytes:
            raise Refused(
                f"tenant '{grant.name}' has {state.held_bytes / MIB:.1f} MiB of tensors in the server, and "
                f"{size / MIB:.1f} more would come: none may hold more than is left for the others",
                retry_after_s=0.1,
            )
        state.held_bytes += size

    def keep(self, tenant: str, size: int, free_bytes: int) -> Callable[[], None]:
        """Count tensors in that stay beyond their request, as ``hold`` does; what counts them out. Raises Refused."""
        grant = Grant(tenant)
        self.hold(grant, size, free_bytes)
        return partial(self.let_go, grant, size)

    def let_go(self, grant: Grant, size: int) -> None:
        """Count tensors out."""
        self._states[grant.name].held_bytes -= size

    def exit(self, grant: Grant) -> None:
        """Count one request out."""
        self._states[grant.name].active -= 1
