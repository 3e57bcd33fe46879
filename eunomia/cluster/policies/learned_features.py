"""What the learned order may know of jobs and tenants: nothing of it needs to know how long a job is."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.serving_order import fastest_s
from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats, Ints

FEATURES = (
    "relative service",  # log(1 + device-seconds received / mean of those present)
    "width",  # log2 of workers
    "starved",  # share of its life that it did not run, 0 to 1
    "runs",  # 1 if it holds devices
    "age",  # log(1 + age / mean age of those present)
    "tenant holds",  # devices its tenant holds over an equal part of all devices, at most 4
    "tenant slow",  # log of (age + 600 s) / (time run + 600 s), mean of its tenant's jobs less the mean of all
    "speed",  # speed on the best free type over its best speed anywhere
    "ends soon",  # part of like jobs that ended within an hour's more service, 0 to 1
)
SHORT_S = 600.0
SOON_S = 3600.0  # device-seconds


@dataclass
class History:
    """Service that ended jobs had needed, sorted, over all tenants and by tenant."""

    everybody: list[float] = field(default_factory=list)
    tenants: dict[int, list[float]] = field(default_factory=dict)
    _open: dict[int, tuple[int, float]] = field(
        default_factory=dict
    )  # job -> tenant, service it will have needed

    def see(self, view: ClusterView) -> None:
        """A job that is gone has ended: its service is known from now on, and was not looked at before."""
        here = set(view.key.tolist())
        for key in [key for key in self._open if key not in here]:
            tenant, need = self._open.pop(key)
            insort(self.everybody, need)
            insort(self.tenants.setdefault(tenant, []), need)
        need_s = view.service_s + fastest_s(view) * view.scale
        for key, tenant, need in zip(view.key.tolist(), view.tenant.tolist(), need_s.tolist(), strict=True):
            self._open[key] = tenant, need

    def ends_soon(self, service_s: Floats, tenant: Ints) -> Floats:
        """(M,) P(need <= a + an hour | need > a), a the service so far; a tenant's own share, drawn to that of all.

        (k_t + 2 g) / (n_t + 2) with k_t of n_t jobs of the tenant, g = (k + 1) / (n + 2) over all jobs.
        """
        k, n = _ended(self.everybody, service_s)
        chance = (k + 1.0) / (n + 2.0)
        for number, known in self.tenants.items():
            mine = tenant == number
            k, n = _ended(known, service_s[mine])
            chance[mine] = (k + 2.0 * chance[mine]) / (n + 2.0)
        return np.asarray(chance)


def _ended(known: list[float], service_s: Floats) -> tuple[Floats, Floats]:
    """How many needed more than the service so far, and how many of them at most ``SOON_S`` more: second, first."""
    past = np.searchsorted(known, service_s, side="right")
    soon = np.searchsorted(known, service_s + SOON_S, side="right")
    return (soon - past).astype(float), (len(known) - past).astype(float)


def features(view: ClusterView, history: History) -> Floats:
    """(M, 9) in the order of ``FEATURES``."""
    service, age = view.service_s, view.age_s
    ran = service / view.scale
    held = view.held.sum(axis=1)
    holds = np.bincount(view.tenant, held, len(view.tenants))
    part = view.cluster.counts.sum() / max(len(np.unique(view.tenant)), 1)
    slow = np.log((age + SHORT_S) / (np.minimum(ran, age) + SHORT_S))
    number = np.maximum(np.bincount(view.tenant, minlength=len(view.tenants)), 1)
    tenant_slow = np.bincount(view.tenant, slow, len(view.tenants)) / number
    speed = np.where(view.runnable, view.throughput, 0.0)
    free = view.capacity - view.held.sum(axis=0)
    now = np.where(view.scale[:, None] <= free[None, :], speed, 0.0).max(axis=1)
    return np.stack(
        [
            np.log1p(service / max(float(service.mean()), 1.0)),
            np.log2(view.scale),
            np.where(age > 0.0, np.clip(1.0 - ran / np.maximum(age, 1e-9), 0.0, 1.0), 0.0),
            (held > 0).astype(float),
            np.log1p(age / max(float(age.mean()), 1.0)),
            np.minimum(holds[view.tenant] / part, 4.0),
            tenant_slow[view.tenant] - slow.mean(),
            now / np.maximum(speed.max(axis=1), 1e-300),
            history.ends_soon(service, view.tenant),
        ],
        axis=1,
    )
