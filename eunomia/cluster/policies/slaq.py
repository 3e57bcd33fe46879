"""SLAQ: devices to the largest predicted drop in loss (SoCC 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.loss_curves import curve_of
from eunomia.cluster.policies.marginal import grow, options
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.errors import ConfigError


@dataclass
class Slaq:
    """Maximise the sum of predicted loss drops in the next ``horizon_s``, each relative to the job's whole range.

    Drop of a job at speed v: (l(k) - l(k + v h)) / (l(0) - c). Jobs start in order of drop per device, then grow
    by marginal drop per device. Curves: traits of the job, see :mod:`.loss_curves`.

    Does badly by intent for jobs near convergence: their drop is small, so they wait while younger jobs train,
    and completion times suffer.
    """

    horizon_s: float = 360.0
    needs: Needs = Needs(answer="devices", elastic=True)

    def __post_init__(self) -> None:
        if not self.horizon_s > 0.0:
            raise ConfigError(f"slaq: horizon_s is {self.horizon_s}; it must be positive")

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and scale factors by predicted loss drop."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        scales, speed = options(view)
        drop = self.drops(view, speed)
        per_device = np.where(speed > 0.0, drop / scales[:, :, None], 0.0).max(axis=(1, 2))
        devices, scale = grow(view, -per_device, drop)
        return Allocation(devices=devices, scale=None if view.elastic is None else scale)

    def drops(self, view: ClusterView, speed: np.ndarray) -> np.ndarray:
        """(M, K, J) normalised loss drop within the horizon at each speed."""
        curve = curve_of(view)
        steps = np.minimum(speed * self.horizon_s, view.steps_left[:, None, None])
        shaped = type(curve)(*(np.asarray(v)[:, None, None] for v in (curve.a, curve.b, curve.c)))
        done = view.steps_done[:, None, None]
        return np.asarray((shaped.at(done) - shaped.at(done + steps)) * shaped.b)
