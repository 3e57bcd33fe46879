"""This server among its replicas: what it publishes, and what it charges for the others' work.

No request waits for any of it. A thread asks the database every ``exchange_s``; between two pieces of news the
dispatcher moves the tags of its policy, and the limits their buckets, at the rates of :mod:`.rule`. Servers of one
group look at each other, and every ``between_s`` at totals of the other groups (:mod:`.groups`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from eunomia.contract.traits import CHARGE_ELSEWHERE
from eunomia.core.data import Json
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.observe.use import Use
from eunomia.serving.replicas.groups import GroupBoard, GroupLook
from eunomia.serving.replicas.level import Level
from eunomia.serving.replicas.others import HITS, MISSES, NOTHING, ROWS, SERVED, Published, Totals
from eunomia.serving.replicas.rule import ReplicaOptions
from eunomia.serving.tenants.grants import Directory
from eunomia.serving.tenants.limits import Limits

log = logging.getLogger("eunomia.serving")
STEP_S = 0.002  # tags are moved no more often
SILENT_S = 5.0  # a database that has not answered for so long is away
Answer = TypeVar("Answer")


@runtime_checkable
class HasBoard(Protocol):
    """A directory of tenants that stand in a database."""

    def board(self) -> GroupBoard:
        """Where the servers on it meet."""


class Fleet:
    """``use``: what this server has done so far. ``board``: where replicas meet."""

    def __init__(
        self,
        options: ReplicaOptions,
        board: GroupBoard,
        dispatcher: Dispatcher,
        directory: Directory,
        limits: Limits,
        use: Use,
    ) -> None:
        self.options, self._board, self._dispatcher = options, board, dispatcher
        self._directory, self._limits, self._use = directory, limits, use
        self._boot, self._beat, self.address = secrets.token_hex(8), 0, ""
        between_s = max(options.between_s, options.exchange_s)
        self.near = Level(options.name, self._boot, options.exchange_s, options.hold_s)
        self.far = Level(options.group, "", between_s, options.hold_s)
        self.others, self._looks_between = self.near.others, max(round(between_s / options.exchange_s), 1)
        self.group_beat: int | None = None
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

    def learn(self, rows: Mapping[str, Published]) -> None:
        """News of the servers of the group, in the event loop."""
        self._learn(self.near, rows, "replica")
        self._beat, self.news_s = self._beat + 1, self._dispatcher.clock.now_s()

    def learn_groups(self, look: GroupLook) -> None:
        """News of the other groups, in the event loop."""
        self.group_beat = look.beat
        self._learn(self.far, look.others, "group")

    def _learn(self, level: Level, rows: Mapping[str, Published], what: str) -> None:
        now_s = self._dispatcher.clock.now_s()
        self._charge(now_s)
        for name in level.learn(rows, now_s, self._dispatcher.know, self._weight):
            log.warning("%s '%s' has published nothing for long: it is forgotten", what, name)
        self._limits.elsewhere = self._rates(now_s)

    def _weight(self, tenant: str) -> float:
        grant = self._directory.by_name(tenant)
        return grant.weight if grant is not None else 1.0

    def _rates(self, now_s: float) -> dict[str, float]:
        """Rows/s that others admit, of both levels, by tenant."""
        rates = self.near.rows.rates(now_s)
        for tenant, rate in self.far.rows.rates(now_s).items():
            rates[tenant] = rates.get(tenant, 0.0) + rate
        return rates

    def charge(self) -> None:
        """Before each decision: move the tags of the policy by what was served elsewhere meanwhile."""
        now_s = self._dispatcher.clock.now_s()
        if now_s - self._charged_s >= STEP_S:
            self._charge(now_s)

    def _charge(self, now_s: float) -> None:
        self._charged_s = now_s
        parties = self.near.count + self.far.count - 1
        for level in (self.near, self.far):
            level.charge(self._dispatcher, self.options, parties, now_s)

    async def keep(self) -> None:
        """Exchange for ever. While the database is away the last known rates stay in force, for ``hold_s``."""
        name, group, looks = self.options.name, self.options.group, 0
        while True:
            await asyncio.sleep(self.options.exchange_s)
            try:
                rows = await self._asked(self._board.exchange, name, self.published(), group)
                self._named(rows)
                self.learn(rows)
                if looks % self._looks_between == 0:
                    self.learn_groups(await self._asked(self._board.look_at_groups, group, self.group_beat))
                    self._came()
                looks += 1
            except Exception as error:  # whatever it is, the next time may be better
                self._failed(error)
                looks = 0

    async def _asked(self, what: Callable[..., Answer], *about: object) -> Answer:
        """An answer of the database; one that stands still is away, too."""
        asked = asyncio.ensure_future(asyncio.to_thread(what, *about))
        try:
            while not (await asyncio.wait({asked}, timeout=SILENT_S))[0]:
                self._failed(TimeoutError(f"no answer in {SILENT_S:g} s"))
            return asked.result()
        finally:
            asked.cancel()

    def _named(self, rows: Mapping[str, Published]) -> None:
        if self.others.namesake(rows):
            log.error(
                "another server is called '%s', too: give each its own replicas.name", self.options.name
            )

    def _came(self) -> None:
        """Both levels answer, the groups' too: else one that is refused would come and go at every look."""
        if self.lost:
            log.warning("the other replicas can be read again")
        self.lost = False

    def _failed(self, error: Exception) -> None:
        now_s = self._dispatcher.clock.now_s()
        self._limits.elsewhere = self._rates(now_s)
        if not self.lost:
            text = "the other replicas cannot be read; their last rates stay in force for %g s: %s"
            log.warning(text, self.options.hold_s, error)
        self.lost = True

    def standing(self) -> tuple[int, float]:
        """How many replicas there are, this one and a group as one included, and seconds since the last news."""
        now_s = self._dispatcher.clock.now_s()
        return self.near.count + self.far.count - 1, now_s - self.news_s

    def facts(self) -> Json:
        """For administrators: who is there, how old the news is, and what each tenant got of all replicas."""
        now_s = self._dispatcher.clock.now_s()
        here = self.totals()
        done = {
            n: [level.others.done(n) for level in (self.near, self.far)] for n in (SERVED, ROWS, HITS, MISSES)
        }
        tenants = sorted({*here, *(name for both in done.values() for each in both for name in each)})
        totals = {
            t: [here.get(t, NOTHING)[n] + sum(each.get(t, 0.0) for each in both) for n, both in done.items()]
            for t in tenants
        }
        return {
            "name": self.options.name,
            "news_age_s": now_s - self.news_s,
            "database": "away" if self.lost else "answers",
            "policy_charges": CHARGE_ELSEWHERE.of(self._dispatcher.policy) is not None,
            "group": self.options.group,
            "groups": [
                {"name": name, "alive": name in self.far.others.alive()}
                for name in sorted(self.far.others.rows())
            ],
            "replicas": [
                {"name": name, "address": row.address, "alive": name in self.others.alive()}
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
