"""What happens: events, placements, rewards and the three metrics.

Events are arrivals, completions, joins, leaves and deadlines of waiting tasks. At each one pairs (task, device) are
placed until the policy defers or nothing legal is left; a device works off its queue in the order of placing. With
goals w the reward of placing task i on device d, whose run takes p, is

    w_r weight_i likes[tenant, d] met / total weight + (w_p device_likes[d, tenant] + w_u) p / offered device-seconds

minus w_c dt / (mean run time * tasks) for every task that waits during dt. Provider satisfaction as reported is a
ratio; the reward takes device-seconds offered as its denominator, so that gains add up (ours).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError, PolicyError
from eunomia.inference.environments.edge_cloud.case import Case

EPS = 1e-9


@dataclass(frozen=True)
class Goals:
    """Weights of requester and provider satisfaction, utilisation, and waiting."""

    requester: float = 1.0
    provider: float = 0.5
    utilisation: float = 0.5
    waiting: float = 0.1

    def __post_init__(self) -> None:
        if min(self.requester, self.provider, self.utilisation, self.waiting) < 0.0:
            raise ConfigError(f"{self}: weights must not be negative")


@dataclass(frozen=True)
class Metrics:
    """Of a finished trace. ``met``: hit rate of the tasks; ``reward``: the sum."""

    requester: float
    provider: float
    utilisation: float
    met: float
    worst_tenant: float  # least share of tasks in time of any tenant
    reward: float


class World:
    """A trace in progress. ``period_s`` > 0: asked at its multiples instead of at events."""

    def __init__(self, case: Case, goals: Goals | None = None, period_s: float = 0.0) -> None:
        self.case, self.goals, self.period_s = case, goals or Goals(), period_s
        n = len(case.arrival_s)
        self.now_s, self.reward = 0.0, 0.0
        self.free_s = case.join_s.copy()  # (D,) when a device has done all that it was given
        self.device, self.start_s = np.full(n, -1, np.int64), np.full(n, np.nan)
        self._arrived, self._gone = 0, np.zeros(n, np.bool_)
        self._fixed = np.unique(np.concatenate([case.arrival_s, case.join_s, case.leave_s, case.deadline_s]))
        self._ends: list[float] = []
        self.waiting: list[int] = []
        self._total = max(float(case.weight.sum()), EPS)
        self._unit_s = case.mean_run_s * max(n, 1)
        self.advance()

    def mask(self) -> Flags:
        """(waiting, D) legal pairs: no rule forbids them, the device is there, and the task ends within its window."""
        c, rows = self.case, self.waiting
        start_s = np.maximum(self.now_s, self.free_s)
        fits = start_s[None, :] + c.run_s[rows] <= c.leave_s[None, :] + EPS
        return np.asarray(c.allowed[rows] & fits & (c.join_s <= self.now_s + EPS)[None, :])

    def gain(self, task: int, device: int) -> float:
        """The reward of a placement now."""
        c, g, run_s = self.case, self.goals, float(self.case.run_s[task, device])
        met = max(self.now_s, self.free_s[device]) + run_s <= c.deadline_s[task] + EPS
        tenant = c.tenant[task]
        served = run_s / c.offered_s * (g.provider * c.device_likes[device, tenant] + g.utilisation)
        return float(
            g.requester * c.weight[task] / self._total * c.tenant_likes[tenant, device] * met + served
        )

    def gains(self) -> Floats:
        """(waiting, D) rewards of all placements now, legal or not."""
        c, g, rows = self.case, self.goals, np.array(self.waiting, np.int64)
        run_s, tenant = c.run_s[rows], c.tenant[rows]
        met = np.maximum(self.now_s, self.free_s)[None, :] + run_s <= c.deadline_s[rows, None] + EPS
        asked = g.requester * (c.weight[rows] / self._total)[:, None] * c.tenant_likes[tenant] * met
        return np.asarray(
            asked + run_s / c.offered_s * (g.provider * c.device_likes[:, tenant].T + g.utilisation)
        )

    def place(self, row: int, device: int) -> float:
        """Queue the ``row``-th waiting task on a device; its reward. Raises PolicyError for an illegal pair."""
        if not self.mask()[row, device]:
            raise PolicyError(f"task {self.waiting[row]} may not run on device {device}")
        earned, task = self.gain(self.waiting[row], device), self.waiting.pop(row)
        start_s = max(self.now_s, float(self.free_s[device]))
        self.device[task], self.start_s[task] = device, start_s
        self.free_s[device] = start_s + self.case.run_s[task, device]
        self._ends.append(float(self.free_s[device]))
        self.reward += earned
        return earned

    def advance(self) -> tuple[float, float]:
        """Go on to the next event at which something legal waits, or to the end; (reward, seconds)."""
        began_s, before = self.now_s, self.reward
        first = self._arrived == 0 and not self._gone.any() and not self.waiting
        while True:
            due = self._next_s(first)
            first = False
            if due is None:
                break
            waited_s = (due - self.now_s) * len(self.waiting)
            self.reward -= self.goals.waiting * waited_s / self._unit_s
            self.now_s = due
            self._settle()
            if self.waiting and self.mask().any():
                break
        return self.reward - before, self.now_s - began_s

    def _next_s(self, first: bool) -> float | None:
        """Time of the next event or tick; None when nothing waits or can come."""
        if not self.waiting and self._arrived == len(self.case.arrival_s):
            return None
        after = (
            self._fixed[self._fixed >= self.now_s] if first else self._fixed[self._fixed > self.now_s + EPS]
        )
        ends = [end for end in self._ends if end > self.now_s + EPS]
        times = [*after[:1].tolist(), *([min(ends)] if ends else [])]
        if not times:
            return None
        if self.period_s > 0.0:
            tick_s = float(np.ceil(min(times) / self.period_s - 1e-6) * self.period_s)
            return tick_s if tick_s > self.now_s or first else self.now_s + self.period_s
        return float(min(times))

    def _settle(self) -> None:
        """Arrivals up to now join those that wait; those whose deadline has passed leave."""
        c = self.case
        while self._arrived < len(c.arrival_s) and c.arrival_s[self._arrived] <= self.now_s + EPS:
            self.waiting.append(self._arrived)
            self._arrived += 1
        late = [i for i in self.waiting if c.deadline_s[i] <= self.now_s + EPS]
        self._gone[late] = True
        self.waiting = [i for i in self.waiting if c.deadline_s[i] > self.now_s + EPS]

    @property
    def done(self) -> bool:
        """Nothing waits that could be placed, and nothing comes."""
        return not (self.waiting and self.mask().any()) and self._next_s(False) is None

    def metrics(self) -> Metrics:
        """The three satisfactions of what was placed, and shares in time."""
        c = self.case
        placed = np.flatnonzero(self.device >= 0)
        device, tenant = self.device[placed], c.tenant[placed]
        run_s = c.run_s[placed, device]
        met = self.start_s[placed] + run_s <= c.deadline_s[placed] + EPS
        liked = c.weight[placed] * c.tenant_likes[tenant, device] * met
        served = float(run_s.sum())
        users = len(c.tenant_likes)
        count = np.bincount(c.tenant, minlength=users)
        in_time = np.bincount(tenant, weights=met, minlength=users)
        shares = in_time[count > 0] / count[count > 0]
        return Metrics(
            float(liked.sum()) / self._total,
            float((c.device_likes[device, tenant] * run_s).sum()) / served if served else 0.0,
            served / c.offered_s,
            float(met.sum()) / max(len(c.arrival_s), 1),
            float(shares.min()) if len(shares) else 1.0,
            self.reward,
        )
