"""Dominant resource fairness over devices: lowest share first, nothing is taken away (Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.serving_order import serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError


@dataclass
class DominantResourceFairness:
    """Devices go to the user with the smallest dominant share, one job after the other, until none fits.

    Each device type is a resource; a user's dominant share is the largest part of any type it holds, over its
    weight. ``users``: ``tenant`` or ``app``. Non-preemptive: running jobs go on, as training tasks are long.

    Does badly for newcomers when all devices are taken by long jobs (the motivation of Themis), and it counts
    devices where their speed differs.
    """

    users: Literal["tenant", "app"] = "app"
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True)

    def __post_init__(self) -> None:
        if self.users not in ("tenant", "app"):
            raise ConfigError(f"drf: users is '{self.users}'; choose one of: tenant, app")

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and the waiting by share."""
        runs = np.flatnonzero(view.held.any(axis=1))
        devices = serve(view, runs)  # after a failure fewer may fit
        who = view.tenant if self.users == "tenant" else np.unique(view.app, return_inverse=True)[1]
        weight = view.tenant_weight if self.users == "tenant" else np.ones(int(who.max(initial=-1)) + 1)
        waits = {m for m in range(len(view)) if not devices[m].any()}
        while waits:
            share = self._shares(view, devices, who, len(weight)) / weight
            lowest = min(waits, key=lambda m: (share[who[m]], m))
            waits.remove(lowest)
            before = devices.sum()
            devices = serve(view, np.array([lowest]), devices=devices)
            if devices.sum() == before:  # the same gang fits for nobody now
                waits = {m for m in waits if _fits(view, devices, m)}
        return Allocation(devices=devices)

    @staticmethod
    def _shares(view: ClusterView, devices: Ints, who: Ints, users: int) -> np.ndarray:
        held = np.zeros((users, devices.shape[1]))
        np.add.at(held, who, devices)
        return np.asarray((held / view.cluster.counts).max(axis=1))


def _fits(view: ClusterView, devices: Ints, m: int) -> bool:
    free = view.capacity - devices.sum(axis=0)
    return bool((view.runnable[m] & (view.scale[m] <= free)).any())
