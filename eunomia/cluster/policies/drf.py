"""Dominant resource fairness over devices: lowest share first (Ghodsi et al., NSDI 2011), with queues if wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.queue_shares import deserved, victims
from eunomia.cluster.policies.serving_order import serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


@dataclass
class DominantResourceFairness:
    """Devices go to the user with the smallest dominant share, one gang after the other, until none fits.

    Each device type is a resource; a user's dominant share is the largest part of any type it holds, over its
    weight. ``users``: ``tenant`` or ``app``. Gangs start whole. Non-preemptive: running jobs go on, as training tasks
    are long.

    ``queues``: tenants are queues, as in Volcano and KAI. The queue that holds least of what it deserves by its
    tenant's weight comes first; within it the trait ``priority``, then the smallest share. ``reclaim``: a waiting gang
    within its queue's due evicts from queues above theirs, which keep at least their due. ``sla_s``: who waited longer
    goes before everybody, and devices are held free for the first of them.

    Does badly for newcomers when all devices are taken by long jobs (the motivation of Themis), and it counts
    devices where their speed differs. Without ``sla_s`` small gangs overtake wide ones for ever.
    """

    users: Literal["tenant", "app"] = "app"
    queues: bool = False
    reclaim: bool = False
    sla_s: float | None = None
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True)

    def __post_init__(self) -> None:
        if self.users not in ("tenant", "app"):
            raise ConfigError(f"drf: users is '{self.users}'; choose one of: tenant, app")
        if self.reclaim and not self.queues:
            raise ConfigError("drf: reclaim takes from queues; set queues=true with it")
        if self.sla_s is not None and not self.sla_s >= 0.0:
            raise ConfigError(f"drf: sla_s is {self.sla_s}; it must be at least 0 seconds")

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and the waiting by share."""
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))  # after a failure fewer may fit
        waits = [m for m in range(len(view)) if not devices[m].any()]
        late = [m for m in waits if self.sla_s is not None and view.age_s[m] > self.sla_s]
        if self.reclaim:
            self._reclaim(view, devices, waits)
        devices = serve(view, np.array(late, np.int64), overtake=False, devices=devices)
        held = self._hold(view, devices, [m for m in late if not devices[m].any()][:1])
        devices = self._by_share(view, devices)
        devices[held] = 0
        return Allocation(devices=devices)

    def _by_share(self, view: ClusterView, devices: Ints) -> Ints:
        """The waiting, the smallest share first, until none fits."""
        who = view.tenant if self.users == "tenant" else np.unique(view.app, return_inverse=True)[1]
        weight = view.tenant_weight if self.users == "tenant" else np.ones(int(who.max(initial=-1)) + 1)
        priority = np.nan_to_num(view.traits.get("priority", np.zeros(len(view))))
        deserves = _due(view)
        waits = {m for m in range(len(view)) if not devices[m].any()}
        while waits:
            share = _shares(view, devices, who, len(weight)) / weight
            part = _held_of_due(view, devices, deserves)
            if self.queues:
                lowest = min(waits, key=lambda m: (part[view.tenant[m]], -priority[m], share[who[m]], m))
            else:
                lowest = min(waits, key=lambda m: (share[who[m]], m))
            waits.remove(lowest)
            before = devices.sum()
            devices = serve(view, np.array([lowest]), devices=devices)
            if devices.sum() == before:  # the same gang fits for nobody now
                waits = {m for m in waits if _fits(view, devices, m)}
        return devices

    def _reclaim(self, view: ClusterView, devices: Ints, waits: list[int]) -> None:
        """Gangs that are due evict others, in place; who does not fit by itself comes in order of priority."""
        due = _due(view)
        priority = np.nan_to_num(view.traits.get("priority", np.zeros(len(view))))
        for m in sorted(waits, key=lambda m: (-priority[m], m)):
            if _fits(view, devices, m):
                continue  # the ordinary way
            kind, evicted = victims(view, devices, m, due)
            if kind >= 0:
                devices[evicted] = 0
                devices[m, kind] = view.scale[m]

    @staticmethod
    def _hold(view: ClusterView, devices: Ints, first: list[int]) -> list[int]:
        """Take what is free for a gang that is late and does not fit yet, in place; the rows."""
        for m in first:
            free = np.where(view.usable[m], view.capacity - devices.sum(axis=0), -1)
            devices[m, int(free.argmax())] = max(int(free.max()), 0)
        return first


def _due(view: ClusterView) -> Floats:
    demand = np.bincount(view.tenant, view.scale, len(view.tenants)).astype(float)
    return deserved(float(view.capacity.sum()), view.tenant_weight, demand)


def _held_of_due(view: ClusterView, devices: Ints, due: Floats) -> Floats:
    """What each queue holds of what it deserves, (Q,)."""
    used = np.bincount(view.tenant, devices.sum(axis=1), len(view.tenants))
    return np.asarray(np.divide(used, due, out=np.full(len(due), np.inf), where=due > 0.0))


def _shares(view: ClusterView, devices: Ints, who: Ints, users: int) -> Floats:
    held = np.zeros((users, devices.shape[1]))
    np.add.at(held, who, devices)
    return np.asarray((held / view.cluster.counts).max(axis=1))


def _fits(view: ClusterView, devices: Ints, m: int) -> bool:
    free = view.capacity - devices.sum(axis=0)
    return bool((view.runnable[m] & (view.scale[m] <= free)).any())
