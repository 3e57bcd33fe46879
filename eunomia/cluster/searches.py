"""Jobs of a trace as hyperparameter searches: several trials each, with loss curves drawn by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eunomia.cluster.job import TrainingJob

SEARCH_STREAM = 10
FALL = 9.0  # a trial's loss above its end falls to a tenth over its budget: 1 / (9 k / steps + 1)


def as_searches(jobs: Sequence[TrainingJob], trials: int, seed: int) -> list[TrainingJob]:
    """Each job becomes an app of ``trials`` jobs like it, ``ID.0``, ``ID.1``, and so on, that arrive together.

    Loss of a trial after k of its steps: 1 / (9 k / steps + 1) + c, c uniform in [0, 1] (traits ``loss_a``,
    ``loss_b``, ``loss_c``): trials of a search differ in where they end, which no trace holds. Every trial
    has the job's whole budget, so without a tuner that stops some the work is ``trials`` times as much. Other
    traits are kept.
    """
    ends = np.random.default_rng([seed, SEARCH_STREAM]).random((len(jobs), trials))
    return [
        replace(
            job,
            job_id=f"{job.job_id}.{t}",
            app_id=job.job_id,
            traits={**job.traits, "loss_a": FALL / job.total_steps, "loss_b": 1.0, "loss_c": float(end)},
        )
        for job, row in zip(jobs, ends, strict=True)
        for t, end in enumerate(row.tolist())
    ]
