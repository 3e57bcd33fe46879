"""Do shares hold over several servers when traffic arrives skewed?

Heavy has weight 4 and enters everywhere, light weight 1 and all of its requests enter at the first server; both ask for
1.3 times their fair share. A sporadic tenant sends 2 requests/s per server. The servers are those of the product
(dispatcher, policy, exchange of service) on simulated devices in virtual time: requests of 20 ms in 4 blocks,
spread 0.2. Phases: all is well; the database is away; it is back, and the first server is killed; it is started again.
Proxies send light to the next server while the first is dead. Under ``fair_edf`` requests with deadlines go by deadline
whenever those that are not late yet would fit, so weights hold for tenants without deadlines; ``weighted_fair`` keeps
them for all. ``--only 2`` or ``--only 4``: so many servers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.contract.guard import Guarded
from eunomia.engines.processes import Result
from eunomia.inference.policies import load_policy
from eunomia.metrics.statistics import interval
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.observe.history import Run
from eunomia.serving.observe.use import Use
from eunomia.serving.replicas.fleet import Fleet
from eunomia.serving.replicas.groups import GroupLook, GroupRow, advanced
from eunomia.serving.replicas.others import Published
from eunomia.serving.replicas.rule import ReplicaOptions
from eunomia.serving.tenants.grants import Grant, StaticDirectory
from eunomia.serving.tenants.limits import Limits
from eunomia.workload.tenant import Agreement

WEIGHTS = {"heavy": 4.0, "light": 1.0, "sporadic": 1.0}
CASES = {
    "fair_edf, no deadlines": math.inf,
    "weighted_fair, 200 ms": 0.2,
    "fair_edf, 200 ms": 0.2,
}  # of heavy and light
SPORADIC_S, LAST = 0.1, "fair_edf, 200 ms"
BLOCKS, BLOCK_S, SPREAD, ASKED, QUEUE = 4, 0.005, 0.2, 1.3, 60
SPORADIC_PER_S = 2.0
EVENTS = {15.0: "database away", 25.0: "database back", 28.0: "kill", 36.0: "start"}
PHASES = {
    "all is well": (5.0, 15.0),
    "no database": (15.5, 25.0),
    "one killed": (29.5, 36.0),
    "started, 5 s": (36.0, 41.0),
    "after that": (41.0, 50.0),
}
END_S = 50.0


class Board:
    """The database: two tables in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, Published]] = {}
        self.groups: dict[str, GroupRow] = {}

    def exchange(self, name: str, mine: Published, group: str = "") -> Mapping[str, Published]:
        """As the database does."""
        before = {other: row for other, (theirs, row) in self.rows.items() if theirs == group}
        self.rows[name] = group, mine
        return before

    def look_at_groups(self, group: str, seen_beat: int | None) -> GroupLook:
        """As the database does."""
        found = self.groups.get(group)
        others = {name: row.whole for name, row in self.groups.items() if name != group}
        if (found.whole.beat if found else None) == seen_beat and (group or others):
            members = {name: row for name, (theirs, row) in self.rows.items() if theirs == group}
            found = self.groups[group] = advanced(found, members, f"first of {group}")
        return GroupLook(found.whole.beat if found else None, others)


