"""One level of others, servers of the group or other groups: what they did, and how much of it is charged here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from eunomia.contract.traits import CHARGE_ELSEWHERE
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.replicas.others import ROWS, SERVED, Others, Published
from eunomia.serving.replicas.rule import Accounts, ReplicaOptions


class Level:
    """``name``, ``boot``: one's own at this level; ``interval_s``: between two looks."""

    def __init__(self, name: str, boot: str, interval_s: float, hold_s: float) -> None:
        self.others, self.count = Others(name, boot), 1
        self.service, self.rows = Accounts(interval_s, hold_s), Accounts(interval_s, hold_s)
        self._numbers, self._weights = np.zeros(0, np.int64), np.ones(0)

    def learn(
        self,
        rows: Mapping[str, Published],
        now_s: float,
        number: Callable[[str], int],
        weight: Callable[[str], float],
    ) -> list[str]:
        """News of all; returns the names of those that are forgotten. ``number``, ``weight``: of a tenant here."""
        forgotten = self.others.read(rows)
        gone, self.count = self.others.gone(), 1 + len(self.others.alive())
        for accounts, what in ((self.service, SERVED), (self.rows, ROWS)):
            accounts.forget(forgotten)
            accounts.learned(self.others.news(what), gone, self.count, now_s)
        self._numbers = np.array([number(name) for name in self.service.names], np.int64)
        self._weights = np.array([weight(name) for name in self.service.names])
        return forgotten

    def charge(self, dispatcher: Dispatcher, options: ReplicaOptions, parties: int, now_s: float) -> None:
        """Move the tags of the policy by what was served there meanwhile. ``parties``: of whom one hears in all.

        None gets further ahead than ``memory_s`` and the last run, of each party, and what its begun requests lack:
        for the least tag stands still during a run, and a tag holds all the work of requests that have begun.
        """
        charge, owed_s = CHARGE_ELSEWHERE.of(dispatcher.policy), self.service.take(now_s)
        if charge is not None and owed_s.any():
            ahead_s = (options.memory_s + dispatcher.last_run_s(now_s)) * parties
            most = (ahead_s + dispatcher.begun_s()[self._numbers]) / self._weights
            charge(dispatcher.memory, self._numbers, owed_s / self._weights, most)
