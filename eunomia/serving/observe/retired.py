"""One request that has its answer, as ledger, metrics and page see it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import named

MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class Retired:
    """Times in seconds. ``outcome``: hit, late, or the reason of an error."""

    tenant: str
    model: str
    outcome: str
    response_s: float
    queue_s: float
    service_s: float
    batch: int
    preemptions: int
    deadline_s: float  # relative; inf = none
    reach_s: float = 0.0  # from its acceptance until devices had their orders
    answer_s: float = 0.0  # from the end of its last run
    version: str = "1"  # of the network
    # Where the block times of its shape stand in the costs: first row, blocks; and how often it went through them.
    size: tuple[int, int, int] = (0, 0, 1)
    work_s: float = 0.0  # of its blocks
    expected_s: float = 0.0  # that they take in the mean; 0 where nobody knows
    lost_s: float = 0.0  # before its runs
    usual_s: float = 0.0  # that such starts lose in the mean
    runs: int = 0
    worked_on: int = -1  # the only device that ran them; -1 = none, -2 = several, or together with others

    @property
    def answered(self) -> bool:
        """Whether the client got the network's outputs."""
        return self.outcome in ("hit", "late")


def _parts(job: Job) -> int:
    """As often as it was to run, about: few numbers are told apart."""
    if job.parts == 1 and not job.later:
        return 1
    count = job.parts + math.ceil(job.later / job.batch)
    return int(min(2 ** round(math.log2(count)), MOST_PARTS))


def retired_from(job: Job, tenant: str, model: str, outcome: str, now_s: float) -> Retired:
    """Of a job that has its answer now."""
    queue_s = (job.start_s if math.isfinite(job.start_s) else now_s) - job.arrival_s
    return Retired(
        tenant, model, outcome, now_s - job.arrival_s, queue_s, job.attained_s,
        job.all_rows, job.preemptions, job.deadline_s - job.arrival_s, job.reach_s, job.answer_s,
        named(job.network.name)[1], (job.cost_row, job.network.blocks, _parts(job)), job.work_s,
        max(job.expected_s, 0.0), job.lost_s, job.usual_s, job.runs, job.worked_on,
    )  # fmt: skip
