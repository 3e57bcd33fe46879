"""Clients that wait for their answers, in a replay: when the next request comes, and which.

Nobody sends anything after the recording's last request. A client who is faster than it was goes on with what it sent
before: the others find as many rivals as they had. So all that a pair's clients sent in the replay counts, be it more
or less than was recorded. One that waits to the end has sent little. Counted by what was recorded alone, lateness would
count for much, and luck for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.serving.dispatch.jobs import Job
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_clients import clients_of


class Next(NamedTuple):
    """Request ``number`` comes at this time; ``place``: among those that its client sends anew, below 0 = of none."""

    at_s: float
    number: int
    client: Sequence[int] = ()
    place: int = -1


class Told(NamedTuple):
    """All requests of a replay in order of arrival, (m,): ``number``: the recorded one that each is, or is sent like.

    ``arrival_s``, ``finish_s``: when the dispatcher knew of it, and when it left its device (nan = it did not).
    ``hit``, ``response_s``: whether it was in time, and what its client waited (nan = it got no answer) [s].
    """

    number: Ints
    arrival_s: Floats
    finish_s: Floats
    hit: Flags
    response_s: Floats


class Clients:
    """Of one replay. ``left``: requests that are still to have an answer: recorded ones, and those sent anew."""

    def __init__(self, twin: Twin) -> None:
        self._found, self._reach_s, self.left = clients_of(twin), twin.reach_s, len(twin.requests)
        self._twin, self._pair = twin, twin.requests.pair
        sent_s = twin.requests.arrival_s - twin.reach_s
        self._ends_s, answered_s = float(sent_s.max()), sent_s + twin.gone_s
        everybody = self._found.clients()
        self._next = {
            before: after for mine in everybody for before, after in zip(mine, mine[1:], strict=False)
        }
        self._on = {mine[-1]: mine for mine in everybody if self._found.goes_on(mine, sent_s, answered_s)}
        self._anew: dict[Job, Next] = {}
        self._came: dict[Job, float] = {}
        self._finish_s: dict[Job, float] = {}
        self._answered: set[Job] = set()
        self.alone: list[int] = np.flatnonzero(self._found.after < 0).tolist()
        self.waiting = self._found.waiting(twin.requests.pair)

    def came(self, job: Job, next_: Next) -> None:
        """This is what was to come."""
        self._came[job] = next_.at_s
        if next_.place >= 0:
            self._anew[job] = next_

    def finished(self, job: Job, now_s: float) -> None:
        """All its blocks have run."""
        self._finish_s[job] = now_s

    def after(self, job: Job, now_s: float) -> Next | None:
        """What its client sends now that this request has its answer, of whatever kind."""
        if job in self._answered:  # its client has left, and now its device has let it go
            return None
        self._answered.add(job)
        self.left -= 1
        if (anew := self._anew.get(job)) is not None:
            return self._again(anew.client, anew.place + 1, now_s)
        if (following := self._next.get(job.payload)) is not None:
            if (at_s := self._comes_s(following, now_s)) is not None:
                return Next(at_s, following)
            while following is not None:
                self.left, following = self.left - 1, self._next.get(following)
        elif job.payload in self._on:
            return self._again(self._on[job.payload], 0, now_s)
        return None

    def _again(self, client: Sequence[int], place: int, now_s: float) -> Next | None:
        """What it had sent, from the second on: how long it thinks before its first, nobody knows."""
        number = client[1 + place % (len(client) - 1)]
        at_s = self._comes_s(number, now_s)
        self.left += at_s is not None
        return None if at_s is None else Next(at_s, number, client, place)

    def _comes_s(self, number: int, now_s: float) -> float | None:
        """When the dispatcher knows of it; None = it is too late to send it."""
        sent_s = now_s + float(self._found.think_s[number])
        return sent_s + float(self._reach_s[number]) if sent_s <= self._ends_s else None

    def told(self) -> Told:
        """Of all that came."""
        twin = self._twin
        number = np.array([job.payload for job in self._came], np.int64)
        arrival_s = np.array(list(self._came.values()))
        finish_s = np.array([self._finish_s.get(job, math.nan) for job in self._came])
        reached_s = np.where(twin.failed[number], np.nan, finish_s - arrival_s)
        hit = np.isfinite(reached_s) & (reached_s <= twin.requests.relative_deadline_s[number] + 1e-9)
        return Told(number, arrival_s, finish_s, hit, reached_s + twin.reach_s[number])

    def places(self, told: Told) -> Ints:
        """(n,): for each recorded request the one of ``told`` that stands for it: itself where nobody waits.

        For pairs whose clients wait, those of the pair in their order, each as often as the others, as far as possible.
        """
        place = np.zeros(len(self._pair), np.int64)
        place[told.number] = np.arange(len(told.number))
        for pair in self.waiting:
            mine, sent = np.flatnonzero(self._pair == pair), np.flatnonzero(self._pair[told.number] == pair)
            place[mine] = sent[(2 * np.arange(len(mine)) + 1) * len(sent) // (2 * len(mine))]
        return place
