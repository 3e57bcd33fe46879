"""Classical load balancing over device types: each waiting job is bound to a type's queue, first come first served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.list_scheduling import max_min, mct, met, min_min, olb, sufferage
from eunomia.cluster.policies.serving_order import Memory, serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

ON_ARRIVAL = ("random", "round_robin", "weighted_round_robin", "jsq", "power_of_d", "met", "mct", "olb")
IN_BATCHES = ("min_min", "max_min", "sufferage")
RULES = (*ON_ARRIVAL, *IN_BATCHES)

_PICKS: dict[str, Callable[[Floats, Floats], int]] = {"met": met, "mct": mct, "olb": olb}
_BATCHES = {"min_min": min_min, "max_min": max_min, "sufferage": sufferage}


@dataclass
class Balancing:
    """Non-preemptive queues, one per device type; ``rule`` decides which queue a job joins.

    On arrival, for good: ``random``, ``round_robin``, ``weighted_round_robin`` (in proportion to devices),
    ``jsq`` (fewest queued devices per device), ``power_of_d`` (the better of ``choices`` types drawn at
    random), ``met``, ``mct``, ``olb``. In batches, anew at each decision for all that wait: ``min_min``,
    ``max_min``, ``sufferage``. A type counts as one machine whose ready time is its queued work
    (device-seconds) over its devices. A gang's time there is steps / speed * gang / devices.

    Do badly: ``met`` when one type is best for all (its queue grows while others idle); ``random`` and round
    robin when types differ in speed; all of them after a wrong estimate, as nothing moves later.
    """

    rule: str = "mct"
    choices: int = 2
    needs: Needs = Needs(answer="devices", sticky=True, every_event=True)
    _queue: Memory = field(default_factory=Memory, repr=False)  # column each job is bound to
    _turn: int = field(default=0, repr=False)
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"balancing: rule is '{self.rule}'; choose one of: {', '.join(RULES)}")
        if self.choices < 1:
            raise ConfigError(f"balancing: choices is {self.choices}; at least 1")

    def reset(self, seed: int) -> None:
        """Forget all queues."""
        self._queue, self._turn, self._rng = Memory(), 0, np.random.default_rng(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: what runs, and the heads of the queues."""
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))
        waits = np.flatnonzero(~devices.any(axis=1))
        order = waits
        if self.rule in IN_BATCHES:
            order = self._map(view, devices, waits)
        else:
            queue = self._queue.of(view.key)
            for m in waits[np.isnan(queue[waits])].tolist():
                self._queue.put(view.key[m : m + 1], float(self._join(view, m)))
        queue = self._queue.of(view.key)
        for j in range(len(view.cluster.types)):
            mine = order[queue[order] == j]
            only = np.zeros_like(view.throughput)
            only[:, j] = view.throughput[:, j]
            devices = _head_of_line(view, mine, only, devices)
        return Allocation(devices=devices)

    def _backlog_s(self, view: ClusterView) -> tuple[Floats, Floats]:
        """Gang time (M, J) per device of each type, and ready time (J,) of each type by what is bound to it."""
        with np.errstate(divide="ignore"):
            time_s = view.steps_left[:, None] / np.where(view.runnable, view.throughput, 0.0)
        time_s = time_s * view.scale[:, None] / view.cluster.counts
        queue = self._queue.of(view.key)
        ready = np.zeros(len(view.cluster.types))
        bound = np.flatnonzero(~np.isnan(queue))
        work = time_s[bound, queue[bound].astype(np.int64)]
        np.add.at(ready, queue[bound].astype(np.int64), np.where(np.isfinite(work), work, 0.0))
        return time_s, ready

    def _join(self, view: ClusterView, m: int) -> int:
        can = np.flatnonzero(view.runnable[m])
        counts = view.cluster.counts
        if self.rule == "random":
            return int(self._rng.choice(can))
        if self.rule in ("round_robin", "weighted_round_robin"):
            cycle = np.repeat(np.arange(len(counts)), 1 if self.rule == "round_robin" else counts)
            while True:  # ends: can is not empty, and the cycle names every type
                j = int(cycle[self._turn % len(cycle)])
                self._turn += 1
                if j in can:
                    return j
        time_s, ready = self._backlog_s(view)
        if self.rule in _PICKS:
            return _PICKS[self.rule](time_s[m], ready)
        if self.rule == "power_of_d":
            can = self._rng.choice(can, min(self.choices, len(can)), replace=False)
        queue = self._queue.of(view.key)
        length = np.array([view.scale[queue == j].sum() / counts[j] for j in can])
        return int(can[np.argmin(length)])

    def _map(self, view: ClusterView, devices: Ints, waits: Ints) -> Ints:
        """Bind all that wait anew; returns them in order of planned finish."""
        self._queue.put(view.key, np.where(devices.any(axis=1), devices.argmax(axis=1).astype(float), np.nan))
        if not len(waits):
            return waits
        time_s, ready = self._backlog_s(view)
        plan = _BATCHES[self.rule](time_s[waits], ready)
        self._queue.put(view.key[waits], plan.machine.astype(float))
        return waits[np.argsort(plan.finish_s, kind="stable")]


def _head_of_line(view: ClusterView, order: Ints, prefer: Floats, devices: Ints) -> Ints:
    return serve(view, order, types="fastest", overtake=False, devices=devices, prefer=prefer)
