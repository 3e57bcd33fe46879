"""Classical load balancing (section 7.2): sub-jobs are bound to an accelerator's queue when they become ready."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.contract.rows import CompiledKey
from eunomia.contract.view import Assign, View
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.noise import uniform
from eunomia.inference.kernel.setup import BINDS, QUEUES, Rules
from eunomia.inference.kernel.signatures import compile_key
from eunomia.inference.policies.ordering import find_order

BIND = 3  # stream of the random numbers, as the kernel's


@dataclass(frozen=True)
class Queueing:
    """One queue per accelerator; ``bind`` chooses the queue, ``order`` serves it.

    ``round_robin``: queues in turn. ``random``: uniformly, from the run's seed. ``least_loaded``: least
    estimated work, running layer included. ``throttled``: the first accelerator with fewer than
    ``throttle`` sub-jobs, the running one included; when all are full the sub-job waits outside.
    Accelerators unable to run the layer are skipped. These rules ignore how fast an accelerator is
    for the layer, so they do badly on unequal hardware.

    The engine binds sub-jobs. A server does not: there requests are bound at each decision, in their order, and one
    that has begun stays where its tensors are.
    """

    bind: str = "round_robin"
    order: str = "fcfs"
    throttle: int = 2

    def __post_init__(self) -> None:
        if self.bind not in BINDS:
            raise UnknownNameError("queueing rule", self.bind, BINDS)
        if find_order(self.order).dynamic:
            raise PolicyError(f"queueing rules need a static order; '{self.order}' changes with time")
        if self.throttle < 1:
            raise PolicyError(f"throttle is {self.throttle}; it must be at least 1")

    @property
    def name(self) -> str:
        """Canonical name."""
        suffix = f"{self.throttle}" if self.bind == "throttled" else ""
        return f"{self.bind}{suffix}" + ("" if self.order == "fcfs" else f"+{self.order}")

    @property
    def rules(self) -> Rules:
        """What the kernel needs to run the rule by itself."""
        return Rules(QUEUES, bind=BINDS.index(self.bind), throttle=self.throttle)

    @property
    def key(self) -> CompiledKey:
        """The compiled order."""
        return compile_key(find_order(self.order).key)

    def __call__(self, view: View) -> list[Assign]:
        """Every idle accelerator takes the head of its queue."""
        started = []
        bound = view.ready["bound"]
        if not (bound >= 0).any():  # nobody has bound them
            bound = self._queues(view)
        for s in view.idle:
            mine = np.flatnonzero(bound == s)
            if len(mine):
                started.append(view.assign(min(map(int, mine), key=lambda i: self._rank(view, i)), int(s)))
        return started

    def _queues(self, view: View) -> npt.NDArray[np.int64]:
        """(n,) the accelerator that each waiting request is bound to; -1 = none has room."""
        running = view.accelerators["request"] >= 0
        load_s = np.where(running, view.accelerators["free_in_s"], 0.0)
        load, bound = running.astype(np.int64), np.full(len(view), -1)
        for i in np.lexsort((view.ready["sequence"], view.ready["accelerator"] < 0)):
            s = self._queue(view, int(i), load, load_s)
            if s >= 0:
                bound[i] = s
                load[s] += 1
                load_s[s] += view.latency_s[i, s]
        return bound

    def _queue(self, view: View, i: int, load: npt.NDArray[np.int64], load_s: npt.NDArray[np.float64]) -> int:
        """Of one request."""
        job, able = view.ready[i], np.flatnonzero(np.isfinite(view.latency_s[i]))
        lanes = len(load)
        if not len(able):
            return -1
        if job["accelerator"] in able:
            return int(job["accelerator"])
        if self.bind == "least_loaded":
            return int(able[np.argmin(load_s[able])])
        if self.bind == "throttled":
            return next((int(s) for s in able if load[s] < self.throttle), -1)
        first = int(job["request"])
        if self.bind == "random":
            first = int(uniform(int(view.system["seed"]), first, 0, BIND) * lanes)
        return int(min(able, key=lambda s: (s - first) % lanes))

    def _rank(self, view: View, i: int) -> tuple[int, float, int]:
        job = view.ready[i]
        late = int(job["late"]) if view.system["late_last"] else 0
        return late, float(self.key(job, view.system)), int(job["sequence"])
