"""Turning an order of jobs into devices: one after the other, each gang on a type that has room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.compiled import compiled

Mask = npt.NDArray[np.bool_]
Types = Literal["stay", "fastest"]


def serve(
    view: ClusterView,
    order: Ints,
    *,
    types: Types = "stay",
    overtake: bool = True,
    devices: Ints | None = None,
    prefer: Floats | None = None,
) -> Ints:
    """Devices (M, J): jobs in ``order`` get their gang on the best type with enough free devices.

    Best is the largest ``prefer`` (M, J), the throughput unless given; ``stay`` puts the type that a job holds
    first. ``overtake``: jobs that do not fit are passed by smaller ones; without it they block all behind them.
    ``devices`` (M, J) are given already and stay.
    """
    given = np.zeros(view.throughput.shape, np.int64) if devices is None else np.array(devices, np.int64)
    score = view.throughput if prefer is None else prefer
    score = np.where(view.runnable, np.maximum(score, 1e-300), 0.0)
    if types == "stay":
        score = np.where((view.held > 0) & view.runnable, np.inf, score)
    free = np.array(view.capacity - given.sum(axis=0), np.int64)
    _serve(
        np.array(order, np.int64),
        np.array(score, np.float64),
        np.array(view.scale, np.int64),
        free,
        overtake,
        given,
    )
    return given


@compiled
def _serve(order: Ints, score: Floats, scale: Ints, free: Ints, overtake: bool, given: Ints) -> None:
    left = free.sum()
    for m in order:
        if left == 0:
            return
        chosen, best = -1, 0.0
        done = False
        for j in range(len(free)):
            done = done or given[m, j] > 0
            if free[j] >= scale[m] and score[m, j] > best:
                chosen, best = j, score[m, j]
        if done:
            continue
        if chosen >= 0:
            given[m, chosen] = scale[m]
            free[chosen] -= scale[m]
            left -= scale[m]
        elif not overtake:
            return


def fastest_s(view: ClusterView) -> Floats:
    """Remaining time (M,) of each job on its fastest type, as estimated."""
    speed = np.where(view.runnable, view.throughput, 0.0).max(axis=1)
    return np.asarray(view.steps_left / np.maximum(speed, 1e-300))


@dataclass
class Ordered:
    """A preemptive policy that is an order: ``key(view)`` (M,), smallest first, ties in order of arrival."""

    key: Callable[[ClusterView], Floats]
    types: Types = "stay"
    needs: Needs = Needs(answer="devices")

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices by order."""
        order = np.argsort(self.key(view), kind="stable")
        return Allocation(devices=serve(view, order, types=self.types))


@dataclass
class Memory:
    """Numbers that a policy keeps per job, dense in the job's key: grows as jobs arrive."""

    fill: float = np.nan
    values: Floats = field(default_factory=lambda: np.empty(0))

    def of(self, key: Ints) -> Floats:
        """(M,) what is kept for these jobs."""
        self._grow(key)
        return np.asarray(self.values[key])

    def put(self, key: Ints, values: Floats | float) -> None:
        """Keep these values."""
        self._grow(key)
        self.values[key] = values

    def _grow(self, key: Ints) -> None:
        need = int(key.max()) + 1 if len(key) else 0
        if need > len(self.values):
            grown = np.full(max(need, 2 * len(self.values), 64), self.fill)
            grown[: len(self.values)] = self.values
            self.values = grown
