"""Classical load balancing (section 7.2): sub-jobs are bound to an accelerator's queue when they become ready."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.contract.rows import CompiledKey
from eunomia.contract.view import Assign, View
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.setup import BINDS, QUEUES, Rules
from eunomia.inference.kernel.signatures import compile_key
from eunomia.inference.policies.ordering import find_order


@dataclass(frozen=True)
class Queueing:
    """One queue per accelerator; ``bind`` chooses the queue, ``order`` serves it.

    ``round_robin``: queues in turn. ``random``: uniformly, from the run's seed. ``least_loaded``: least
    estimated work, running layer included. ``throttled``: the first accelerator with fewer than
    ``throttle`` sub-jobs, the running one included; when all are full the sub-job waits outside.
    Accelerators unable to run the layer are skipped. These rules ignore how fast an accelerator is
    for the layer, so they do badly on unequal hardware.
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
        """Every idle accelerator takes the head of its queue; the engine has bound the sub-jobs."""
        started = []
        for s in view.idle:
            mine = [i for i in range(len(view)) if view.ready[i]["bound"] == s]
            if mine:
                started.append(view.assign(min(mine, key=lambda i: self._rank(view, i)), int(s)))
        return started

    def _rank(self, view: View, i: int) -> tuple[int, float, int]:
        job = view.ready[i]
        late = int(job["late"]) if view.system["late_last"] else 0
        return late, float(self.key(job, view.system)), int(job["sequence"])
