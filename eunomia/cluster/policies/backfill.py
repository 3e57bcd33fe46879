"""First come, first served with reservations: EASY and conservative backfill, the norm of batch systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.serving_order import serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


class Profile:
    """Free devices of one type over time: a step function from now on."""

    def __init__(self, now_s: float, free: int) -> None:
        self.time_s = [now_s]
        self.free = [free]

    def release(self, at_s: float, count: int) -> None:
        """``count`` devices become free at ``at_s``."""
        self._change(at_s, np.inf, count)

    def reserve(self, start_s: float, length_s: float, count: int) -> None:
        """Take ``count`` devices during [start, start + length)."""
        self._change(start_s, start_s + length_s, -count)

    def earliest(self, length_s: float, count: int) -> float:
        """First time from which ``count`` devices are free for ``length_s``; inf = never."""
        for i, start in enumerate(self.time_s):
            end = start + length_s
            k = i
            while k < len(self.time_s) and self.time_s[k] < end and self.free[k] >= count:
                k += 1
            if k == len(self.time_s) or (self.time_s[k] >= end and k > i):
                return start
        return float(np.inf)

    def _change(self, start_s: float, end_s: float, count: int) -> None:
        for at in (start_s, end_s):
            if np.isfinite(at) and at not in self.time_s:
                i = int(np.searchsorted(self.time_s, at))
                self.time_s.insert(i, at)
                self.free.insert(i, self.free[i - 1])
        for i, at in enumerate(self.time_s):
            if start_s <= at < end_s:
                self.free[i] += count


@dataclass
class Backfill:
    """Jobs start in order of arrival; later ones may start before, if no reservation is delayed by it.

    ``easy``: only the first job that cannot start has a reservation (Lifka 1995). ``conservative``: every
    waiting job has one (Mu'alem and Feitelson 2001). Run times are the engine's estimates; a job is reserved where
    it would finish first. Non-preemptive. ``depth``: how many waiting jobs are looked at.

    Do badly with wrong estimates: a reservation is never used, or devices idle before it. EASY does badly
    with many wide jobs, of which it protects only the first.
    """

    reservations: Literal["easy", "conservative"] = "easy"
    depth: int = 200
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True)

    def __post_init__(self) -> None:
        if self.reservations not in ("easy", "conservative"):
            raise ConfigError(
                f"backfill: '{self.reservations}' reservations; choose one of: easy, conservative"
            )

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and who may start now."""
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))
        with np.errstate(divide="ignore"):
            time_s = view.steps_left[:, None] / np.where(view.runnable, view.throughput, 0.0)
        profiles = self._profiles(view, devices, time_s)
        reserved = 0
        for m in np.flatnonzero(~devices.any(axis=1))[: self.depth].tolist():
            count = int(view.scale[m])
            start = [p.earliest(float(time_s[m, j]), count) for j, p in enumerate(profiles)]
            finish = np.array(start) + time_s[m]
            j = int(np.argmin(finish))
            if not np.isfinite(finish[j]):
                continue
            now = [k for k in range(len(profiles)) if start[k] <= view.now_s and np.isfinite(finish[k])]
            if start[j] > view.now_s and reserved and self.reservations == "easy":
                if not now:
                    continue  # without a reservation it may start now on any type, or not at all
                j = min(now, key=lambda k: finish[k])
            if start[j] <= view.now_s:
                devices[m, j] = count
            else:
                reserved += 1
            profiles[j].reserve(start[j], float(time_s[m, j]), count)
        return Allocation(devices=devices)

    @staticmethod
    def _profiles(view: ClusterView, devices: Ints, time_s: Floats) -> list[Profile]:
        free = view.capacity - devices.sum(axis=0)
        profiles = [Profile(view.now_s, int(count)) for count in free]
        for m, j in np.argwhere(devices > 0).tolist():
            profiles[j].release(view.now_s + float(time_s[m, j]), int(devices[m, j]))
        return profiles
