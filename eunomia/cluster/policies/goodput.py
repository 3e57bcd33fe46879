"""Goodput of elastic jobs: throughput times statistical efficiency, and what a restart costs (Pollux, Sia)."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.policies.serving_order import Mask
from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats, Ints


def efficiency(scale: Ints, base: Ints, noise: Floats) -> Floats:
    """Statistical efficiency of ``scale`` workers, batch growing with them: (phi + 1) / (phi + s / s0).

    phi = ``noise``, the gradient noise (variance over squared mean at the base batch). 1 at s = s0, 1 without
    limit for phi = inf. Pollux, equation of section 3.
    """
    ratio = scale / base
    known = np.where(np.isinf(noise), 0.0, noise)
    return np.where(np.isinf(noise), 1.0, (known + 1.0) / (known + ratio))


def goodput(view: ClusterView, scales: Ints, speed: Floats) -> Floats:
    """(M, K, J) useful steps/s: ``speed`` times efficiency by trait ``gradient_noise`` (unsaid: it is 1)."""
    noise = view.traits.get("gradient_noise", np.full(len(view), np.nan))
    noise = np.where(np.isnan(noise), np.inf, noise)[:, None]
    return np.asarray(speed * efficiency(scales, view.scale[:, None], noise)[:, :, None])


class Restarts:
    """How often each job's configuration was changed while it ran, and what another change is worth."""

    def __init__(self) -> None:
        self._number: dict[int, int] = {}

    def factor(self, view: ClusterView, restart_s: float) -> Floats:
        """(M,) r = (T - N S) / (T + S), at least 0.05: age T, restarts N so far, ``restart_s`` S."""
        age = np.maximum(view.age_s, restart_s)
        number = np.array([self._number.get(key, 0) for key in view.key.tolist()])
        return np.asarray(np.clip((age - number * restart_s) / (age + restart_s), 0.05, 1.0))

    def discounted(
        self, view: ClusterView, scales: Ints, worth: Floats, restart_s: float, power: float = 1.0
    ) -> Floats:
        """(M, K, J) ``worth`` with all configurations but the present one of running jobs times r^``power``."""
        same: Mask = np.equal(scales, view.held.max(axis=1)[:, None])
        here = (view.held > 0)[:, None, :] & same[:, :, None]
        runs: Mask = np.any(view.held > 0, axis=1)
        factor = self.factor(view, restart_s) ** power
        return np.asarray(np.where(runs[:, None, None] & ~here, worth * factor[:, None, None], worth))

    def remember(self, view: ClusterView, devices: Ints) -> None:
        """Count the jobs that run on, but not as they did."""
        changed = view.held.any(axis=1) & (devices != view.held).any(axis=1)
        for key in view.key[changed].tolist():
            self._number[key] = self._number.get(key, 0) + 1
