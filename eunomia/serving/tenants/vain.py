"""Runs that held a device for long and gave no answer: their tenant pauses before it sends such inputs again.

So it is where the answer had no room, or the network failed. What an input's values make of it shows in no shape, so
that nobody can foresee it. Such runs may take a ``1 / PER`` of a device: each counts in an account of its tenant and
network, which ``PER`` times as much time pays off. What is owed beyond ``FREE_S`` is the pause; the first lasts
``FIRST_S`` at most. Without an answer to one of the class in between it lasts twice as long each time. It lasts
``FIRST_S`` at least where a process had to go. After it one request of the class is let through at a time, until one
is answered.

From ``FEW`` such classes of a network on, all its inputs are one class. An answer opens that again for inputs that are
no larger. All inputs pause, too, from ``FEW`` deaths of a device under them on, whoever it was: of those that wait to
run again, some leave before, and others come. That ends by time alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import le

from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Refused

FIRST_S, LONGEST_S = 10.0, 960.0
PER, FREE_S = 20.0, 0.5
FEW, ALL = 3, -1  # ALL: in place of a class
CRASHED_S = math.inf  # in place of what a run took that took its device down


@dataclass
class _Closed:
    """``before_s``: ``until_s`` without the ``probe``, the number of the request that was let through last.

    ``open``: of ``ALL``, sizes that were answered since.
    """

    held_s: float
    pause_s: float
    since_s: float
    until_s: float
    probe: int = 0
    before_s: float = 0.0
    open: list[tuple[int, ...]] = field(default_factory=list)


@dataclass
class _Account:
    """What was owed then for runs in vain."""

    owed_s: float = 0.0
    at_s: float = 0.0

    def left_s(self, now_s: float) -> float:
        """What time has not paid off yet."""
        return max(self.owed_s - (now_s - self.at_s) / PER, 0.0)


class Vain:
    """By tenant and network, then by class of shapes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[tuple[str, int], dict[int, _Closed]] = {}
        self._dead: dict[tuple[str, int], _Closed] = {}  # all sizes, by deaths
        self._deaths_s: dict[tuple[str, int], list[float]] = {}  # the last ones
        self._accounts: dict[tuple[str, str], _Account] = {}  # however the network is cut

    def __bool__(self) -> bool:
        """Whether anybody may have to pause."""
        return bool(self._closed or self._dead)

    def check(self, tenant: str, job: Job) -> None:
        """Raises Refused in a pause; who comes after it is let through, and the next pause begins."""
        if not self:
            return
        if self.pauses(tenant, job):
            raise self.why(tenant, job)
        found, now_s = self._find(tenant, job), self._clock.now_s()
        if found is not None and found.probe != job.number:
            found.before_s, found.until_s, found.probe = found.until_s, now_s + found.pause_s, job.number

    def foresee(self, tenant: str, job: Job) -> None:
        """The same, of one that is not here yet: nobody is let through by this."""
        if self and self.pauses(tenant, job):
            raise self.why(tenant, job)

    def again(self, tenant: str, job: Job) -> bool:
        """Whether another one of its class ran in vain, and none was answered since."""
        return self._find(tenant, job) is not None

    def pauses(self, tenant: str, job: Job) -> bool:
        """Whether its class does now."""
        found, now_s = self._find(tenant, job), self._clock.now_s()
        held = found is not None and found.probe != job.number and now_s < found.until_s
        return held or self._all_pause(tenant, job)

    def _all_pause(self, tenant: str, job: Job) -> bool:
        dead = self._dead.get((tenant, job.network.index))
        return dead is not None and self._clock.now_s() < dead.until_s

    def why(self, tenant: str, job: Job) -> Refused:
        """To those who must pause."""
        found = self._find(tenant, job)
        if found is None or self._all_pause(tenant, job):
            found = self._dead[tenant, job.network.index]
        left_s = max(found.until_s - self._clock.now_s(), 0.001)
        what = f"held a device for {found.held_s * 1e3:.0f} ms and got no answer"
        if found.held_s == CRASHED_S:
            what = "took its device down"
        text = f"an input of this size {what}; tenant '{tenant}' may send such inputs again in {math.ceil(left_s)} s"
        return Refused(text, retry_after_s=left_s)

    def died(self, tenant: str, job: Job) -> bool:
        """A device died under it; whether all sizes pause, as it was one of ``FEW`` in the longest pause."""
        key, now_s = (tenant, job.network.index), self._clock.now_s()
        lately = [at_s for at_s in self._deaths_s.get(key, ()) if now_s - at_s < LONGEST_S]
        self._deaths_s[key] = [*lately[1 - FEW :], now_s]
        if len(lately) + 1 < FEW:
            return False
        before = self._dead.get(key)
        pause_s = FIRST_S if before is None else min(2.0 * before.pause_s, LONGEST_S)
        self._dead[key] = _Closed(CRASHED_S, pause_s, now_s, now_s + pause_s)
        return True

    def close(self, tenant: str, job: Job, held_s: float, beyond_s: float, *, killed: bool = False) -> bool:
        """It ran so long in vain, or crashed its device (``CRASHED_S``); whether its class pauses.

        ``beyond_s``: what it held a device beyond what it may. ``killed``: a process had to go for it.
        """
        key, now_s, found = (tenant, job.network.index), self._clock.now_s(), self._find(tenant, job)
        pause_s = self._owed_s(tenant, job, max(beyond_s, FIRST_S / PER) if killed else beyond_s, found)
        pause_s = max(pause_s, FIRST_S) if killed else pause_s
        closed = _Closed(held_s, pause_s, now_s, now_s + pause_s)
        classes = self._closed.setdefault(key, {})
        if (every := classes.get(ALL)) is not None:
            closed.pause_s, closed.until_s = max(pause_s, every.pause_s), max(closed.until_s, every.until_s)
            closed.open = [sizes for sizes in every.open if not _no_larger(_sizes(job), sizes)]
        classes[job.cost_row] = closed
        if every is not None or sum(one.pause_s > 0.0 for one in classes.values()) >= FEW:
            self._closed[key] = {ALL: closed}
        return closed.pause_s > 0.0

    def _owed_s(self, tenant: str, job: Job, beyond_s: float, found: _Closed | None) -> float:
        """How long to pause for a run, which is written into the account."""
        now_s, account = (
            self._clock.now_s(),
            self._accounts.setdefault((tenant, job.network.name), _Account()),
        )
        before_s = account.left_s(now_s)
        account.owed_s, account.at_s = before_s + beyond_s, now_s
        if found is not None:
            return min(max(PER * account.owed_s, 2.0 * found.pause_s), LONGEST_S)
        pause_s = PER * max(account.owed_s - FREE_S, 0.0)
        return min(pause_s, FIRST_S if before_s <= FREE_S else LONGEST_S)

    def answered(self, tenant: str, job: Job) -> None:
        """One of its class that has come since has its answer: the next may come at once."""
        found = self._find(tenant, job) if self._closed else None
        if found is None or job.accepted_s < found.since_s:
            return
        key, sizes = (tenant, job.network.index), _sizes(job)
        classes = self._closed[key]
        if ALL in classes:
            found.open = [*(one for one in found.open if not _no_larger(one, sizes)), sizes]
            if found.probe == job.number:
                found.until_s, found.probe = found.before_s, 0
            return
        del classes[job.cost_row]
        if not classes:
            del self._closed[key]

    def _find(self, tenant: str, job: Job) -> _Closed | None:
        """What keeps its class closed, or did, and none of the class was answered since."""
        classes = self._closed.get((tenant, job.network.index), {})
        every = classes.get(ALL)
        if every is None:
            return classes.get(job.cost_row)
        return None if any(_no_larger(_sizes(job), sizes) for sizes in every.open) else every


def _sizes(job: Job) -> tuple[int, ...]:
    """Elements of each input."""
    return tuple(job.all_rows * size for size in job.sizes)


def _no_larger(sizes: tuple[int, ...], others: tuple[int, ...]) -> bool:
    return all(map(le, sizes, others))
