"""Figures of a cluster run: completion times, fairness, use of devices, cost, deadlines. Formulas: docs/cluster.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.core.arrays import Floats
from eunomia.metrics.fairness import jain
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import mean, nearest_rank

UNFAIR = 1.05  # rho above which a job was treated unfairly, as in Shockwave (NSDI 2023)


CLUSTER_METRICS: dict[str, Metric] = {
    "jobs": Metric("jobs submitted", "jobs", "count", "neither"),
    "finished": Metric("jobs finished", "finished", "count", "higher"),
    "unfinished": Metric("jobs unfinished", "unfinished", "count", "lower"),
    "dropped": Metric("jobs dropped", "dropped", "count", "lower"),
    "jct_mean_s": Metric("average JCT (job completion time)", "average JCT", "s", "lower"),
    "jct_median_s": Metric("median JCT", "median JCT", "s", "lower"),
    "jct_p95_s": Metric("p95 JCT", "p95 JCT", "s", "lower"),
    "jct_p99_s": Metric("p99 JCT", "p99 JCT", "s", "lower"),
    "jct_max_s": Metric("longest JCT", "longest JCT", "s", "lower"),
    "wait_mean_s": Metric("average wait until the first start", "average wait", "s", "lower"),
    "makespan_s": Metric("makespan", "makespan", "s", "lower"),
    "rho_mean": Metric("mean rho", "mean rho", "ratio", "lower"),
    "rho_p99": Metric("p99 rho", "p99 rho", "ratio", "lower"),
    "rho_max": Metric("worst rho", "worst rho", "ratio", "lower"),
    "unfair": Metric("unfair (share of jobs with rho > 1.05)", "unfair", "share", "lower"),
    "above_one": Metric("share of jobs with rho > 1", "rho > 1", "share", "lower"),
    "rho_themis_max": Metric("worst rho (Themis' ideal time)", "worst rho (Themis)", "ratio", "lower"),
    "jain": Metric("Jain's index of 1 / rho", "Jain", "ratio", "higher"),
    "busy": Metric("utilisation (devices held)", "utilisation", "share", "higher"),
    "useful": Metric("useful (devices making lasting progress)", "useful", "share", "higher"),
    "cost": Metric("cost of devices held", "cost", "cost", "lower"),
    "slo_attainment": Metric("SLO attainment", "SLO attainment", "share", "higher"),
    "preemptions": Metric("preemptions", "preemptions", "count", "lower"),
    "moves": Metric("moves", "moves", "count", "lower"),
    "restarts": Metric("restarts", "restarts", "count", "lower"),
    "failures": Metric("failures met by jobs", "failures", "count", "lower"),
    "overhead_h": Metric("device-hours of restarts", "device-hours of restarts", "h", "lower"),
    "lost_h": Metric("device-hours lost to failures", "device-hours lost", "h", "lower"),
    "solve_median_s": Metric("median solve time", "median solve", "s", "lower"),
    "solve_p95_s": Metric("p95 solve time", "p95 solve", "s", "lower"),
    "contention": Metric("jobs present (average over jobs)", "jobs present", "count", "neither"),
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
