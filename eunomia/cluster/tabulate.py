"""A finished simulation as tables in the schemas of ``eunomia.core.schemas_cluster``, and the facts of its manifest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.simulate import ClusterRun
from eunomia.core.arrays import Floats, Ints
from eunomia.core.data import Json

RHO = "completion time over C, the time that the same steps take under the isolated share N_j / (M s_m) of each moment"


def tables_of(run: ClusterRun) -> dict[str, pa.Table]:
    """jobs, devices, allocations; leases and choices as far as they were recorded."""
    found = {"jobs": _jobs(run), "devices": _devices(run), "allocations": _allocations(run)}
    if run.options.record != "jobs":
        found["leases"] = _leases(run)
    if run.options.record == "all":
        found["choices"] = _choices(run)
    return found


def facts_of(run: ClusterRun) -> Json:
    """What the manifest says about this run."""
    problem = run.problem
    return {
        "kind": "cluster",
        "policy": run.policy,
        "seed": run.options.seed,
        "options": asdict(run.options),
        "cluster": [asdict(kind) for kind in problem.cluster.types],
        "throughputs": problem.table.source,
        "jobs_submitted": len(problem),
        "load": offered_load(problem),
        "rho_definition": RHO,
        "first_arrival_s": float(problem.arrival_s[0]),
        "end_s": end_s(run),
        "simulation_wall_s": run.wall_s,
        **_solve_times(run),
        "remarks": run.recorder.notes,
    }


def _solve_times(run: ClusterRun) -> dict[str, float]:
    """Wall time of the policy's answers; in the manifest, because tables hold no clock times."""
    took = np.sort([asked.solve_s for asked in run.recorder.asked])
    if not len(took):
        return {"solve_median_s": float("nan"), "solve_p95_s": float("nan")}
    rank = [int(np.ceil(part * len(took))) - 1 for part in (0.5, 0.95)]
    return {"solve_median_s": float(took[rank[0]]), "solve_p95_s": float(took[rank[1]])}


def end_s(run: ClusterRun) -> float:
    """The last finish, or when the run was stopped with jobs unfinished."""
    g = run.ledger
    return run.end_s if len(g.unfinished) or np.isnan(g.finish_s).all() else float(np.nanmax(g.finish_s))


def offered_load(p: ClusterProblem) -> float:
    """Device-seconds of work at proportional-share speed, per device-second of the span of arrivals; nan = no span.

    A job's speed is sum_j N_j T_j / sum over the types that it can run on of N_j.
    """
    span_s = float(p.arrival_s[-1] - p.arrival_s[0])
    counts = p.cluster.counts
    speed = (p.speed * counts).sum(axis=1) / ((p.speed > 0.0) * counts).sum(axis=1)
    work = float((p.scale * p.total_steps / speed).sum())
    return work / (float(counts.sum()) * span_s) if span_s > 0.0 else float("nan")


def contention(arrival_s: Floats, leave_s: Floats) -> Floats:
    """Average number of jobs present over the life of each, itself included, shape (N,)."""
    times = np.concatenate([arrival_s, leave_s])
    change = np.repeat([1.0, -1.0], len(arrival_s))
    order = np.argsort(times, kind="stable")
    at, present = times[order], np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(present[:-1] * np.diff(at))])
    integral = np.interp(leave_s, at, area) - np.interp(arrival_s, at, area)
    life = leave_s - arrival_s
    return np.asarray(np.divide(integral, life, out=np.ones(len(life)), where=life > 0.0))


def _jobs(run: ClusterRun) -> pa.Table:
    p, g = run.problem, run.ledger
    ended = end_s(run)
    leave_s = np.where(np.isnan(g.finish_s), np.maximum(ended, p.arrival_s), g.finish_s)
    outcome = np.where(g.dropped, 2, np.where(np.isnan(g.finish_s), 1, 0))
    price = p.cluster.cost_per_hour / 3600.0
    columns: dict[str, Any] = {
        "job": [job.job_id for job in p.jobs],
        "tenant": _named(p.tenant, p.tenants),
        "job_type": _named(*_codes([job.job_type for job in p.jobs])),
        "scale_factor": p.scale,
        "weight": p.weight,
        "arrival_s": p.arrival_s,
        "start_s": g.first_start_s,
        "finish_s": np.where(g.dropped, np.nan, g.finish_s),
        "outcome": _named(outcome, ("finished", "unfinished", "dropped")),
        "deadline_s": np.where(np.isinf(p.deadline_s), np.nan, p.deadline_s),
        "total_steps": p.total_steps,
        "steps_done": p.total_steps - g.steps_left,
        "alone_s": p.total_steps / p.speed.max(axis=1),
        "isolated_s": g.isolated_s,
        "contention": contention(p.arrival_s, leave_s),
        "held_s": g.attained_s.sum(axis=1),
        "cost": (g.attained_s * price).sum(axis=1),
    }
    for name in (
        "useful_s",
        "overhead_s",
        "lost_s",
        "starts",
        "preemptions",
        "moves",
        "resizes",
        "failures",
    ):
        columns[name] = getattr(g, name)
    return pa.table(columns)


