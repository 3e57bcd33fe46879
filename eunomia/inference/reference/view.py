"""The View of docs/engine.md, built from the reference engine's state."""

from __future__ import annotations

import numpy as np

from eunomia.contract.view import ACCELERATOR, READY, SYSTEM, View
from eunomia.inference.reference.engine import Engine
from eunomia.inference.reference.state import Job

_COPIED = (
    "request",
    "layer",
    "row",
    "arrival_s",
    "deadline_s",
    "ready_s",
    "work_best_s",
    "work_mean_s",
    "path_best_s",
    "path_mean_s",
    "iso_best_s",
    "iso_mean_s",
    "bytes_left",
    "attained_s",
    "last_run_s",
    "priority",
    "layers_done",
    "sequence",
    "accelerator",
)


def build_view(engine: Engine, jobs: list[Job]) -> View:
    """What a policy sees of these sub-jobs, in order of sequence."""
    jobs = sorted(jobs, key=lambda job: job.sequence)
    ready = np.zeros(len(jobs), READY)
    latency, demand, energy = (np.zeros((len(jobs), len(engine.lanes))) for _ in range(3))
    for i, job in enumerate(jobs):
        _fill(ready, i, engine, job)
        for lane in engine.lanes:
            latency[i, lane.index] = engine.beliefs.latency[job.row][lane.kind]
            demand[i, lane.index] = engine.beliefs.demand(job.row, lane.kind)
            energy[i, lane.index] = engine.problem.costs.energy_j[job.row, lane.kind]
    view = View(_system(engine), ready, _accelerators(engine), latency, demand, energy)
    for array in (view.ready, view.accelerators, view.latency_s, view.demand_bytes_s, view.energy_j):
        array.flags.writeable = False
    return view


def _fill(ready: np.ndarray, i: int, engine: Engine, job: Job) -> None:
    owner, jobs = job.owner, engine.problem.jobs
    for name in _COPIED:
        ready[name][i] = getattr(job, name)
    reading = engine.indicator(owner.pair)
    ready["model"][i], ready["pair"][i] = owner.model, owner.pair
    ready["tenant"][i], ready["weight"][i] = jobs.tenant_of[owner.pair], jobs.weight[owner.pair]
    ready["slo"][i] = jobs.slo_target[owner.pair]
    ready["sli"][i], ready["gap"][i], ready["sli_count"][i] = reading.sli, reading.gap, reading.samples
    ready["layers_total"][i], ready["deferrable"][i] = owner.layers, jobs.deferrable[owner.index]
    ready["late"][i] = job.is_late(engine.now_s)
    ready["bound"][i] = -1 if job.bound is None else job.bound


def _accelerators(engine: Engine) -> np.ndarray:
    table = np.zeros(len(engine.lanes), ACCELERATOR)
    for lane, spot in zip(engine.lanes, engine.spots(None), strict=True):
        run = lane.running
        table[lane.index] = (
            lane.kind,
            run.job.request if run else -1,
            run.job.layer if run else -1,
            spot.free_s,
            run.demand_bytes_s if run else 0.0,
            lane.last_request,
            spot.queued,
            spot.queued_s,
            lane.busy_until(engine.now_s),
        )
    return table


def _system(engine: Engine) -> np.void:
    table = np.zeros(1, SYSTEM)
    facts = {
        "now_s": engine.now_s,
        "bandwidth_bytes_s": engine.bandwidth,
        "demand_bytes_s": engine.estimated_demand(),
        "starts": len(engine.decisions),
        "binds": engine.binds,
        "live": len(engine.live),
        "finished": engine.departed,
        "seed": engine.options.seed,
        "late_last": engine.options.late == "last",
        "period_s": engine.options.period_s or 0.0,
    }
    for name, value in facts.items():
        table[name] = value
    record: np.void = table[0]
    return record
