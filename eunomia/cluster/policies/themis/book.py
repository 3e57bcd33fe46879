"""What Themis remembers between auctions: when apps came, how crowded it was since, who holds which lease."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.servers import holdings_of
from eunomia.cluster.policies.themis.agent import Finish, Ideal, ideal_time_s
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.core.arrays import Floats, Ints

EARLY_S = 1e-6  # a lease that ends within a microsecond has ended
EXCESS = 1e-6  # relative: steps that a job may have beyond what was declared, for rounding


@dataclass
class Book:
    """Arrivals of apps, their time alone, and the integral of the number of active apps.

    What an app declares binds it. When it came is the arbiter's own knowledge. Work is declared at the first sight of
    a job, and T_id rests on it; an app one of whose jobs turns out to need more is a newcomer from then on: its age
    begins anew, and T_id is that of the work then left.
    """

    start_s: dict[int, float] = field(default_factory=dict)
    alone_s: dict[int, float] = field(default_factory=dict)  # time of the app with all GPUs it can use
    demand: dict[int, int] = field(default_factory=dict)
    declared: dict[int, float] = field(default_factory=dict)  # job number -> steps in all
    _crowd_at_start: dict[int, float] = field(default_factory=dict)
    _crowd: float = 0.0  # integral of active apps over time
    _last_s: float = 0.0
    _active: int = 0

    def see(self, view: ClusterView) -> None:
        """Bring the integral up to now; enter apps that are new. An app's trials arrive together."""
        self._crowd += self._active * (view.now_s - self._last_s)
        self._last_s = view.now_s
        apps, first = np.unique(view.app, return_index=True)
        self._active = len(apps)
        full, left = view.steps_done + full_left(view), full_left(view)
        said = np.array([self.declared.get(key, math.inf) for key in view.key.tolist()])
        exceeds = set(view.app[full > said * (1.0 + EXCESS)].tolist())
        for app, row in zip(apps.tolist(), first.tolist(), strict=True):
            new = app not in self.start_s
            if new or app in exceeds:
                jobs = np.flatnonzero(view.app == app)
                self.start_s[app] = float(view.arrival_s[row]) if new else view.now_s
                self._crowd_at_start[app] = self._crowd
                work = full if new else left
                self.alone_s[app] = float((work[jobs] / mean_speed(view, jobs)).max())
                self.demand[app] = int(view.scale[jobs].sum())
                self.declared |= dict(zip(view.key[jobs].tolist(), full[jobs].tolist(), strict=True))

    def contention(self, app: int) -> float:
        """N: mean number of active apps since the app came, itself included."""
        life_s = self._last_s - self.start_s[app]
        if life_s <= 0.0:
            return float(max(self._active, 1))
        return max(1.0, (self._crowd - self._crowd_at_start[app]) / life_s)

    def ideal_s(self, view: ClusterView, app: int, ideal: Ideal) -> float:
        """T_id of an app as of now."""
        gpus = int(view.cluster.counts.sum())
        return ideal_time_s(self.alone_s[app], self.demand[app], gpus, self.contention(app), ideal)

    def age_s(self, view: ClusterView, app: int) -> float:
        """Time since the app came, or began anew."""
        return view.now_s - self.start_s[app]

    def rho(
        self, view: ClusterView, rows: list[Ints], column: Ints, ideal_s: Floats, finish: Finish
    ) -> tuple[Floats, Floats]:
        """Two (apps,) arrays: rho with the GPUs it holds (inf with none), and rho if all its jobs ran at once.

        ``rows``: the jobs of each app; ``ideal_s`` (apps,) T_id; ``column`` (M,): type that a job holds, -1 = it
        waits. Both as the app says: trait ``claims`` multiplies what is
        true (1 = honest, unsaid = honest).
        """
        claims = np.nan_to_num(view.traits.get("claims", np.ones(len(view))), nan=1.0)
        fastest = own_speed(view, np.full(len(view), -1))
        fastest_s, left_s = view.steps_left / fastest, view.steps_left / own_speed(view, column)
        now, hope = np.empty(len(rows)), np.empty(len(rows))
        held, searches = column >= 0, "full_left" in view.traits
        for a, jobs in enumerate(rows):
            age_s = self.age_s(view, int(view.app[jobs[0]]))
            if len(jobs) == 1 and not searches:
                job = int(jobs[0])
                says = claims[job] / ideal_s[a]
                now_s = left_s[job]
                if finish == "all":  # as below, to the last bit
                    now_s = max(now_s, now_s * view.scale[job] / view.scale[job])
                now[a] = (age_s + now_s) * says if held[job] else np.inf
                hope[a] = (age_s + fastest_s[job]) * says
                continue
            runs = jobs[held[jobs]]
            pick = np.max if finish == "all" else np.min
            least_s = least_time_s(view, jobs, fastest)
            hoped_s = max(float(pick(fastest_s[jobs])), least_s)
            if not len(runs):
                now_s = np.inf
            elif finish == "all":
                shared_s = float((left_s[jobs] * view.scale[jobs]).sum()) / float(view.scale[runs].sum())
                now_s = max(float(left_s[jobs].max()), least_s, shared_s)
            else:
                now_s = float(left_s[runs].min())
            says = claims[jobs].max() / ideal_s[a]
            now[a], hope[a] = (age_s + now_s) * says, (age_s + hoped_s) * says
        return now, hope