class Replica:
    """One server of the product on a simulated device."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world, self.dead, self.stopping = name, world, False, False
        costs = CostBook(1)
        self.network = costs.add("net", BLOCKS)
        costs.measured(self.network, 0, [BLOCK_S] * BLOCKS)
        policy = Guarded(load_policy(world.case.partition(",")[0]), load_policy("edf+f"), limit_s=math.inf)
        self.dispatcher = Dispatcher(world.clock, self, costs, 1, policy, DispatchOptions(starve_s=1.0))
        directory = StaticDirectory([Grant(t, weight=w) for t, w in WEIGHTS.items()], {})
        self.pairs = {
            t: self.dispatcher.add_pair(Agreement(t, "net", None, 1.0, w)) for t, w in WEIGHTS.items()
        }
        self.use = Use()
        options, limits = ReplicaOptions(name, group=world.group_of(name)), Limits(world.clock)
        self.fleet = Fleet(options, world.board, self.dispatcher, directory, limits, self.use)
        if world.shared:
            self.dispatcher.elsewhere = self.fleet.charge

    def arrive(self, tenant: str) -> None:
        """One request, unless too many of its tenant wait."""
        now_s, pair = self.world.clock.now_s(), self.pairs[tenant]
        if sum(job.pair == pair for job in self.dispatcher.waiting.jobs()) < QUEUE:
            due_s = SPORADIC_S if tenant == "sporadic" else CASES[self.world.case]
            self.dispatcher.arrive(Job(pair, self.network, now_s, now_s + due_s))

    def run(self, device: int, job: Job, first: int, last: int) -> None:
        """A device starts blocks."""
        self.stopping = False
        self.world.later(
            BLOCK_S * self.world.noise(), partial(self._end, job, first, last, self.world.clock.now_s())
        )

    def stop(self, device: int) -> None:
        """At the next boundary."""
        self.stopping = True

    def dropped(self, job: Job, why: str) -> None:
        """It will not run."""
        self.dispatcher.leave(job, dropped=True)

    def look(self, device: int) -> None:
        """Nobody does between boundaries: arrivals and ends ask the policy often enough."""

    queue = revoke = stop

    def _end(self, job: Job, block: int, last: int, began_s: float) -> None:
        if self.dead:
            return
        if block + 1 < last and not self.stopping:
            self.world.later(BLOCK_S * self.world.noise(), partial(self._end, job, block + 1, last, began_s))
            return
        now_s, tenant = self.world.clock.now_s(), self.dispatcher.agreements[job.pair].tenant
        self.dispatcher.done(0, block + 1)
        self.use.ran(Run(0, tenant, "net", began_s, now_s, False))
        self.world.served.append((now_s, tenant, now_s - began_s))
        if job.block == BLOCKS:
            self.dispatcher.leave(job)
            self.world.answers.append((job.arrival_s, tenant, now_s - job.arrival_s))
        self.dispatcher.decide()


class World:
    """Some replicas, their board, and what happens."""

    def __init__(
        self,
        case: str,
        count: int,
        shared: bool,
        seed: int,
        *,
        groups: int = 1,
        events: Mapping[float, str] = EVENTS,
        end_s: float = END_S,
    ) -> None:
        self.case, self.groups, self.end_s = case, groups, end_s
        self.clock, self.board, self.shared, self.away = ManualClock(), Board(), shared, False
        self.rng = np.random.default_rng(seed)
        self.served: list[tuple[float, str, float]] = []
        self.answers: list[tuple[float, str, float]] = []
        self._events: list[tuple[float, int, object]] = []
        self._count = 0
        self.replicas = [Replica(f"r{n}", self) for n in range(count)]
        fair = count * (1.0 - SPORADIC_PER_S * BLOCKS * BLOCK_S)
        asked_s = {
            "heavy": 0.8 * fair * ASKED,
            "light": 0.2 * fair * ASKED,
            "sporadic": SPORADIC_PER_S * count * 0.02,
        }
        for tenant, work_s in asked_s.items():
            self._next(tenant, BLOCKS * BLOCK_S / work_s)
        for n in range(count):
            self.later(float(self.rng.random()) * 0.25, partial(self._exchange, n))
        for time_s, what in events.items():
            self.later(time_s, partial(self._happens, what))

    def group_of(self, name: str) -> str:
        """Servers in turn."""
        return f"g{int(name[1:]) % self.groups}" if self.groups > 1 else ""

    def noise(self) -> float:
        """How much longer than usual."""
        return float(np.exp(self.rng.normal(-0.5 * SPREAD**2, SPREAD)))

    def later(self, after_s: float, what: object) -> None:
        """Call it then."""
        self._count += 1
        heapq.heappush(self._events, (self.clock.time_s + after_s, self._count, what))

    def play(self) -> None:
        """To the end."""
        while self._events and self._events[0][0] < self.end_s:
            self.clock.time_s, _, what = heapq.heappop(self._events)
            what()  # type: ignore[operator]

    def _next(self, tenant: str, gap_s: float) -> None:
        def arrive() -> None:
            alive = [replica for replica in self.replicas if not replica.dead]
            alive[0 if tenant == "light" else int(self.rng.integers(len(alive)))].arrive(tenant)
            self._next(tenant, gap_s)

        self.later(float(self.rng.exponential(gap_s)), arrive)

    def _exchange(self, number: int) -> None:
        replica = self.replicas[number]
        if self.shared and not (self.away or replica.dead):
            fleet, group = replica.fleet, replica.fleet.options.group
            fleet.learn(self.board.exchange(replica.name, fleet.published(), group))
            fleet.learn_groups(self.board.look_at_groups(group, fleet.group_beat))
        self.later(0.25, partial(self._exchange, number))

    def _happens(self, what: str) -> None:
        self.away = what == "database away"
        if what == "kill":
            self.replicas[0].dead = True
        if what == "start":
            self.replicas[0] = Replica("r0", self)


def played(case: tuple[str, int, bool, int]) -> Result:
    """Device seconds by phase and tenant, and the sporadic tenant's 99th percentile."""
    world = World(*case)
    world.play()
    return {name: _phase(world, *span_s, case[1] - (name == "one killed")) for name, span_s in PHASES.items()}


def _phase(world: World, from_s: float, to_s: float, servers: int) -> Mapping[str, float]:
    found = {
        tenant: sum(s for at_s, who, s in world.served if who == tenant and from_s <= at_s < to_s)
        for tenant in WEIGHTS
    }
    late_s = [s for at_s, who, s in world.answers if who == "sporadic" and from_s <= at_s < to_s]
    work = sum(found.values()) / ((to_s - from_s) * servers)
    return {**found, "work": work, "p99_ms": float(np.percentile(late_s, 99)) * 1e3 if late_s else math.nan}


def measure(options: Options) -> Iterator[Table]:
    """A table for each number of servers."""
    for count in (2, 4):
        if options.wants(str(count)):
            rows = [row for case in CASES for row in _rows(case, count, options)]
            columns = "case; phase; shared; heavy : light|.2f; worst seed|.2f; busy|.1%; sporadic p99, ms|.0f"
            yield table(f"{count} servers", columns, rows)


def _rows(case: str, count: int, options: Options) -> Iterator[list[Cell]]:
    seeds = list(options.seeds_or(20, 2))[: 5 if case == LAST else None]
    found = {}
    for shared in (True, False):
        asked = [(case, count, shared, seed) for seed in seeds]
        found[shared] = kept_all("replicas", played, asked, options.workers, wing="serving")
    for phase in PHASES:
        for shared, runs in found.items():
            yield [case, phase, "yes" if shared else "no", *_figures([run[phase] for run in runs])]


def _figures(runs: list[Mapping[str, float]]) -> list[Cell]:
    ratios = [run["heavy"] / run["light"] for run in runs]
    worst = max(ratios, key=lambda ratio: abs(ratio / 4.0 - 1.0))
    return [
        interval(ratios),
        worst,
        interval([run["work"] for run in runs]),
        interval([run["p99_ms"] for run in runs]),
    ]
