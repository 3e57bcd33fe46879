"""This server among its replicas: what it publishes, and what it charges for the others' work.

No request waits for any of it. A thread asks the database every ``exchange_s``; between two pieces of news the
dispatcher moves the tags of its policy, and the limits their buckets, at the rates of :mod:`.rule`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Protocol, runtime_checkable

import numpy as np

from eunomia.contract.traits import CHARGE_ELSEWHERE
from eunomia.core.data import Json
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.observe.use import Use
from eunomia.serving.replicas.others import (
    HITS,
    MISSES,
    NOTHING,
    ROWS,
    SERVED,
    Board,
    Others,
    Published,
    Totals,
)
from eunomia.serving.replicas.rule import Accounts, ReplicaOptions
from eunomia.serving.tenants.grants import Directory
from eunomia.serving.tenants.limits import Limits

log = logging.getLogger("eunomia.serving")
STEP_S = 0.002  # tags are moved no more often


@runtime_checkable
class HasBoard(Protocol):
    """A directory of tenants that stand in a database."""

    def board(self) -> Board:
        """Where the servers on it meet."""


class Fleet:
    """``use``: what this server has done so far. ``board``: where replicas meet."""

    def __init__(
        self,
        options: ReplicaOptions,
        board: Board,
        dispatcher: Dispatcher,
        directory: Directory,
        limits: Limits,
        use: Use,
    ) -> None:
        self.options, self._board, self._dispatcher = options, board, dispatcher
        self._directory, self._limits, self._use = directory, limits, use
        self._boot, self._beat, self.address = secrets.token_hex(8), 0, ""
        self.others, self._count = Others(options.name, self._boot), 1
        self._service = Accounts(options.exchange_s, options.hold_s)
        self._rows = Accounts(options.exchange_s, options.hold_s)
        self._numbers, self._weights = np.zeros(0, np.int64), np.ones(0)
        self._began_s = self._charged_s = self.news_s = dispatcher.clock.now_s()
        self.lost = False

    def published(self) -> Published:
        """This replica's row now."""
        at_s = self._dispatcher.clock.now_s() - self._began_s
        return Published(self._boot, self._beat, at_s, self.address, self.totals())

    def totals(self) -> Totals:
        """What this server has done for each tenant since it started."""
        rows = self._limits.admitted
        return {
            tenant: (use.served_s, rows.get(tenant, 0.0), float(use.hits), float(use.misses))
            for tenant, use in self._use.tenants.items()
        }

    def learn(self, rows: dict[str, Published]) -> None:
        """News of all replicas, in the event loop."""
        now_s = self._dispatcher.clock.now_s()
        self._charge(now_s)
        for name in (forgotten := self.others.read(rows)):
            log.warning("replica '%s' has published nothing for long: it is forgotten", name)
        self._service.forget(forgotten)
        self._rows.forget(forgotten)
        gone, self._count = self.others.gone(), 1 + len(self.others.alive())
        self._service.learned(self.others.news(SERVED), gone, self._count, now_s)
        self._rows.learned(self.others.news(ROWS), gone, self._count, now_s)
        grants = [self._directory.by_name(name) for name in self._service.names]
        self._numbers = np.array([self._dispatcher.know(name) for name in self._service.names], np.int64)
        self._weights = np.array([grant.weight if grant is not None else 1.0 for grant in grants])
        self._limits.elsewhere = self._rows.rates(now_s)
        self._beat, self.news_s = self._beat + 1, now_s

    def charge(self) -> None:
        """Before each decision: move the tags of the policy by what was served elsewhere meanwhile."""
        now_s = self._dispatcher.clock.now_s()
        if now_s - self._charged_s >= STEP_S:
            self._charge(now_s)

    def _charge(self, now_s: float) -> None:
        self._charged_s = now_s
        charge, owed_s = CHARGE_ELSEWHERE.of(self._dispatcher.policy), self._service.take(now_s)
        if charge is not None and owed_s.any():
            most = self.options.memory_s * self._count / self._weights
            charge(self._dispatcher.memory, self._numbers, owed_s / self._weights, most)

    async def keep(self) -> None:
        """Exchange for ever. While the database is away the last known rates stay in force, for ``hold_s``."""
        while True:
            await asyncio.sleep(self.options.exchange_s)
            try:
                rows = dict(
                    await asyncio.to_thread(self._board.exchange, self.options.name, self.published())
                )
                self._came(rows)
                self.learn(rows)
            except Exception as error:  # whatever it is, the next time may be better
                self._failed(error)

    def _came(self, rows: dict[str, Published]) -> None:
        if self.others.namesake(rows):
            log.error(
                "another server is called '%s', too: give each its own replicas.name", self.options.name
            )
        if self.lost:
            log.warning("the other replicas can be read again")
        self.lost = False

    def _failed(self, error: Exception) -> None:
        now_s = self._dispatcher.clock.now_s()
        self._limits.elsewhere = self._rows.rates(now_s)
        if not self.lost:
            text = "the other replicas cannot be read; their last rates stay in force for %g s: %s"
            log.warning(text, self.options.hold_s, error)
        self.lost = True

    def standing(self) -> tuple[int, float]:
        """How many replicas there are, this one included, and seconds since the last news."""
        now_s = self._dispatcher.clock.now_s()
        return self._count, now_s - self.news_s

    def facts(self) -> Json:
        """For administrators: who is there, how old the news is, and what each tenant got of all replicas."""
        now_s = self._dispatcher.clock.now_s()
        here, done = self.totals(), {n: self.others.done(n) for n in (SERVED, ROWS, HITS, MISSES)}
        alive = self.others.alive()
        tenants = sorted({*here, *(name for each in done.values() for name in each)})
        totals = {
            t: [here.get(t, NOTHING)[n] + done[n].get(t, 0.0) for n in (SERVED, ROWS, HITS, MISSES)]
            for t in tenants
        }
        return {
            "name": self.options.name,
            "news_age_s": now_s - self.news_s,
            "database": "away" if self.lost else "answers",
            "policy_charges": CHARGE_ELSEWHERE.of(self._dispatcher.policy) is not None,
            "replicas": [
                {"name": name, "address": row.address, "alive": name in alive}
                for name, row in sorted(self.others.rows().items())
            ],
            "tenants": {t: _fact(totals[t], here.get(t, NOTHING)[SERVED]) for t in tenants},
        }


def _fact(total: list[float], here_s: float) -> Json:
    judged = total[HITS] + total[MISSES]
    return {
        "served_s": total[SERVED],
        "served_here_s": here_s,
        "rows": total[ROWS],
        "hit_rate": total[HITS] / judged if judged else None,
    }
