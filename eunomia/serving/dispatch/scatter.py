"""How far block times lie around their means: for the digital twin, and to tell an interruption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.serving.dispatch.learning import LEARN_TWIN, Learned
from eunomia.serving.dispatch.overheads import SAMPLED, Latest

KEPT_RUNS = 512  # of a network on a device: their times over the mean


class Scatter:
    """``factors``: the latest times over means, by device.

    Each weighs as much as its block takes: a hiccup of 2 ms is 20 times a short block, and little of a long one.
    ``runs``: the same of whole runs, by number of network and device. ``spread``: the standard deviation of the
    logarithm of time over mean, by device, without interruptions.
    """

    def __init__(self, devices: int) -> None:
        self.factors = [Latest() for _ in range(devices)]
        self.runs: dict[int, list[Latest]] = {}
        self._variance, self._ratios = np.zeros(devices), np.zeros(devices)

    @property
    def spread(self) -> Floats:
        """(devices,) of single block times."""
        return np.sqrt(self._variance)

    def add(self, network: int) -> None:
        """One more, by its number."""
        self.runs[network] = [Latest(KEPT_RUNS, SAMPLED) for _ in self.factors]

    def note(self, network: int, device: int, learned: Sequence[Learned]) -> None:
        """What the tables of block times learned of some runs."""
        self.factors[device].add(*(np.concatenate([one[n] for one in learned]) for n in range(2)))
        whole = self.runs.get(network)
        for factors, means, seen_s, tame, squares in learned:
            if whole is not None and len(factors):
                mean_s = float(means.sum())
                whole[device].put(seen_s / mean_s, mean_s)
            if tame:
                self._ratios[device] += 1
                weight = max(LEARN_TWIN, 1.0 / self._ratios[device])
                self._variance[device] += weight * (squares / tame - self._variance[device])
