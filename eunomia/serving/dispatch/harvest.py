"""Who takes what others leave: requests of some tenants are admitted only into room that is predicted to be free.

After the peak prediction of Kube-Knots (CLUSTER 2019). Each step the server notes two series of all *other* tenants:
device time, and tensor memory. The next sample of each is foreseen (``sharing/harvest/peak.py``). What is left of the
devices' time and of the memory is handed out to takers in order of arrival; who does not fit is refused until the
next step.

Does badly: jumps that the last 60 steps have not seen; takers' requests that take far longer than is believed; steps
shorter than requests: their device time counts in the step in which they end, and a taker's never fits.

Deviations: (1) pods are tenants, and nodes the server's devices together; (2) no rule against correlated neighbours,
which cost nodes in the back-test; (3) a margin is added to the forecast, as in the back-test; (4) memory is that of
tensors, for networks stay loaded and the memory of their processes does not fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Refused
from eunomia.sharing.harvest.peak import WINDOW, Peak

ELEMENT_BYTES = 4  # of a tensor that is not in the arena yet


@dataclass(frozen=True)
class HarvestOptions:
    """``room``: the part of device time and memory that all tenants together may take."""

    tenants: frozenset[str]
    forecast: str = "persistence"
    step_s: float = 1.0
    room: float = 1.0


@dataclass
class Harvest:
    """``used_bytes``: of the tensor memory, by the job of one or, for None, by all; ``all_bytes``: what there is."""

    options: HarvestOptions
    devices: int
    all_bytes: int
    used_bytes: Callable[[Job | None], int]
    jobs: Callable[[], list[tuple[str, Job, float]]]  # in the server now: tenant, job, seconds left
    step_at_s: float = -math.inf  # when the present step began
    others_s: float = 0.0  # device time of others in it
    left_s: float = 0.0  # for takers, in this step
    left_bytes: float = 0.0
    counts: dict[str, float] = field(
        default_factory=lambda: {"taken": 0.0, "refused": 0.0, "taken_seconds": 0.0}
    )

    def __post_init__(self) -> None:
        self.time, self.memory = Peak(self.options.forecast), Peak(self.options.forecast)

    def ran(self, tenant: str, took_s: float, now_s: float) -> None:
        """A run has ended."""
        self.advance(now_s)
        if tenant in self.options.tenants:
            self.counts["taken_seconds"] += took_s
        else:
            self.others_s += took_s

    def check(self, tenant: str, job: Job, own_s: float, now_s: float) -> None:
        """Whether what is left has room for a taker's request; raises Refused."""
        if tenant not in self.options.tenants:
            return
        self.advance(now_s)
        size = _bytes(job)
        if own_s > self.left_s or size > self.left_bytes:
            self.counts["refused"] += 1.0
            missing = "device time" if own_s > self.left_s else "memory for tensors"
            raise Refused(
                f"tenant '{tenant}' takes what others leave, and no {missing} is predicted to be left now",
                retry_after_s=max(0.001, self.step_at_s + self.options.step_s - now_s),
            )

    def take(self, tenant: str, job: Job, own_s: float) -> None:
        """Give a taker's request, which was checked just now, its part of what is left."""
        if tenant in self.options.tenants:
            self.left_s, self.left_bytes = self.left_s - own_s, self.left_bytes - _bytes(job)
            self.counts["taken"] += 1.0

    def give_back(self, tenant: str, job: Job, own_s: float) -> None:
        """What it was given just now: it could not enter after all."""
        if tenant in self.options.tenants:
            self.left_s, self.left_bytes = self.left_s + own_s, self.left_bytes + _bytes(job)
            self.counts["taken"] -= 1.0

    def advance(self, now_s: float) -> None:
        """Note the samples of all steps that are over, and hand out anew what is left."""
        if self.step_at_s == -math.inf:
            self.step_at_s = now_s
        steps = int((now_s - self.step_at_s) / self.options.step_s)
        if steps < 1:
            return
        self.step_at_s += steps * self.options.step_s
        takers = [(job, left_s) for name, job, left_s in self.jobs() if name in self.options.tenants]
        taken_bytes = sum(self.used_bytes(job) for job, _ in takers)
        others_bytes = max(0, self.used_bytes(None) - taken_bytes)
        for _ in range(min(steps, WINDOW)):  # in those behind the first nothing ended
            self.time.add(self.others_s / self.options.step_s)
            self.memory.add(float(others_bytes))
            self.others_s = 0.0
        busy_s = self.time.next * self.options.step_s + sum(left_s for _, left_s in takers)
        self.left_s = max(0.0, self.options.room * self.devices * self.options.step_s - busy_s)
        self.left_bytes = max(0.0, self.options.room * self.all_bytes - self.memory.next - taken_bytes)

    def shown(self, now_s: float) -> Mapping[str, float]:
        """For the metrics page; what is not foreseen yet is left out."""
        self.advance(now_s)
        found = {**self.counts, "left_seconds": self.left_s, "left_bytes": self.left_bytes}
        found |= {"others_seconds": self.time.next * self.options.step_s, "others_bytes": self.memory.next}
        found |= {"violations_time": float(self.time.violations)}
        return {name: value for name, value in found.items() if math.isfinite(value)}


def _bytes(job: Job) -> int:
    return job.all_rows * sum(job.sizes) * ELEMENT_BYTES