def own_speed(view: ClusterView, column: Ints) -> Floats:
    """(M,) steps/s of each job on the type ``column`` (M,) that it holds, or, where that is -1, on its fastest."""
    fastest = np.where(view.runnable, view.throughput, 0.0).max(axis=1, initial=0.0)
    held = view.throughput[np.arange(len(view)), np.maximum(column, 0)]
    return np.asarray(np.maximum(np.where(column >= 0, held, fastest), 1e-300))


def full_left(view: ClusterView) -> Floats:
    """(M,) steps that budgets leave: trait ``full_left`` where a search may end trials earlier, else the steps left."""
    said = view.traits.get("full_left", np.full(len(view), np.nan))
    return np.where(np.isnan(said), view.steps_left, said)


def least_time_s(view: ClusterView, jobs: Ints, speed: Floats) -> float:
    """Time that an app of ``jobs`` needs whatever its search decides: some trial runs to the end of its budget.

    ``speed`` (M,) steps/s; 0 where nobody says what a search may end.
    """
    if "full_left" not in view.traits:
        return 0.0
    return float((full_left(view)[jobs] / np.maximum(speed[jobs], 1e-300)).min())


def mean_speed(view: ClusterView, jobs: Ints) -> Floats:
    """(jobs,) steps/s averaged over all devices on which a job can run."""
    can = view.runnable[jobs]
    weight = np.where(can, view.cluster.counts[None, :], 0)
    total = np.maximum(weight.sum(axis=1), 1)
    return np.asarray((weight * np.where(can, view.throughput[jobs], 0.0)).sum(axis=1) / total)


@dataclass
class Leases:
    """Grants by job number: until when, and how many devices of which servers."""

    until_s: dict[int, float] = field(default_factory=dict)
    servers: dict[int, Ints] = field(default_factory=dict)  # job number -> (servers,) devices

    def expire(self, view: ClusterView) -> tuple[Ints, Ints]:
        """Drop what has ended; (servers,) devices now free, and (jobs, servers) what each had before.

        A lease ends when its time is over, its job is gone, or a server it lies on works no longer in full.
        """
        row = {key: m for m, key in enumerate(view.key.tolist())}
        before = np.zeros((len(view), len(view.up)), np.int64)
        for key in list(self.until_s):
            if key in row:
                before[row[key]] = self.servers[key]
            if key not in row or self.until_s[key] <= view.now_s + EARLY_S:
                del self.until_s[key], self.servers[key]
        used = self._used(view)
        for key in list(self.until_s):
            if (used > view.up)[self.servers[key] > 0].any():
                del self.until_s[key], self.servers[key]
        return np.asarray(view.up - self._used(view), np.int64), before

    def _used(self, view: ClusterView) -> Ints:
        used = np.zeros(len(view.up), np.int64)
        for devices in self.servers.values():
            used += devices
        return used

    def holds(self, view: ClusterView) -> npt.NDArray[np.bool_]:
        """(jobs,) whether a job has a lease."""
        return np.array([key in self.until_s for key in view.key.tolist()], bool)

    def column(self, view: ClusterView) -> Ints:
        """(jobs,) type of the devices that each job has on lease; -1 = none."""
        found = np.full(len(view), -1, np.int64)
        for m, key in enumerate(view.key.tolist()):
            if key in self.servers:
                found[m] = view.cluster.server_type[int(np.argmax(self.servers[key]))]
        return found

    def add(self, view: ClusterView, grants: Ints, until_s: Floats) -> None:
        """Enter grants (jobs, servers), each until its own ``until_s`` (jobs,)."""
        for m in np.flatnonzero(grants.any(axis=1)).tolist():
            self.until_s[int(view.key[m])] = float(until_s[m])
            self.servers[int(view.key[m])] = grants[m].copy()

    def answer(self, view: ClusterView) -> Allocation:
        """All leases as an outright allocation."""
        table = np.zeros((len(view), len(view.up)), np.int64)
        for m, key in enumerate(view.key.tolist()):
            if key in self.servers:
                table[m] = self.servers[key]
        devices = np.zeros((len(view), len(view.cluster.types)), np.int64)
        np.add.at(devices.T, view.cluster.server_type, table.T)
        return Allocation(devices=devices, servers=holdings_of(table))
