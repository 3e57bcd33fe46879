"""From a place of a study to machine, costs and requests: the same for every policy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from eunomia.config.hardware import PlatformConfig
from eunomia.config.study import StudyEngine, WorkloadConfig
from eunomia.hardware.perturb import perturb
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.study.files import file_stamps
from eunomia.study.inference.bench import isolated_s
from eunomia.study.inference.machine import Machine, build_machine
from eunomia.workload import zoo
from eunomia.workload.deadlines import Level, QosIsolated
from eunomia.workload.generate import generate
from eunomia.workload.processes import Arrivals, arrivals
from eunomia.workload.requests import RequestTable
from eunomia.workload.sets import WorkloadSet, workload_set
from eunomia.workload.stream import Draw, Stream
from eunomia.workload.tenant import Agreement, Slo

PERTURBATION = 0xC057  # word of the seed of wrong costs


@dataclass(frozen=True)
class Ground:
    """A workload set on a machine. ``layer_s``: mean isolated time of a layer of the mix, on its best type."""

    chosen: WorkloadSet
    machine: Machine
    iso_best_s: dict[str, float]
    layer_s: float


@dataclass(frozen=True)
class Traffic:
    """What is sent to a ground: ``rate_per_s`` of all networks together, deadlines of level ``qos`` with ``alpha``."""

    workload: WorkloadConfig
    rate_per_s: float
    qos: Level
    alpha: float


@dataclass(frozen=True)
class Trace:
    """Requests of one run; those that arrive in [from_s, until_s) count."""

    requests: RequestTable
    from_s: float
    until_s: float


def ground(workload: str, settings: Mapping[str, object], draw: int | None) -> Ground:
    """Build, or find again; ``draw`` numbers the perturbed cost tables. Raises what the platform complains about."""
    wanted = {"platform": settings["platform"], "costs": settings["costs"]}
    return _ground(workload, json.dumps(wanted, sort_keys=True), json.dumps(file_stamps(wanted)), draw)


@lru_cache(maxsize=64)
def _ground(workload: str, text: str, stamps: str, draw: int | None) -> Ground:
    """``stamps`` is part of the key alone: a changed file is read again."""
    settings, chosen = json.loads(text), workload_set(workload)
    models = [zoo.load(name) for name, _ in chosen.models]
    machine = build_machine(PlatformConfig.model_validate(settings["platform"]), models)
    factor = settings["costs"]["perturbation"]
    if factor > 0.0:
        rng = np.random.default_rng(np.random.SeedSequence([PERTURBATION, draw or 0]))
        machine = replace(machine, table=perturb(machine.table, factor, rng))
    iso = isolated_s(machine, models)
    weights = [weight for _, weight in chosen.models]
    work_s = sum(w * iso[m.name] for w, m in zip(weights, models, strict=True))
    layers = sum(w * len(m.layers) for w, m in zip(weights, models, strict=True))
    return Ground(chosen, machine, iso, work_s / layers)


def draw_requests(on: Ground, traffic: Traffic, duration_s: float, seed: int) -> RequestTable:
    """One tenant per network: its share of the rate, its SLO, deadline q alpha iso; the set's priorities."""
    total, workload = sum(weight for _, weight in on.chosen.models), traffic.workload
    deadline = QosIsolated(traffic.qos, traffic.alpha, on.chosen.table)
    streams = [
        Stream(
            (Draw(Agreement(name, name, Slo(workload.target)), 1.0, deadline),),
            _process(workload, traffic.rate_per_s * weight / total),
            priorities=on.chosen.priorities,
        )
        for name, weight in ((zoo.canonical(name), weight) for name, weight in on.chosen.models)
    ]
    return generate(streams, duration_s, seed, iso_best_s=on.iso_best_s)


def _process(workload: WorkloadConfig, rate_per_s: float) -> Arrivals:
    if workload.process == "poisson":
        return arrivals("poisson", rate_per_s=rate_per_s)
    bursts = {"burstiness": workload.burstiness, "mean_burst_s": workload.mean_burst_s}
    return arrivals(workload.process, rate_per_s=rate_per_s, **bursts)


def draw_trace(
    on: Ground, traffic: Traffic, requests: int, warmup: int, seed: int, margin: float = 0.0
) -> Trace:
    """About ``requests`` + margin * sqrt(requests) requests that count, after a warm-up of ``warmup``."""
    from_s = warmup / traffic.rate_per_s
    until_s = from_s + (requests + margin * math.sqrt(requests)) / traffic.rate_per_s
    return Trace(draw_requests(on, traffic, until_s, seed), from_s, until_s)


def engine_options(settings: Mapping[str, object], on: Ground, seed: int, until_s: float) -> EngineOptions:
    """The engine of a place; T_s in layers becomes seconds. Requests alone are recorded."""
    engine = StudyEngine.model_validate(settings["engine"])
    values = engine.model_dump(exclude={"estimator", "drain", "period_layers"})
    if engine.period_layers is not None:
        values["period_s"] = engine.period_layers * on.layer_s
    return EngineOptions(
        **{
            **values,
            "estimator": Estimator(**engine.estimator.model_dump()),
            "seed": seed,
            "record": "requests",
        },
        horizon_s=None if engine.drain else until_s,
    )
