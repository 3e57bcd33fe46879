"""Which sizes the server tries for whom, in whose turn, and how long it remembers what came of it.

A climb belongs to one tenant and one class of shapes: an input that fails says nothing of another tenant's, and tenants
have bounds of their own. What was measured on the way is everybody's (costs). One climb goes on at a time; tenants take
turns. What came of it holds for ``AGAIN_S``, and twice as long after each further climb to the same class.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field

from eunomia.serving.devices.axes import Shapes
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job

AGAIN_S, LONGEST_S = 30.0, 960.0
MOST = 64  # climbs that are remembered of one tenant
AT_ONCE = 8  # that one tenant may have under way

Known = asyncio.Future[None]  # is done once the server knows


def end(known: Known | None) -> None:
    """Whoever waits may ask again."""
    if known is not None and not known.done():
        known.set_result(None)


@dataclass(eq=False)
class Climb:
    """``found``: whether it came to an end. ``until_s``: so long that holds; inf while it lasts."""

    network: Network
    pair: int
    shapes: Shapes  # of its inputs
    bound_s: float
    pause_s: float = AGAIN_S
    found: bool = False
    until_s: float = math.inf
    ended: Known = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Climbs:
    """Of all tenants."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, Climb]] = {}  # by tenant and row of class, the oldest first
        self._queues: dict[str, deque[Climb]] = {}  # that have not begun; the tenant whose turn it is first

    def find(self, tenant: str, job: Job, bound_s: float, now_s: float) -> Climb | None:
        """What is known of this size or is being found out; None where it is to be tried, or tried again."""
        climb = self._of.get(tenant, {}).get(job.cost_row)
        if climb is None or now_s >= climb.until_s:
            return None
        enough = math.isinf(climb.until_s) or not climb.found or bound_s <= climb.bound_s
        return climb if enough else None

    def full(self, tenant: str) -> Known | None:
        """Where a tenant may have no more under way: the end of its oldest."""
        under_way = [climb.ended for climb in self._of.get(tenant, {}).values() if not climb.ended.done()]
        return under_way[0] if len(under_way) >= AT_ONCE else None

    def begin(self, tenant: str, job: Job, bound_s: float) -> Climb:
        """A new one, in the tenant's queue; the oldest that have ended are forgotten."""
        mine = self._of.setdefault(tenant, {})
        before = mine.pop(job.cost_row, None)
        pause_s = AGAIN_S if before is None else min(2.0 * before.pause_s, LONGEST_S)
        shapes = {name: [*sizes] for name, sizes in job.shapes}
        climb = mine[job.cost_row] = Climb(job.network, job.pair, shapes, bound_s, pause_s)
        for row in [row for row, one in mine.items() if one.ended.done()][: max(len(mine) - MOST, 0)]:
            del mine[row]
        self._queues.setdefault(tenant, deque()).append(climb)
        return climb

    def next(self) -> Climb | None:
        """Of the tenant whose turn it is; the tenant goes to the end of the circle."""
        for tenant, queue in self._queues.items():
            climb = queue.popleft()
            del self._queues[tenant]
            if queue:
                self._queues[tenant] = queue
            return climb
        return None

    def end(self, climb: Climb, now_s: float, *, found: bool) -> None:
        """It is over: whoever waits may ask again."""
        climb.found, climb.until_s = found, now_s + climb.pause_s
        end(climb.ended)

    def end_all(self, now_s: float) -> None:
        """None goes on."""
        self._queues.clear()
        for mine in self._of.values():
            for climb in mine.values():
                if not climb.ended.done():
                    self.end(climb, now_s, found=False)

    def forget(self, network: int) -> None:
        """What was found out of a network that is not in service any more."""
        for tenant, mine in list(self._of.items()):
            kept = {r: c for r, c in mine.items() if c.network.index != network or not c.ended.done()}
            self._of[tenant] = kept
            if not kept:
                del self._of[tenant]
