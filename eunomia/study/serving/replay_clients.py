"""Clients that wait for their answers, in a replay: when the next request comes, and which.

Nobody sends anything after the recording's last request. A client who is faster than it was goes on with what it sent
before: the others find as many rivals as they had. What a slower one does not come to send counts as what others of its
pair were. One that waits to the end sends little, and says little of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.serving.dispatch.jobs import Job
from eunomia.study.serving.twin import Twin
from eunomia.study.serving.twin_clients import clients_of


class Next(NamedTuple):
    """Request ``number`` comes at this time; ``place``: among those that its client sends anew, below 0 = of none."""

    at_s: float
    number: int
    client: Sequence[int] = ()
    place: int = -1


class Clients:
    """Of one replay. ``left``: recorded requests without an answer that are still to have one."""

    def __init__(self, twin: Twin) -> None:
        self._found, self._reach_s, self.left = clients_of(twin), twin.reach_s, len(twin.requests)
        self._pair = twin.requests.pair
        sent_s = twin.requests.arrival_s - twin.reach_s
        self._ends_s, answered_s = float(sent_s.max()), sent_s + twin.gone_s
        everybody = self._found.clients()
        self._next = {
            before: after for mine in everybody for before, after in zip(mine, mine[1:], strict=False)
        }
        self._on = {mine[-1]: mine for mine in everybody if self._found.goes_on(mine, sent_s, answered_s)}
        self._anew: dict[Job, Next] = {}
        self._answered: set[Job] = set()
        self.alone: list[int] = np.flatnonzero(self._found.after < 0).tolist()
        self.waiting = self._found.waiting(twin.requests.pair)

    def counts(self, job: Job) -> bool:
        """Whether it is a recorded request, and not one that its client sends anew."""
        return job not in self._anew

    def came(self, job: Job, next_: Next) -> None:
        """This is what was to come."""
        if next_.place >= 0:
            self._anew[job] = next_

    def after(self, job: Job, now_s: float) -> Next | None:
        """What its client sends now that this request has its answer, of whatever kind."""
        if job in self._answered:  # its client has left, and now its device has let it go
            return None
        self._answered.add(job)
        if (anew := self._anew.get(job)) is not None:
            return self._again(anew.client, anew.place + 1, now_s)
        self.left -= 1
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
        return None if at_s is None else Next(at_s, number, client, place)

    def _comes_s(self, number: int, now_s: float) -> float | None:
        """When the dispatcher knows of it; None = it is too late to send it."""
        sent_s = now_s + float(self._found.think_s[number])
        return sent_s + float(self._reach_s[number]) if sent_s <= self._ends_s else None

    def fill(self, arrival_s: Floats, finish_s: Floats) -> npt.NDArray[np.bool_]:
        """Both (n,), nan where it was not sent: there, what others of its pair were; returns which were sent."""
        came = ~np.isnan(arrival_s)
        for pair in np.unique(self._pair[~came]):
            sent, missing = (np.flatnonzero((self._pair == pair) & which) for which in (came, ~came))
            like = np.resize(sent, len(missing)) if len(sent) else missing
            arrival_s[missing], finish_s[missing] = arrival_s[like], finish_s[like]
        return came
