"""How well a model of the present scheduler reproduces the waits of a log: the error that every what-if carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.traces import JobTrace
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.metrics.statistics import mean, nearest_rank
from eunomia.report.units import counted, value_text
from eunomia.study.cluster.run import ClusterRunResult

OFF = 2.0  # a replay's mean wait is this many times the log's, or a part of it: the model does not fit
FAR = (
    f"The mean waits are over a factor of {OFF:g} apart, so read changes as signs, not as sizes: give the scheduler's "
    "own file and nodes, or more of the log"
)
SKIPPED = 0.1  # of the jobs, the first: the log's cluster was full when they came, the replay's was empty


@dataclass(frozen=True)
class Calibration:
    """Waits of the log and of its replay over the same jobs, s; ``jobs`` 0: the log has no waits."""

    jobs: int
    observed_mean_s: float = float("nan")
    replayed_mean_s: float = float("nan")
    median_error_s: float = float("nan")  # half of the jobs are off by more
    p90_error_s: float = float("nan")

    @property
    def error_s(self) -> float:
        """What the replay's mean wait is above the log's."""
        return self.replayed_mean_s - self.observed_mean_s

    @property
    def fits(self) -> bool:
        """Whether both mean waits are within a factor of ``OFF``; under a second they always are."""
        low, high = sorted((self.observed_mean_s, self.replayed_mean_s))
        return not high > max(OFF * low, 1.0)

    def text(self) -> str:
        """One sentence, and a second one where the replay is far from the log."""
        if not self.jobs:
            return "calibration: the log has no waits, so the error of the replay is unknown"
        far = "" if self.fits else f". {FAR}"
        return (
            f"calibration: over {counted(self.jobs, 'job')} (without the first {SKIPPED:.0%}) the replay waits "
            f"{_text(self.replayed_mean_s)} on average, the log {_text(self.observed_mean_s)}; "
            f"{self._errors()}{far}"
        )

    def _errors(self) -> str:
        """How far single jobs are off."""
        if self.p90_error_s < 1.0:
            return "nine in ten jobs wait as long as in the log"
        if self.median_error_s < 1.0:
            return f"half of the jobs wait as long as in the log, a tenth is off by more than {_text(self.p90_error_s)}"
        half, tenth = _text(self.median_error_s), _text(self.p90_error_s)
        return f"half of the jobs are off by more than {half}, a tenth by more than {tenth}"


def _text(seconds: float) -> str:
    return value_text(CLUSTER_METRICS["wait_mean_s"], seconds)


def calibrate(trace: JobTrace, replay: ClusterRunResult) -> Calibration:
    """Compare waits job by job. ``trace`` holds the jobs of the replay, by arrival."""
    wait_s = dict(zip(trace.ids, np.asarray(trace.more.get("wait_s", ()), float).tolist(), strict=False))
    jobs = replay.records["jobs"]
    ids = jobs["job"].to_pylist()
    observed = np.array([wait_s.get(name, np.nan) for name in ids])
    replayed = (jobs["start_s"].cast("double").to_numpy() - jobs["arrival_s"].to_numpy()).astype(float)
    kept = np.arange(len(ids)) >= SKIPPED * len(ids)
    kept &= ~np.isnan(observed) & ~np.isnan(replayed)
    if not kept.any():
        return Calibration(0)
    error_s = np.abs(replayed - observed)[kept]
    return Calibration(
        int(kept.sum()),
        mean(observed[kept]),
        mean(replayed[kept]),
        nearest_rank(error_s, 50.0),
        nearest_rank(error_s, 90.0),
    )


def figures_of_log(trace: JobTrace) -> dict[str, float]:
    """The metrics that a log itself gives, over all of its jobs; empty where a wait or a run time is missing."""
    wait_s, run_s = np.asarray(trace.more.get("wait_s", ()), float), trace.duration_s
    if len(wait_s) != len(trace) or np.isnan(wait_s).any() or np.isnan(run_s).any():
        return {}
    jct_s = wait_s + run_s
    return {
        "jct_mean_s": mean(jct_s),
        "jct_median_s": nearest_rank(jct_s, 50.0),
        "jct_p95_s": nearest_rank(jct_s, 95.0),
        "jct_p99_s": nearest_rank(jct_s, 99.0),
        "jct_max_s": nearest_rank(jct_s, 100.0),
        "wait_mean_s": mean(wait_s),
        "makespan_s": float((trace.arrival_s + jct_s).max() - trace.arrival_s[0]),
    }
