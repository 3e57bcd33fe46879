"""The contract of the inference wing: what a policy sees, and what it may answer.

A policy is any callable ``View -> Sequence[Assign]``. It is called when a sub-job is ready and an accelerator
is idle (event-driven), or at every period boundary (periodic). It may hold: an empty answer leaves
accelerators idle until the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Facts of one ready sub-job, at the moment it became ready unless said otherwise.
READY = np.dtype(
    [
        ("request", "i8"),  # row of the request table
        ("layer", "i8"),  # index within its model
        ("row", "i8"),  # row of the cost table
        ("model", "i8"),
        ("tenant", "i8"),
        ("pair", "i8"),  # (tenant, model) agreement
        ("arrival_s", "f8"),
        ("deadline_s", "f8"),  # absolute; inf = none
        ("ready_s", "f8"),  # since when it waits
        ("work_best_s", "f8"),  # sum of estimated latency over unfinished layers, best type
        ("work_mean_s", "f8"),  # the same, mean over types
        ("path_best_s", "f8"),  # critical path from this layer to the end, best type, this layer included
        ("path_mean_s", "f8"),  # the same, mean over types: HEFT's upward rank
        ("iso_best_s", "f8"),  # isolated time of the whole model, best type
        ("iso_mean_s", "f8"),
        ("bytes_left", "f8"),  # DRAM bytes of unfinished layers on their best type
        ("attained_s", "f8"),  # accelerator time that the request has received
        ("last_run_s", "f8"),  # when a layer of the request last ended; arrival if none
        ("priority", "f8"),
        ("weight", "f8"),  # the tenant's
        ("slo", "f8"),  # target of the pair; nan = none
        ("sli", "f8"),  # measured indicator of the pair, NOW; nan = empty window
        ("gap", "f8"),  # signed shortfall of the pair, NOW: positive = target missed; 0 without SLO or data
        ("sli_count", "i8"),  # requests in the window, NOW
        ("layers_done", "i8"),
        ("layers_total", "i8"),
        ("deferrable", "i8"),
        ("late", "i8"),  # 1 = hopeless NOW: deadline_s < now_s + path_best_s
        ("sequence", "i8"),  # order of becoming ready: the tie-break
        ("accelerator", "i8"),  # where its request's last finished layer ran; -1 = none
        ("bound", "i8"),  # accelerator whose queue it is in, NOW (queueing rules, periods); -1 = none
    ],
    align=True,
)

ACCELERATOR = np.dtype(
    [
        ("type", "i8"),
        ("request", "i8"),  # running request; -1 = idle
        ("layer", "i8"),
        (
            "free_in_s",
            "f8",
        ),  # estimated isolated time left of the running layer; 0 = idle (no slowdown applied)
        ("demand_bytes_s", "f8"),  # estimated demand of the running layer
        ("last_request", "i8"),  # whose layer ran last here; -1 = none
        ("queued", "i8"),  # sub-jobs bound to it (periodic and queueing rules)
        ("queued_s", "f8"),  # their estimated time
        ("busy_s", "f8"),  # time it has been busy so far
    ],
    align=True,
)

SYSTEM = np.dtype(
    [
        ("now_s", "f8"),
        ("bandwidth_bytes_s", "f8"),  # B; inf = unlimited
        ("demand_bytes_s", "f8"),  # D: estimated demand of running layers
        ("starts", "i8"),  # layers started so far (round robin reads it)
        ("binds", "i8"),  # sub-jobs bound to queues so far
        ("live", "i8"),  # requests in the system
        ("finished", "i8"),
        ("seed", "i8"),
        ("late_last", "i8"),  # 1 = the operator wants hopeless requests served after all others
        (
            "period_s",
            "f8",
        ),  # > 0: asked at the ticks of this period, to queue sub-jobs; 0 = event-driven, to start them
        ("parameters", "f8", (8,)),  # constants of the policy
        # where the arrays stand that the policy brings along, and their sizes: core/addresses.py writes and reads them
        ("block_at", "u8", (8,)),
        ("block_bytes", "i8", (8,)),
        # scratch of the policy: 0 at the start, kept for the run, the one thing it may write
        ("memory", "f8", (64,)),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Assign:
    """Start (event-driven) or queue (periodic) one ready sub-job on one accelerator.

    ``priority``: higher first, read in periodic mode only.
    """

    request: int
    layer: int
    accelerator: int
    priority: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """All that a scheduler may know now; never the future. Arrays are read-only.

    Costs are the scheduler's estimates, which may differ from what the engine will apply.
    """

    system: np.void  # SYSTEM
    ready: npt.NDArray[np.void]  # (n,) READY, in order of ``sequence``
    accelerators: npt.NDArray[np.void]  # (S,) ACCELERATOR
    latency_s: npt.NDArray[np.float64]  # (n, S) estimated isolated latency c'; inf = cannot run
    demand_bytes_s: npt.NDArray[np.float64]  # (n, S) estimated bandwidth demand b'
    energy_j: npt.NDArray[np.float64]  # (n, S)

    @property
    def now_s(self) -> float:
        """The clock."""
        return float(self.system["now_s"])

    @property
    def idle(self) -> npt.NDArray[np.int64]:
        """Indices of idle accelerators, ascending."""
        return np.flatnonzero(self.accelerators["request"] < 0)

    @property
    def slowdown(self) -> float:
        """max(1, D / B): how much running layers are slowed under proportional sharing."""
        return max(1.0, float(self.system["demand_bytes_s"] / self.system["bandwidth_bytes_s"]))

    def __iter__(self) -> Iterator[np.void]:
        """The ready sub-jobs as READY records."""
        return iter(self.ready)

    def __len__(self) -> int:
        return len(self.ready)

    def assign(self, index: int, accelerator: int, priority: float = 0.0) -> Assign:
        """The decision to run ready sub-job ``index`` of this view on ``accelerator``."""
        job = self.ready[index]
        return Assign(int(job["request"]), int(job["layer"]), int(accelerator), priority)


Policy = Callable[[View], Sequence[Assign]]
