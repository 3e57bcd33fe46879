"""Credit between many servers, in levels: work as a fluid, decisions and news at ticks.

Each server gives its devices' time to the tenants that wait there, least start tag first (a tenant's tag grows by what
it got over its weight). Tags also move by what other servers did for the tenant, by the product's rule
(:mod:`eunomia.serving.replicas.rule`): from one look to the next a part of what is outstanding, over ``members *
interval``. Servers of one group look at each other, groups at totals of groups. No work moves between servers; what
waits longer than ``patience_s`` is dropped.

Compiled; :mod:`tests.benchmarks.test_growing` has the slow twin, which calls the product's own rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.compiled import compiled

ALONE, AT_ONCE, BY_RULE = 0, 1, 2
jitted = compiled(keep=False)


@dataclass(frozen=True)
class Fleet:
    """``group``: servers of one; ``near_s``, ``far_s``: between looks inside a group and between groups."""

    servers: int
    group: int
    near_s: float
    far_s: float
    how: int = BY_RULE
    devices: float = 100.0
    memory_s: float = 0.25  # for each party that is heard of: no tenant gets further ahead by charges
    patience_s: float = 1.0
    tick_s: float = 0.05

    def __post_init__(self) -> None:
        if self.group < 1 or self.servers % self.group:
            raise ValueError(
                f"{self.servers} servers do not divide into groups of {self.group}; use a divisor"
            )
        if min(self.near_s, self.far_s) < self.tick_s:
            raise ValueError(
                f"looks every {min(self.near_s, self.far_s)} s; at least a tick, {self.tick_s} s"
            )

    @property
    def groups(self) -> int:
        """How many."""
        return self.servers // self.group

    @property
    def most(self) -> float:
        """Device-seconds by which charges put a tenant ahead of those who wait here."""
        return self.memory_s * (self.group + self.groups - 1) * self.devices

    def rows_per_s(self) -> float:
        """Rows of totals that all servers read in a second, one for each other server or group."""
        near = self.servers * (self.group - 1) / self.near_s
        return near + self.servers * (self.groups - 1) / self.far_s


def play(fleet: Fleet, demand: Floats, epoch_s: float, weight: Floats, window_s: float) -> Floats:
    """Device-seconds that tenants got (windows, tenants). ``demand``: devices wanted (epochs, servers, tenants)."""
    ticks = [max(round(each / fleet.tick_s), 1) for each in (fleet.near_s, fleet.far_s, epoch_s, window_s)]
    shape = (fleet.servers, fleet.group, fleet.how)
    size = (fleet.devices, fleet.most, fleet.patience_s, fleet.tick_s)
    return np.asarray(_play(shape, (ticks[0], ticks[1], ticks[2], ticks[3]), size, demand, weight))


@jitted
def fill(tag, queue, weight, work):  # type: ignore[no-untyped-def]
    """Serve least tag first; changes ``tag`` and ``queue``, gives (what each got, the level that was reached)."""
    got = np.zeros(len(tag))
    level = -np.inf
    for _ in range(2 * len(tag)):
        if work <= 1e-12:
            break
        low, step = np.inf, np.inf
        for t in range(len(tag)):
            if queue[t] > 1e-12:
                low = min(low, tag[t])
        if low == np.inf:
            break
        total = 0.0
        for t in range(len(tag)):
            if queue[t] > 1e-12:
                if tag[t] <= low + 1e-12:
                    total += weight[t]
                    step = min(step, queue[t] / weight[t])
                else:
                    step = min(step, tag[t] - low)
        step = min(step, work / total)
        for t in range(len(tag)):
            if queue[t] > 1e-12 and tag[t] <= low + 1e-12:
                got[t] += step * weight[t]
                queue[t] -= step * weight[t]
                tag[t] = low + step
        work -= step * total
        level = low + step
    return got, level


@jitted
def charge(tag, owed, virtual, most):  # type: ignore[no-untyped-def]
    """A tag moves by what others did, not further than ``most`` ahead of those who wait here."""
    return max(tag, min(tag + owed, virtual + most))


@jitted
def _look(total, charged, rate, seen, row, lag_s, since_s):  # type: ignore[no-untyped-def]
    """News of ``row``: what the last rates charged meanwhile is settled, what is outstanding gives new rates."""
    for t in range(len(total)):
        if seen[row]:
            charged[row, t] += rate[row, t] * since_s
            rate[row, t] = (total[t] - charged[row, t]) / lag_s
        else:
            charged[row, t] = total[t]
    seen[row] = True


@compiled
def _play(shape, ticks, size, demand, weight):  # type: ignore[no-untyped-def]
    servers, group, how = shape
    near, far, epoch, window = ticks
    devices, most, patience_s, tick_s = size
    tenants, groups = len(weight), servers // group
    steps = demand.shape[0] * epoch
    tag, queue = np.zeros((servers, tenants)), np.zeros((servers, tenants))
    virtual, done = np.zeros(servers), np.zeros((servers, tenants))
    told, told_far = np.zeros((servers, tenants)), np.zeros((groups, tenants))
    charged, rate = np.zeros((servers, group, tenants)), np.zeros((servers, group, tenants))
    charged_far, rate_far = np.zeros((servers, groups, tenants)), np.zeros((servers, groups, tenants))
    seen, seen_far = np.zeros((servers, group), np.bool_), np.zeros((servers, groups), np.bool_)
    given = np.zeros((-(-steps // window), tenants))
    speed, got = np.zeros((servers, tenants)), np.zeros((servers, tenants))
    for step in range(steps):
        for r in range(servers):
            for t in range(tenants):
                wanted = demand[step // epoch, r, t]
                queue[r, t] = min(queue[r, t] + wanted * tick_s, wanted * patience_s)
                tag[r, t] = max(tag[r, t], virtual[r]) if queue[r, t] > 1e-12 else tag[r, t]
            mine, level = fill(tag[r], queue[r], weight, devices * tick_s)
            virtual[r] = max(virtual[r], level)
            got[r] = mine
            done[r] += mine
            given[step // window] += mine
        if how == ALONE:
            continue
        if how == AT_ONCE:
            every = got.sum(axis=0)
            for r in range(servers):
                for t in range(tenants):
                    owed = (every[t] - got[r, t]) / weight[t]
                    tag[r, t] = charge(tag[r, t], owed, virtual[r], most / weight[t])
            continue
        for r in range(servers):
            g = r // group
            if (step + r) % near == 0:
                told[r] = done[r]
                for o in range(group):
                    if g * group + o != r:
                        lag_s = group * near * tick_s
                        _look(told[g * group + o], charged[r], rate[r], seen[r], o, lag_s, near * tick_s)
            if (step + g) % far == 0 and groups > 1:
                if r == g * group:
                    told_far[g] = told[r : r + group].sum(axis=0)
                for o in range(groups):
                    if o != g:
                        lag_s = groups * far * tick_s
                        _look(told_far[o], charged_far[r], rate_far[r], seen_far[r], o, lag_s, far * tick_s)
            if (step + r) % near == 0 or (step + g) % far == 0:
                speed[r] = rate[r].sum(axis=0) + rate_far[r].sum(axis=0)
            for t in range(tenants):
                owed = speed[r, t] * tick_s / weight[t]
                tag[r, t] = charge(tag[r, t], owed, virtual[r], most / weight[t])
    return given
