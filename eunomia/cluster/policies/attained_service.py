"""Least attained service, and Tiresias' two-dimensional form with queues and promotion (NSDI 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.servers import holdings_of
from eunomia.cluster.policies.serving_order import Memory, Ordered, Types, serve
from eunomia.contract.allocation import Allocation, ClusterView, Holdings, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


def least_attained_service(types: Types = "stay") -> Ordered:
    """Who has had the fewest device-seconds goes first, preemptive, no queues.

    Does badly with jobs of equal size: they take turns, all end late, and each turn costs a restart.
    """
    return Ordered(_attained, types)


def _attained(view: ClusterView) -> Floats:
    return view.service_s / view.weight


@dataclass
class Tiresias:
    """Discretised 2D-LAS: K queues by attained service (device-seconds), first started first served within one.

    ``thresholds_s``: a job moves to the next queue when its service passes the next threshold (3600, 7200,
    18000 are settings of its simulator). ``promote``: a job that has waited ``promote`` times as long as it
    has run goes back to the first queue, and its service counts from there; 0 = never. ``consolidate_skew``:
    jobs whose trait ``skew`` (share of the largest tensor) reaches it are packed on as few servers as
    possible. Others take what is free; None leaves placement to the engine.

    Does badly where long jobs dominate: the last queue is FIFO. It is blind to placement, so it harms jobs of
    low skew that suffer from spread.
    """

    thresholds_s: tuple[float, ...] = (3600.0, 7200.0, 18000.0)
    promote: float = 8.0
    consolidate_skew: float | None = None
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")
    _since_s: Memory = field(default_factory=Memory, repr=False)  # when it last ran, or came
    _offset_s: Memory = field(default_factory=lambda: Memory(0.0), repr=False)  # service that was forgiven
    _ran_s: Memory = field(default_factory=lambda: Memory(0.0), repr=False)  # run time at the last promotion

    def __post_init__(self) -> None:
        steps = np.diff(np.array((0.0, *self.thresholds_s)))
        if not (steps > 0.0).all():
            raise ConfigError(f"tiresias: thresholds_s is {self.thresholds_s}; they must rise from above 0")
        if self.promote < 0.0:
            raise ConfigError(f"tiresias: promote is {self.promote}; 0 (never) or a positive factor")

    def reset(self, seed: int) -> None:
        """Forget waiting times and promotions."""
        self._since_s, self._offset_s, self._ran_s = Memory(), Memory(0.0), Memory(0.0)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices by queue, then by first start, then by arrival."""
        queue = self.queues(view)
        started = np.where(np.isnan(view.first_start_s), np.inf, view.first_start_s)
        devices = serve(view, np.lexsort((started, queue)), types=self.types)
        if self.consolidate_skew is None:
            return Allocation(devices=devices)
        return Allocation(devices=devices, servers=self._place(view, devices))

    def queues(self, view: ClusterView) -> Floats:
        """(M,) queue of each job, 0 = served first; promotes the starved."""
        runs = view.held.any(axis=1)
        since = self._since_s.of(view.key)
        since = np.where(runs, view.now_s, np.where(np.isnan(since), view.arrival_s, since))
        service, ran = view.service_s, view.service_s / view.scale
        if self.promote > 0.0:
            recent = ran - self._ran_s.of(view.key)
            starved = ~runs & (recent > 0.0) & (view.now_s - since >= self.promote * recent)
            self._offset_s.put(view.key[starved], service[starved])
            self._ran_s.put(view.key[starved], ran[starved])
            since = np.where(starved, view.now_s, since)
        self._since_s.put(view.key, since)
        counted = service - self._offset_s.of(view.key)
        return np.searchsorted(np.array(self.thresholds_s), counted, side="right").astype(np.float64)

    def _place(self, view: ClusterView, devices: Ints) -> Holdings:
        """Skewed jobs packed, largest first; then the others into the smallest gaps."""
        skew = view.traits.get("skew", np.full(len(view), np.nan))
        tight = skew >= self.consolidate_skew
        free = np.array(view.up, np.int64)
        table = np.zeros((len(view), len(free)), np.int64)
        placed = np.flatnonzero(devices.any(axis=1))
        for m in placed[np.lexsort((-view.scale[placed], ~tight[placed]))].tolist():
            column, gang = int(np.argmax(devices[m])), int(devices[m].max())
            servers = np.flatnonzero((view.cluster.server_type == column) & (free > 0))
            holds = servers[free[servers] >= gang]
            if tight[m] and len(holds):
                servers = holds[np.argsort(free[holds], kind="stable")]
            else:
                servers = servers[np.argsort(-free[servers] if tight[m] else free[servers], kind="stable")]
            for place in servers.tolist():
                table[m, place] = min(free[place], gang - table[m].sum())
            free -= table[m]
        return holdings_of(table)
