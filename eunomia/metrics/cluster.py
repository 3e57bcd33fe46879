"""Figures of a cluster run: completion times, fairness, use of devices, cost, deadlines. Formulas: docs/cluster.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.core.arrays import Floats
from eunomia.metrics.fairness import jain
from eunomia.metrics.metric import Direction, Metric, Unit
from eunomia.metrics.statistics import mean, nearest_rank

UNFAIR = 1.05  # rho above which a job was treated unfairly, as in Shockwave (NSDI 2023)


@dataclass(frozen=True)
class ClusterMetric(Metric):
    """A number of a cluster run; ``formula`` is its text in docs/cluster.md and in the report."""

    formula: str

    @property
    def definition(self) -> str:
        """Its formula in words."""
        return self.formula


def _of(formula: str, label: str, heading: str, unit: Unit, better: Direction) -> ClusterMetric:
    return ClusterMetric(label, heading, unit, better, formula)


# a: arrival of a job, f: its finish. A: device-seconds that all devices were available.
JCT = "f - a, of finished jobs: look at unfinished first."
RHO = (
    "rho = (f - a) / C. C: time for the job's steps under the isolated share, N_j / (M s_m) of each type with M jobs "
    "present, rows cut to sum 1. Unfair: rho above 1.05."
)
COUNTS = "Jobs by what became of them until the end of the run."
CHANGES = "Sums over jobs: put off their devices, put on others, started again, met by a failure."
LOST = "Device time of saving, loading and warming up; of steps that a failure undid."
SOLVE = "Wall time of the policy's answers; in the manifest only."
WAIT = "First start less a, of jobs that started."
THEMIS = (
    "(f - a) / (N_avg * time alone on the fastest type), N_avg the jobs present on average over its life."
)
JAIN = "(sum x)^2 / (n sum x^2) of x = 1 / rho."
USEFUL = "Device-seconds of lasting steps at consolidated speed / A: no restarts, lost progress, slowdown by spread."
COST = "Device time held times the price of its type."
ATTAINED = "Share of jobs with a deadline that finished by it. Deadlines after the end of a run do not count."
PRESENT = "Jobs present over the life of a job, averaged over the jobs."
SPAN = "Last f less the first a of the run."
CLUSTER_METRICS: dict[str, ClusterMetric] = {
    "jobs": _of(COUNTS, "jobs submitted", "jobs", "count", "neither"),
    "finished": _of(COUNTS, "jobs finished", "finished", "count", "higher"),
    "unfinished": _of(COUNTS, "jobs unfinished", "unfinished", "count", "lower"),
    "dropped": _of(COUNTS, "jobs dropped", "dropped", "count", "lower"),
    "jct_mean_s": _of(JCT, "average JCT (job completion time)", "average JCT", "s", "lower"),
    "jct_median_s": _of(JCT, "median JCT", "median JCT", "s", "lower"),
    "jct_p95_s": _of(JCT, "p95 JCT", "p95 JCT", "s", "lower"),
    "jct_p99_s": _of(JCT, "p99 JCT", "p99 JCT", "s", "lower"),
    "jct_max_s": _of(JCT, "longest JCT", "longest JCT", "s", "lower"),
    "wait_mean_s": _of(WAIT, "average wait until the first start", "average wait", "s", "lower"),
    "makespan_s": _of(SPAN, "makespan", "makespan", "s", "lower"),
    "rho_mean": _of(RHO, "mean rho", "mean rho", "ratio", "lower"),
    "rho_p99": _of(RHO, "p99 rho", "p99 rho", "ratio", "lower"),
    "rho_max": _of(RHO, "worst rho", "worst rho", "ratio", "lower"),
    "unfair": _of(RHO, "unfair (share of jobs with rho > 1.05)", "unfair", "share", "lower"),
    "above_one": _of(RHO, "share of jobs with rho > 1", "rho > 1", "share", "lower"),
    "rho_themis_max": _of(THEMIS, "worst rho (Themis' ideal time)", "worst rho (Themis)", "ratio", "lower"),
    "jain": _of(JAIN, "Jain's index of 1 / rho", "Jain", "ratio", "higher"),
    "busy": _of("Device-seconds held / A.", "utilisation (devices held)", "utilisation", "share", "higher"),
    "useful": _of(USEFUL, "useful (devices making lasting progress)", "useful", "share", "higher"),
    "cost": _of(COST, "cost of devices held", "cost", "cost", "lower"),
    "slo_attainment": _of(ATTAINED, "SLO attainment", "SLO attainment", "share", "higher"),
    "preemptions": _of(CHANGES, "preemptions", "preemptions", "count", "lower"),
    "moves": _of(CHANGES, "moves", "moves", "count", "lower"),
    "restarts": _of(CHANGES, "restarts", "restarts", "count", "lower"),
    "failures": _of(CHANGES, "failures met by jobs", "failures", "count", "lower"),
    "overhead_h": _of(LOST, "device-hours of restarts", "device-hours of restarts", "h", "lower"),
    "lost_h": _of(LOST, "device-hours lost to failures", "device-hours lost", "h", "lower"),
    "solve_median_s": _of(SOLVE, "median solve time", "median solve", "s", "lower"),
    "solve_p95_s": _of(SOLVE, "p95 solve time", "p95 solve", "s", "lower"),
    "contention": _of(PRESENT, "jobs present (average over jobs)", "jobs present", "count", "neither"),
}
HEADLINES = (
    "jct_mean_s",
    "jct_p99_s",
    "makespan_s",
    "rho_mean",
    "rho_max",
    "unfair",
    "jain",
    "busy",
    "useful",
    "cost",
    "slo_attainment",
    "preemptions",
    "unfinished",
)


def nothing_drawn(seeds: Sequence[Mapping[str, float | None]]) -> bool:
    """Whether all seeds of a policy gave the same metrics; ``seeds``: the metrics of each.

    Then several seeds are one sample, and an interval of 0 would say what nobody knows. Solve times do not count.
    """
    told = {str(sorted((k, str(v)) for k, v in one.items() if not k.startswith("solve_"))) for one in seeds}
    return len(seeds) > 1 and len(told) == 1


@dataclass(frozen=True)
class JobColumns:
    """The columns of a jobs table that figures are made of, (n,) each; nan = does not apply."""

    jct_s: Floats  # finished jobs only
    wait_s: Floats
    rho: Floats
    rho_themis: Floats
    late: Floats  # 1 = missed its deadline, 0 = met it, nan = none
    values: Mapping[str, Floats]


def job_columns(jobs: pa.Table, end_s: float) -> JobColumns:
    """Completion times, rho and deadlines of every job.

    rho = (finish - arrival) / C with C from the table; rho by Themis = (finish - arrival) / (N_avg * alone time).
    """
    read = {
        name: jobs[name].cast(pa.float64()).to_numpy()
        for name in jobs.column_names
        if name not in ("job", "tenant", "job_type", "outcome")
    }
    jct_s = read["finish_s"] - read["arrival_s"]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.where(read["isolated_s"] > 0.0, jct_s / read["isolated_s"], np.nan)
        themis = jct_s / (read["contention"] * read["alone_s"])
    ends = np.where(np.isnan(read["finish_s"]), np.inf, read["finish_s"])
    due = read["deadline_s"]
    open_yet = np.isinf(ends) & (due > end_s)  # its deadline is still ahead
    late = np.where(np.isnan(due) | open_yet, np.nan, (ends > due).astype(float))
    return JobColumns(jct_s, read["start_s"] - read["arrival_s"], rho, themis, late, read)


def summarise_cluster(
    tables: Mapping[str, pa.Table], facts: Mapping[str, Any], first: int = 0, last: int | None = None
) -> dict[str, float]:
    """All of CLUSTER_METRICS; nan where nothing applies.

    ``first``, ``last``: measure only these jobs by order of arrival (a steady state); makespan, use of devices
    and cost always cover the whole run. Averages of times are over finished jobs: look at ``unfinished`` first.
    """
    jobs = tables["jobs"]
    part = jobs.slice(first, None if last is None else last - first)
    c = job_columns(part, float(facts["end_s"]))
    outcome = part["outcome"].cast(pa.string()).to_numpy(zero_copy_only=False)
    done, rho = c.jct_s[~np.isnan(c.jct_s)], c.rho[~np.isnan(c.rho)]
    result = {
        "jobs": float(part.num_rows),
        **{name: float((outcome == name).sum()) for name in ("finished", "unfinished", "dropped")},
        "jct_mean_s": mean(done),
        "jct_median_s": nearest_rank(done, 50.0),
        "jct_p95_s": nearest_rank(done, 95.0),
        "jct_p99_s": nearest_rank(done, 99.0),
        "jct_max_s": nearest_rank(done, 100.0),
        "wait_mean_s": mean(c.wait_s[~np.isnan(c.wait_s)]),
        "rho_mean": mean(rho),
        "rho_p99": nearest_rank(rho, 99.0),
        "rho_max": nearest_rank(rho, 100.0),
        "unfair": mean(rho > UNFAIR) if len(rho) else float("nan"),
        "above_one": mean(rho > 1.0 + 1e-9) if len(rho) else float("nan"),
        "rho_themis_max": nearest_rank(c.rho_themis[~np.isnan(c.rho_themis)], 100.0),
        "jain": jain(1.0 / rho) if len(rho) else float("nan"),
        "slo_attainment": 1.0 - mean(c.late[~np.isnan(c.late)]),
        "contention": mean(c.values["contention"]),
        **{name: float(c.values[name].sum()) for name in ("preemptions", "moves", "failures")},
        "restarts": float(np.maximum(c.values["starts"] - 1, 0).sum()),
        "overhead_h": float(c.values["overhead_s"].sum()) / 3600.0,
        "lost_h": float(c.values["lost_s"].sum()) / 3600.0,
    }
    result |= _whole_run(tables, facts)
    return {name: result[name] for name in CLUSTER_METRICS}


def _whole_run(tables: Mapping[str, pa.Table], facts: Mapping[str, Any]) -> dict[str, float]:
    """Makespan, use of devices, cost and solve times."""
    jobs, devices = tables["jobs"], tables["devices"]
    finish = jobs["finish_s"].drop_null().to_numpy()
    available = float(devices["available_s"].to_numpy().sum())
    held, useful = devices["busy_s"].to_numpy().sum(), jobs["useful_s"].to_numpy().sum()
    return {
        "makespan_s": float(finish.max()) - float(facts["first_arrival_s"]) if len(finish) else float("nan"),
        "busy": float(held) / available if available > 0.0 else float("nan"),
        "useful": float(useful) / available if available > 0.0 else float("nan"),
        "cost": float(jobs["cost"].to_numpy().sum()),
        "solve_median_s": _known(facts.get("solve_median_s")),
        "solve_p95_s": _known(facts.get("solve_p95_s")),
    }


def _known(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def tenant_shares(
    leases: pa.Table, jobs: pa.Table, edges: Floats, devices: int
) -> tuple[tuple[str, ...], Floats]:
    """Names of tenants and their share of all devices in each interval between ``edges``, shape (tenants, E - 1)."""
    tenant_of = dict(zip(jobs["job"].to_pylist(), jobs["tenant"].cast(pa.string()).to_pylist(), strict=True))
    names = tuple(dict.fromkeys(tenant_of.values()))
    held = np.zeros((len(names), len(edges) - 1))
    code = {name: number for number, name in enumerate(names)}
    who = np.array([code[tenant_of[job]] for job in leases["job"].cast(pa.string()).to_pylist()], np.int64)
    start, end = leases["start_s"].to_numpy(), leases["end_s"].to_numpy()
    count = leases["devices"].to_numpy()
    for i in range(len(edges) - 1):
        overlap = np.clip(np.minimum(end, edges[i + 1]) - np.maximum(start, edges[i]), 0.0, None)
        held[:, i] = np.bincount(who, overlap * count, len(names))
    return names, held / (np.diff(edges) * devices)
