"""Shockwave (NSDI 2023): fair shares over a window of the future instead of at each moment."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.serving_order import Mask, serve
from eunomia.cluster.policies.shockwave_plan import Market, divide
from eunomia.cluster.shares import isolated_throughput
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

MOST_ROUNDS = 1e9  # that a job is thought to need


@dataclass
class Shockwave:
    """Plan ``rounds`` rounds ahead for the Nash welfare over that window, weighted by how late jobs will be.

    Maximise sum_m rho_m^power ln(progress of m at the end of the window) - makespan_price * (time left to the longest
    job): the market of the paper, with budgets that grow with rho_m = (age + time left at an equal share) / (isolated
    time so far + the same). The plan says how many rounds each job runs (:mod:`.shockwave_plan`), not when. Jobs that
    still have some run by the gain of their next round per device; to one that runs already, a round less counts, and
    until it has run for one nobody takes its place. What they leave goes to the longest jobs. A new plan is made when a
    job comes or ends and when the window is over.

    Ours: progress counts in rounds, one more than done, so that a newcomer is worth a finite amount; speeds are the
    mean over the device types (the paper's cluster has one); the posterior over future batch sizes is left out, as jobs
    here keep theirs. Does badly where run times are misjudged: rho and the longest job rest on them. Its plan ignores
    where gangs fit, so a wide one may miss a planned round.
    """

    rounds: int = 20
    round_s: float = 360.0
    power: float = 5.0
    makespan_price: float = 1e-3
    needs: Needs = Needs(answer="devices")
    _left_s: dict[int, float] = field(default_factory=dict, repr=False)  # planned seconds not run yet, by key
    _began_s: dict[int, float] = field(default_factory=dict, repr=False)  # when its turn began, by key
    _ends_s: float = field(default=-np.inf, repr=False)
    _asked_s: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        if self.rounds < 1 or not self.round_s > 0.0:
            raise ConfigError(
                f"shockwave: {self.rounds} rounds of {self.round_s:g} s; a window needs at least 1 of above 0"
            )
        if not (0.0 <= self.power < np.inf and 0.0 <= self.makespan_price < np.inf):
            raise ConfigError(
                f"shockwave: power is {self.power}, makespan_price is {self.makespan_price}; both must be 0 or more"
            )

    def reset(self, seed: int) -> None:
        """Forget the plan."""
        self._left_s, self._began_s, self._ends_s, self._asked_s = {}, {}, -np.inf, 0.0

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices for this moment of the window."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        self._book(view)
        keys = view.key.tolist()
        if view.now_s >= self._ends_s or set(keys) != set(self._left_s):
            given = divide(self.market(view))
            self._left_s = dict(zip(keys, (given * self.round_s).tolist(), strict=True))
            self._ends_s = view.now_s + self.rounds * self.round_s
        planned_s = np.array([self._left_s[key] for key in keys])
        devices = serve(view, self._order(view, planned_s > 0.0))
        ran = [key for key, has in zip(keys, np.any(devices > 0, axis=1), strict=True) if has]
        self._began_s = {key: self._began_s.get(key, view.now_s) for key in ran}
        return Allocation(devices=devices, reasons=self._reasons(view, planned_s, devices))

    def market(self, view: ClusterView) -> Market:
        """What a plan made now would divide."""
        speed = mean_speed(view)
        need = np.ceil(np.minimum(view.steps_left / speed / self.round_s, MOST_ROUNDS))
        return Market(
            rounds=self.rounds,
            devices=int(view.capacity.sum()),
            scale=view.scale,
            done=view.steps_done / speed / self.round_s,
            need=np.maximum(need, 1).astype(np.int64),
            budget=view.weight * self._lateness(view) ** self.power,
            makespan_price=self.makespan_price,
        )

    def _lateness(self, view: ClusterView) -> Floats:
        """rho that a job will have at its equal share from now on, over the mean: only ratios count."""
        equal = isolated_throughput(
            np.where(view.runnable, view.throughput, 0.0), view.cluster.counts, view.scale
        )
        left_s = view.steps_left / np.maximum(equal, 1e-300)
        rho = (view.age_s + left_s) / (view.isolated_s + left_s)
        return np.asarray(rho / rho.mean())

    def _book(self, view: ClusterView) -> None:
        """Who held devices since the last question has used that much of the plan."""
        passed_s = view.now_s - self._asked_s
        self._asked_s = view.now_s
        for key in view.key[view.held.any(axis=1)].tolist():
            if key in self._left_s:
                self._left_s[key] = max(self._left_s[key] - passed_s, 0.0)

    def _order(self, view: ClusterView, planned: Mask) -> Ints:
        """Who is in his first round; planned jobs by the gain of the next per device; all others, the longest first."""
        market = self.market(view)
        since_s = view.now_s - np.array([self._began_s.get(key, -np.inf) for key in view.key.tolist()])
        begun = view.held.any(axis=1) & (since_s < self.round_s)
        gain = market.gain(np.maximum(market.done - view.held.any(axis=1), 0.0)) / view.scale
        return np.lexsort((np.where(planned, -gain, -market.need.astype(float)), ~planned, ~begun))

    def _reasons(self, view: ClusterView, planned_s: Floats, devices: Ints) -> tuple[str, ...]:
        """What the plan has for those that wait."""
        left_s = max(self._ends_s - view.now_s, 0.0)
        texts = []
        for m, has in enumerate(np.any(devices > 0, axis=1)):
            share = planned_s[m] / left_s if left_s > 0.0 else 0.0
            planned = f"{planned_s[m] / 60.0:.0f} of the next {left_s / 60.0:.0f} min ({share:.0%})"
            texts.append("" if has else f"not its turn in the plan: it has {planned}")
        return tuple(texts)


def mean_speed(view: ClusterView) -> Floats:
    """Steps/s of each job (M,) on average over the devices on which it can run."""
    count = np.where(view.runnable, view.cluster.counts, 0)
    speed = (np.where(view.runnable, view.throughput, 0.0) * count).sum(axis=1)
    return np.asarray(np.maximum(speed, 1e-300) / np.maximum(count.sum(axis=1), 1))
