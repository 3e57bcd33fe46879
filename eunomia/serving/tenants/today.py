"""Device time of each tenant since midnight, UTC, against what it was granted for a day."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.grants import Grant

DAY_S = 86_400.0


@dataclass
class Today:
    """Sums of one day, by tenant; the first request of a new day begins anew."""

    day: int = 0  # since 1970
    used_s: dict[str, float] = field(default_factory=dict)
    wall: Callable[[], float] = time.time

    def add(self, tenant: str, device_s: float, wall_s: float) -> None:
        """A request has left a device for good; one of an earlier day counts no more."""
        self._turn(wall_s)
        if int(wall_s // DAY_S) == self.day:
            self.used_s[tenant] = self.used_s.get(tenant, 0.0) + device_s

    def check(self, grant: Grant) -> None:
        """Raises Refused where the tenant has used up its day."""
        if grant.device_s_per_day == float("inf"):
            return
        now_s = self.wall()
        self._turn(now_s)
        if (used_s := self.used_s.get(grant.name, 0.0)) >= grant.device_s_per_day:
            left_s = (self.day + 1) * DAY_S - now_s
            raise Refused(
                f"tenant '{grant.name}' has used {used_s:.1f} s of devices today; {grant.device_s_per_day:g} s are "
                f"granted, the next day begins in {left_s / 3600:.1f} h",
                retry_after_s=left_s,
            )

    def _turn(self, wall_s: float) -> None:
        day = int(wall_s // DAY_S)
        if day > self.day or day < self.day - 1:  # a day far behind: the clock had jumped ahead and is back
            self.day = day
            self.used_s.clear()
