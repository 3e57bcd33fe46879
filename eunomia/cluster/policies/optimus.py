"""Optimus: one more device to whoever's remaining time it cuts most (EuroSys 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.marginal import grow, options
from eunomia.cluster.policies.serving_order import fastest_s
from eunomia.contract.allocation import Allocation, ClusterView, Needs


@dataclass
class Optimus:
    """Every job gets its least number of devices, shortest remaining service first; then devices go one step at a
    time to the job with the largest cut in remaining time per device.

    Remaining time = steps left / speed at a scale factor. The paper estimates both with online fits (loss curve
    and speed, :mod:`.loss_curves`); here the engine's estimates are used. Rigid jobs cannot grow: for them it
    is shortest remaining service first.

    Does badly on fairness: a long job keeps its least grant, or none; estimates of the end are poor early on.
    """

    needs: Needs = Needs(answer="devices", elastic=True)

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and scale factors by marginal gain."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        _, speed = options(view)
        with np.errstate(divide="ignore"):
            left_s = view.steps_left[:, None, None] / speed
        devices, scale = grow(view, fastest_s(view) * view.scale, -left_s)
        return Allocation(devices=devices, scale=None if view.elastic is None else scale)
