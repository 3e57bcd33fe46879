"""Settings of the dispatcher, and what it needs of whoever owns the devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from eunomia.serving.dispatch.jobs import Job


@dataclass(frozen=True)
class DispatchOptions:
    """``lease_s``: the longest run that a device gets at once (0 = one block at a time).
    ``late``: what happens to waiting requests that can no longer meet their deadline: ``last`` or ``drop``.
    ``max_batch``: requests that may run together. ``bandwidth_bytes_s``: of the machine, for gated rules.
    ``ahead_s``: so long before a run ends, the policy chooses the next request, and the device gets its
    order; 0 = only when it has ended, which leaves the device idle for as long as messages and the decision
    take. ``starve_s``: with ``late = "last"``, a tenant of whom nothing has started for so long is not held
    back for being late: one request of it, the most urgent, stands among those that can still make it.
    ``calm_s``: a network runs in one piece when nobody was preferred to what ran for so long (calm.py); inf =
    never.
    """  # noqa: D205

    lease_s: float = 0.1
    late: str = "last"
    max_batch: int = 1
    bandwidth_bytes_s: float = math.inf
    ahead_s: float = 0.0
    starve_s: float = math.inf
    calm_s: float = math.inf


class Executor(Protocol):
    """Whoever owns the devices."""

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """Start blocks ``first`` .. ``last - 1``; ``Dispatcher.done`` is called when they end or stop early."""

    def stop(self, device: int) -> None:
        """Stop what runs at the next block boundary, if the device has not passed its last one."""

    def queue(self, device: int, job: Job, first: int, last: int) -> None:
        """The same as ``run``, as soon as what runs there has ended or stopped."""

    def revoke(self, device: int) -> None:
        """Not to start what was queued, if that is possible still; ``Dispatcher.done`` or ``released`` tells."""

    def look(self, device: int) -> None:
        """``Dispatcher.look_at`` is called at the next boundary of what runs, however late it was to be called."""

    def wake(self, in_s: float) -> None:
        """``Dispatcher.look_again`` is called after so many seconds."""

    def dropped(self, job: Job, why: str) -> None:
        """The job will not run: ``expired``, ``hopeless`` or ``cancelled``; it needs its answer."""
