"""What each tenant has had of this server since it started: device time, hits and misses."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.serving.observe.history import Run
from eunomia.serving.observe.retired import Retired

MISSES = ("late", "hopeless", "expired")


@dataclass
class TenantUse:
    """Of one tenant. Misses are late answers and requests that were given up for lateness."""

    served_s: float = 0.0
    hits: int = 0
    misses: int = 0


class Use:
    """By tenant."""

    def __init__(self) -> None:
        self.tenants: dict[str, TenantUse] = {}

    def ran(self, run: Run) -> None:
        """A device has run blocks."""
        self._of(run.tenant).served_s += run.end_s - run.start_s

    def retired(self, request: Retired) -> None:
        """A request has left."""
        use = self._of(request.tenant)
        use.hits += request.outcome == "hit"
        use.misses += request.outcome in MISSES

    def _of(self, tenant: str) -> TenantUse:
        found = self.tenants.get(tenant)
        if found is None:
            found = self.tenants[tenant] = TenantUse()
        return found
