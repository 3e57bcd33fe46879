"""Sia (SOSP 2023): the scheduler chooses type and number of workers of elastic jobs by an integer programme."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.goodput import Restarts, goodput
from eunomia.cluster.policies.marginal import options
from eunomia.cluster.policies.packing_programme import best_packing
from eunomia.contract.allocation import Allocation, ClusterView, Needs, Note
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


@dataclass
class Elastic:
    """One configuration (type, workers) per job, to maximise the sum of normalised goodput: an integer programme.

    Goodput = steps/s x efficiency (trait ``gradient_noise``, unsaid = batch does not matter). Each job's row is
    divided by its least positive entry, raised to ``power``, and changed configurations are multiplied by
    r = (T - N S) / (T + S): age T, restarts N so far, ``restart_s`` S. max sum G A - lam * (1 - sum A), at
    most one choice per job, devices per type; ``lam`` is what it costs to leave a job without devices. Exact
    by HiGHS within ``gap``; a failed solve is noted and falls back to greedy choice by G per device.

    ``power`` below 0 minimises sum G^p A + lam * (1 - sum A) instead, r within the power: what Sia ships (p = -0.5)
    cares more for the worst-off job than its paper's 0.5, the default here. Does badly where estimates at other scales
    are poor, and for rigid jobs, where only the type is left to choose.
    """

    power: float = 0.5
    lam: float = 1.1
    restart_s: float = 30.0
    gap: float = 1e-4
    needs: Needs = Needs(answer="devices", elastic=True)
    _restarts: Restarts = field(default_factory=Restarts, repr=False)

    def __post_init__(self) -> None:
        if self.power == 0.0 or not np.isfinite(self.power):
            raise ConfigError(f"elastic: power is {self.power}; it must be finite and not 0")

    def reset(self, seed: int) -> None:
        """Forget restarts."""
        self._restarts = Restarts()

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and scale factors by the programme."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        scales, speed = options(view)
        worth = self.worth(view, scales, speed)
        chosen, notes = self._solve(view, scales, worth)
        devices, scale = np.zeros(view.throughput.shape, np.int64), view.scale.copy()
        for m, k, j in chosen:
            devices[m, j] = scale[m] = scales[m, k]
        self._restarts.remember(view, devices)
        return Allocation(devices=devices, scale=None if view.elastic is None else scale, notes=notes)

    def worth(self, view: ClusterView, scales: Ints, speed: Floats) -> Floats:
        """(M, K, J) G^p of each configuration, > 0 where it may be chosen; a cost where ``power`` is below 0."""
        good = goodput(view, scales, speed)
        least: Floats = np.where(good > 0.0, good, np.inf).min(axis=(1, 2))
        least = np.where(np.isfinite(least), least, 1.0)  # a job that can run nowhere now
        with np.errstate(divide="ignore"):
            worth = np.where(good > 0.0, (good / least[:, None, None]) ** self.power, 0.0)
        return self._restarts.discounted(view, scales, worth, self.restart_s, min(self.power, 0.0) or 1.0)

    def _solve(
        self, view: ClusterView, scales: Ints, worth: Floats
    ) -> tuple[list[tuple[int, int, int]], tuple[Note, ...]]:
        jobs = len(view)
        m, k, j = np.nonzero((worth > 0.0) & (scales[:, :, None] <= view.capacity[None, None, :]))
        if not len(m):
            return [], ()
        gain = self.lam + np.sign(self.power) * worth[m, k, j]
        entries = [
            (np.array([a, jobs + b]), np.array([1.0, float(size)]))
            for a, b, size in zip(m.tolist(), j.tolist(), scales[m, k].tolist(), strict=True)
        ]
        limit = np.concatenate([np.ones(jobs), view.capacity])
        picked, status = best_packing(gain, entries, limit, self.gap, 10.0)
        if picked is not None:
            return list(zip(m[picked].tolist(), k[picked].tolist(), j[picked].tolist(), strict=True)), ()
        note = Note("fallback", f"integer programme ended as '{status}'; chosen greedily by gain per device")
        order = np.argsort(-gain / scales[m, k], kind="stable")
        return _greedy(order, m, k, j, scales, view.capacity.copy()), (note,)


def _greedy(order: Ints, m: Ints, k: Ints, j: Ints, scales: Ints, free: Ints) -> list[tuple[int, int, int]]:
    """Configurations in order, one per job, while devices last."""
    chosen, done = [], set()
    for c in order.tolist():
        job, option, kind = int(m[c]), int(k[c]), int(j[c])
        if job not in done and scales[job, option] <= free[kind]:
            chosen.append((job, option, kind))
            done.add(job)
            free[kind] -= scales[job, option]
    return chosen
