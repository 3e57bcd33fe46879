"""Which requests are refused because their network alone takes longer than they have.

The evidence is what requests of the same network and class of shapes took. A class that never ran is not refused. Of
those that are, one is let through now and then as a probe: after ``FIRST_S``, and twice as long after each probe that
proves the refusals right. What a probe shows to be wrong is a miss of each pair that was refused wrongly, and the class
is learned anew.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.state import State
from eunomia.serving.protocol.errors import Hopeless, Unavailable

FIRST_S, LONGEST_S = 1.0, 32.0  # between two probes of a class
SOONEST_S = 1e-4  # no answer takes less
KEPT = 1000  # refusals that a probe is held against


@dataclass
class _Refusals:
    """Of one class since its last probe: pair, and the time that each request had for one of its rows."""

    probe_s: float
    pause_s: float = FIRST_S
    before: tuple[float, float] = (0.0, 0.0)  # both, until the last probe was let through
    had: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=KEPT))


class Admission:
    """Judges requests before they wait; hears of those that have run."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._refusals: dict[int, _Refusals] = {}  # by the class's first row

    def accept(self, job: Job) -> float | None:
        """No rule is against it, and it enters: the seconds of others that it takes, of which ``turn_away`` hears."""
        harvest = self._state.harvest
        if harvest is None:
            return None
        own_s = self._state.rest_s(job)
        harvest.take(self._state.agreements[job.pair].tenant, job, own_s)
        return own_s

    def turn_away(self, job: Job, taken_s: float | None = None) -> None:
        """It was checked and does not enter: it takes no room, and the next of its class may be a probe."""
        if taken_s is not None and (harvest := self._state.harvest) is not None:
            harvest.give_back(self._state.agreements[job.pair].tenant, job, taken_s)
        if job.probe:
            refusals, job.probe = self._refusals[job.cost_row], False
            refusals.probe_s, refusals.pause_s = refusals.before

    def check(self, job: Job) -> None:
        """Before all other rules; one that passes must ``accept`` or ``turn_away``.

        Raises Unavailable, Hopeless, and Refused for a taker where others are predicted to leave no room.
        """
        if self.refuses(job):
            hard = job.hard_timeout_s <= job.deadline_s
            what, remedy = (
                ("timeout", "set a longer one") if hard else ("deadline", "claim a longer one by slo_ms")
            )
            raise Hopeless(
                f"the network alone takes {self._state.rest_s(job) * 1e3:.1f} ms with inputs of this size, "
                f"and the {what} is {_left_s(job) * 1e3:.1f} ms away: {remedy}, or send less"
            )  # to ask again would not help
        if self._state.rest_s(job) == math.inf:
            raise Unavailable(f"no device can run '{job.network.name}' now", retry_after_s=1.0)
        if (harvest := self._state.harvest) is not None:
            tenant = self._state.agreements[job.pair].tenant
            harvest.check(tenant, job, self._state.rest_s(job), self._state.clock.now_s())

    def refuses(self, job: Job) -> bool:
        """Whether it cannot be answered in the time that it has, as far as anybody has seen; may make it a probe."""
        self._state.classify(job)
        left_s, own_s = _left_s(job), self._state.rest_s(job)
        if own_s > left_s:  # by all that has been measured by now
            self._state.later.settle()
            self._state.classify(job)
            own_s = self._state.rest_s(job)
        if own_s <= left_s or own_s == math.inf or not self._state.costs.evident(job.cost_row):
            return False
        if left_s < SOONEST_S:
            return True
        now_s = job.accepted_s
        refusals = self._refusals.setdefault(job.cost_row, _Refusals(now_s + FIRST_S))
        if now_s < refusals.probe_s:
            refusals.had.append((job.pair, left_s / job.all_rows))
            return True
        refusals.before = refusals.probe_s, refusals.pause_s
        refusals.pause_s = min(2.0 * refusals.pause_s, LONGEST_S)
        refusals.probe_s = now_s + refusals.pause_s
        job.probe = True
        return False

    def retired(self, job: Job, answered: bool) -> list[int]:
        """A request has left; returns the pair of each refusal that was wrong, as a probe shows."""
        refusals = self._refusals.get(job.cost_row) if job.probe else None
        if refusals is None or not answered or job.attained_s <= 0.0:  # 0: in the batch of another
            return []
        rows = job.rows + job.through
        took_s = job.attained_s / rows
        wrong = [pair for pair, had_s in refusals.had if took_s <= had_s]
        refusals.had.clear()
        if wrong or took_s <= _left_s(job) / rows:
            refusals.pause_s, refusals.probe_s = FIRST_S, self._state.clock.now_s() + FIRST_S
            self._state.costs.doubt(job.network, job.cost_row)
        return wrong


def _left_s(job: Job) -> float:
    return min(job.deadline_s, job.hard_timeout_s) - job.accepted_s
