"""Device-seconds per user that lose half of their weight every half-life (PriorityDecayHalfLife)."""

from __future__ import annotations

import numpy as np

from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats


class DecayedUsage:
    """What users have used up to now; exact for rates that are constant between two calls.

    After dt seconds at rate r: U d + r h / ln 2 (1 - d) with d = 2^(-dt / h). Slurm takes steps of
    PriorityCalcPeriod (5 minutes), which tend to this. ``half_life_s`` 0: nothing decays.
    """

    def __init__(self, users: int, half_life_s: float) -> None:
        self.value, self.half_life_s = np.zeros(users), half_life_s
        self._then_s = 0.0
        self._rate: dict[int, tuple[int, float, float]] = {}  # key -> user, rate, seconds it could still run

    def advance(self, now_s: float, present: set[int]) -> None:
        """Book what the jobs of the last call used since. ``present``: keys of the jobs that are still here.

        Where all of them have left, nobody was there to say when: each is charged for the time that it had left.
        """
        span_s = now_s - self._then_s
        drained = not any(key in present for key in self._rate)
        factor = 1.0 if self.half_life_s <= 0.0 else float(np.exp2(-span_s / self.half_life_s))
        added = np.zeros(len(self.value))
        for user, rate, left_s in self._rate.values():
            ran_s = min(span_s, left_s) if drained else span_s
            added[user] += rate * self._weight_s(ran_s) * self._fades(span_s - ran_s)
        self.value = self.value * factor + added
        self._then_s = now_s

    def watch(self, view: ClusterView, devices: np.ndarray, price: Floats) -> None:
        """Who holds what from now on; ``price`` (J,) is what a device-second counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            left_s = view.steps_left[:, None] / view.throughput
        rows, kinds = np.nonzero(devices)
        self._rate = {
            int(view.key[m]): (int(view.tenant[m]), float(devices[m, j] * price[j]), float(left_s[m, j]))
            for m, j in zip(rows.tolist(), kinds.tolist(), strict=True)
        }

    def _weight_s(self, span_s: float) -> float:
        """Decayed seconds of a rate of 1 over the span."""
        if self.half_life_s <= 0.0:
            return span_s
        scale = self.half_life_s / np.log(2.0)
        return float(scale * -np.expm1(-span_s / scale))

    def _fades(self, span_s: float) -> float:
        return 1.0 if self.half_life_s <= 0.0 else float(np.exp2(-span_s / self.half_life_s))
