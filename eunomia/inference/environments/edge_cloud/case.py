"""One trace: tasks, devices with windows, what both sides like, and what they forbid.

Inspired by volunteer edge-cloud scheduling (Mounesan et al. 2024), whose reward, network and numbers are unknown to us.
Likes are soft, in [0, 1], and are paid for in the reward; rules are hard, and are kept by the mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Case:
    """n tasks in order of arrival, D devices, U tenants, C classes of models, K kinds of devices."""

    arrival_s: Floats  # (n,)
    deadline_s: Floats  # (n,) absolute; a task that still waits then leaves
    work_s: Floats  # (n,) at speed 1
    memory_gb: Floats  # (n,)
    weight: Floats  # (n,)
    tenant: Ints  # (n,)
    model: Ints  # (n,) class
    kind: Ints  # (D,)
    speed: Floats  # (D,)
    device_gb: Floats  # (D,)
    join_s: Floats  # (D,)
    leave_s: Floats  # (D,) a task must be done by then; a device that comes again is another one
    tenant_likes: Floats  # (U, D)
    device_likes: Floats  # (D, U)
    tenant_bars: Flags  # (U, K) kinds that a tenant excludes
    owner_bars_tenant: Flags  # (D, U)
    owner_bars_model: Flags  # (D, C)

    def __post_init__(self) -> None:
        n, d = len(self.arrival_s), len(self.kind)
        for name in ("deadline_s", "work_s", "memory_gb", "weight", "tenant", "model"):
            if len(getattr(self, name)) != n:
                raise ConfigError(f"{len(getattr(self, name))} values of {name} for {n} tasks")
        for name in ("speed", "device_gb", "join_s", "leave_s", "device_likes", "owner_bars_tenant"):
            if len(getattr(self, name)) != d:
                raise ConfigError(f"{len(getattr(self, name))} values of {name} for {d} devices")
        if n and (np.diff(self.arrival_s) < 0).any():
            raise ConfigError("tasks must be in order of arrival")
        if not ((self.work_s > 0).all() and (self.speed > 0).all() and (self.leave_s > self.join_s).all()):
            raise ConfigError("work and speed must be positive, and a device must leave after it joined")
        for name in ("tenant_likes", "device_likes"):
            likes = getattr(self, name)
            if not ((likes >= 0.0) & (likes <= 1.0)).all():
                raise ConfigError(f"{name} must lie in [0, 1]")

    @cached_property
    def run_s(self) -> Floats:
        """(n, D) how long a task runs on a device."""
        return np.asarray(self.work_s[:, None] / self.speed[None, :])

    @cached_property
    def allowed(self) -> Flags:
        """(n, D) pairs that no rule forbids and whose memory fits."""
        barred = self.tenant_bars[self.tenant][:, self.kind]
        barred |= self.owner_bars_tenant[:, self.tenant].T | self.owner_bars_model[:, self.model].T
        return np.asarray(~barred & (self.memory_gb[:, None] <= self.device_gb[None, :]))

    @cached_property
    def offered_s(self) -> float:
        """Device-seconds inside windows."""
        return float((self.leave_s - self.join_s).sum())

    @cached_property
    def mean_run_s(self) -> float:
        """Mean of ``run_s``: the scale of times in features and reward."""
        return float(self.run_s.mean()) if self.run_s.size else 1.0


def draw(
    seed: int, tasks: int = 40, devices: int = 6, tenants: int = 4, load: float = 1.0, bars: float = 0.15
) -> Case:
    """A random trace whose work is ``load`` times what the devices could do in their windows.

    Devices of three kinds (speeds 1, 2, 4 times a factor near 1; memory grows with them), windows of half to all of
    the span; each rule forbids with probability ``bars``; likes are uniform; deadlines two to eight mean run times.
    """
    if min(tasks, devices, tenants) < 1 or not load > 0.0 or not 0.0 <= bars < 1.0:
        raise ConfigError("a case needs tasks, devices and tenants, a positive load, and bars in [0, 1)")
    rng = np.random.default_rng([seed, 0xA3C])
    kind = rng.integers(0, 3, devices)
    speed = 2.0**kind * rng.uniform(0.8, 1.2, devices)
    work_s = rng.lognormal(0.0, 0.6, tasks)
    share = rng.uniform(0.5, 1.0, devices)  # of the span that a device is there
    span_s = float(work_s.sum() / (load * (speed * share).sum()))
    join_s = rng.uniform(0.0, 1.0, devices) * (1.0 - share) * span_s
    mean_run_s = float((work_s[:, None] / speed[None, :]).mean())
    arrival_s = np.sort(rng.uniform(0.0, 0.9 * span_s, tasks))
    return Case(
        arrival_s,
        arrival_s + rng.uniform(2.0, 8.0, tasks) * mean_run_s,
        work_s,
        rng.choice([1.0, 2.0, 4.0, 8.0], tasks, p=[0.4, 0.3, 0.2, 0.1]),
        rng.choice([1.0, 2.0, 4.0], tasks),
        rng.integers(0, tenants, tasks),
        rng.integers(0, 3, tasks),
        kind,
        speed,
        np.array([4.0, 8.0, 16.0])[kind],
        join_s,
        join_s + share * span_s,
        rng.uniform(0.0, 1.0, (tenants, devices)),
        rng.uniform(0.0, 1.0, (devices, tenants)),
        rng.random((tenants, 3)) < bars,
        rng.random((devices, tenants)) < bars,
        rng.random((devices, 3)) < bars,
    )