def _devices(run: ClusterRun) -> pa.Table:
    p = run.problem
    first, last = float(p.arrival_s[0]), end_s(run)
    missing = np.zeros(len(p.cluster.types))
    for server, start, stop in run.recorder.downtime:
        down = max(min(stop, last) - max(start, first), 0.0)
        missing[p.cluster.server_type[server]] += down * p.cluster.server_size[server]
    return pa.table(
        {
            "type": list(p.cluster.names),
            "count": p.cluster.counts,
            "servers": np.bincount(p.cluster.server_type, minlength=len(p.cluster.types)),
            "cost_per_hour": p.cluster.cost_per_hour,
            "available_s": p.cluster.counts * (last - first) - missing,
            "busy_s": run.ledger.attained_s.sum(axis=0),
        }
    )


def _allocations(run: ClusterRun) -> pa.Table:
    asked = run.recorder.asked
    return pa.table(
        {
            "time_s": pa.array([a.time_s for a in asked], pa.float64()),
            "jobs": pa.array([a.jobs for a in asked], pa.int64()),
            "objective": pa.array([a.objective for a in asked], pa.float64()),
            "notes": pa.array(["; ".join(f"{k}: {t}" for k, t in a.notes) for a in asked], pa.string()),
        }
    )


def _leases(run: ClusterRun) -> pa.Table:
    """Leases in order of their start; touching leases of the same devices are one."""
    names = tuple(job.job_id for job in run.problem.jobs)
    none, no_time = np.zeros(0, np.int64), np.zeros(0)
    parts = run.recorder.leases or [(none, none, none, none, no_time, no_time)]
    key, kind, server, count, start_s, end = (np.concatenate([part[i] for part in parts]) for i in range(6))
    order = np.lexsort((start_s, server, key))
    key, kind, server, count, start_s, end = (a[order] for a in (key, kind, server, count, start_s, end))
    same = (key[1:] == key[:-1]) & (server[1:] == server[:-1]) & (count[1:] == count[:-1])
    same &= start_s[1:] <= end[:-1] + 1e-6
    begins = np.concatenate([[True], ~same]) if len(key) else np.zeros(0, np.bool_)
    ends = np.concatenate([~same, [True]]) if len(key) else begins
    key, kind, server, count = key[begins], kind[begins], server[begins], count[begins]
    start_s, end = start_s[begins], end[ends]
    order = np.lexsort((server, key, start_s))
    return pa.table(
        {
            "job": _named(key[order], names),
            "type": _named(kind[order], run.problem.cluster.names),
            "server": server[order],
            "devices": count[order],
            "start_s": start_s[order].astype(np.float64),
            "end_s": end[order].astype(np.float64),
        }
    )


def _choices(run: ClusterRun) -> pa.Table:
    names = tuple(job.job_id for job in run.problem.jobs)
    types = len(run.problem.cluster.types)
    chosen = run.recorder.choices
    units = np.array([len(choice[1]) for choice in chosen], np.int64)
    kind = np.tile(np.arange(types), int(units.sum()))
    first = _repeated([choice[1] for choice in chosen], types)
    second = _repeated([choice[2] for choice in chosen], types)
    ran = np.concatenate([choice[3].ravel() for choice in chosen]) if chosen else np.zeros(0, np.bool_)
    priority = _joined([choice[4].ravel() for choice in chosen])
    return pa.table(
        {
            "point": np.repeat(np.arange(len(chosen)), units * types),
            "time_s": np.repeat(np.array([choice[0] for choice in chosen]), units * types),
            "job": _named(first, names),
            "partner": _named(second, names),
            "type": _named(kind, run.problem.cluster.names),
            "share": _joined([choice[6].ravel() for choice in chosen]),
            "deficit_s": _joined([choice[5].ravel() for choice in chosen]),
            "priority": np.where(np.isfinite(priority), priority, np.nan),
            "scale_factor": run.problem.scale[first],
            "ran": ran,
            "reason": _reasons(run, units, types),
        }
    )


def _reasons(run: ClusterRun, units: Ints, types: int) -> pa.Array:
    """The reason of each unit at each point, repeated for each type."""
    code = np.full(int(units.sum()), -1, np.int64)
    start, known = np.concatenate([[0], np.cumsum(units)]), {"": -1}
    for point, texts in run.recorder.reasons.items():
        here = [known.setdefault(text, len(known) - 1) for text in texts]
        code[start[point] : start[point] + len(here)] = here
    return _named(np.repeat(code, types), tuple(known)[1:])


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _repeated(parts: list[Ints], times: int) -> Ints:
    """Each entry ``times`` times, all parts one after the other."""
    return np.repeat(np.concatenate(parts), times) if parts else np.zeros(0, np.int64)


def _codes(values: list[str]) -> tuple[Ints, tuple[str, ...]]:
    names = tuple(dict.fromkeys(values))
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[value] for value in values], np.int64), names


def _named(codes: Ints, names: tuple[str, ...]) -> pa.Array:
    """A dictionary column; code -1 is null."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))
