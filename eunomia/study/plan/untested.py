"""Promises that no request puts to the test: what helps, and which of them are left out.

A recording has no rate to raise. A network that it draws too seldom is not judged, and the answer says so; where a
tenant's whole trace is silent, the error says which duration has a request on every seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eunomia.config.plan import PlanConfig
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError
from eunomia.report.units import counted
from eunomia.study.inference.demand import streams
from eunomia.study.plan.ground import Ground, ground
from eunomia.workload.arrivals import Replay
from eunomia.workload.stream import Stream

Name = tuple[str, str]  # tenant and network


def judged(on: Ground) -> Ground:
    """The same ground, without promises for networks that a trace draws too seldom for any request of the seeds.

    Raises ConfigError for every other promise that no request of the search, or of the proof, puts to the test.
    """
    search, left_out = on.plan.search, dict[Name, str]()
    for fresh, count in enumerate((search.seeds, search.fresh)):
        asked, where = _asked(on, count, fresh), counted(count, "seed")
        for pair in np.flatnonzero((asked == 0) & ~np.isnan(on.targets)).tolist():
            name = on.agreements[pair].tenant, on.agreements[pair].model
            sent = sum(int(asked[p]) for p, a in enumerate(on.agreements) if a.tenant == name[0])
            if not (sent and _of_a_trace(on, name[0])):
                raise ConfigError(_refusal(on, name, where))
            left_out.setdefault(
                name, _seldom(on, name, f"{counted(sent, 'request')} of {name[0]} on {where}")
            )
    if not left_out:
        return on
    if len(left_out) == np.count_nonzero(~np.isnan(on.targets)):
        raise ConfigError(
            f"plan '{on.plan.name}': nothing tests any promise; {next(iter(left_out.values()))}"
        )
    return replace(ground(_without(on, left_out)), left_out=tuple(left_out.values()))


def enough_s(process: Replay, warmup_s: float) -> float | None:
    """Every longer run has a request after the warm-up, wherever it enters the trace; None = no run has."""
    base, last_s = process.base_s, float(process.base_s[-1])
    gaps = np.diff(base, prepend=0.0, append=process.loop_s + base[0] if process.loop else last_s)
    found = [warmup_s + float(gaps.max())]
    if last_s >= warmup_s:
        found.append(last_s)  # a longer run replays the whole trace
        if process.window == "start":
            found.append(float(base[np.searchsorted(base, warmup_s)]))
    elif not process.loop:
        return None
    return min(found)


def _asked(on: Ground, count: int, fresh: int) -> Ints:
    """(pairs,) requests that count, over all seeds of a block."""
    tables = [on.requests(seed) for seed in on.seeds(count, fresh=fresh)]
    pairs = len(on.agreements)
    counts = [np.bincount(t.pair[on.measured(t)], minlength=pairs) for t in tables]
    return np.asarray(np.sum(counts, axis=0), np.int64)


def _of_a_trace(on: Ground, name: str) -> bool:
    """Whether a tenant draws networks of its own choice at the times of a trace; a published set is kept whole."""
    tenant = next(tenant for tenant in on.bench.scenario.tenant if tenant.name == name)
    return isinstance(_stream(on, name).arrivals, Replay) and tenant.models is not None


def _seldom(on: Ground, name: Name, sent: str) -> str:
    draws = _stream(on, name[0]).draws
    models = [draw.agreement.model for draw in draws]
    chance = _stream(on, name[0]).chances(np.array([on.bench.iso_best_s[model] for model in models]))
    return (
        f"the promise of {name[0]}/{name[1]} is not judged: the trace draws it for one in "
        f"{1.0 / chance[models.index(name[1])]:.3g} requests, and for none of the {sent}; more seeds may bring some"
    )


def _refusal(on: Ground, name: Name, seeds: str) -> str:
    scenario = on.bench.scenario
    process, remedy = _stream(on, name[0]).arrivals, "raise duration_s, or its rate"
    if isinstance(process, Replay):
        remedy = _trace_remedy(process, scenario.duration_s, scenario.warmup_s)
    return (
        f"plan '{on.plan.name}': tenant '{name[0]}' sends no request for '{name[1]}' between warmup_s and "
        f"duration_s = {scenario.duration_s:g} on {seeds}, so nothing tests its promise; {remedy}"
    )


def _trace_remedy(process: Replay, duration_s: float, warmup_s: float) -> str:
    """What helps with a trace: a longer piece of it, less warm-up where there is none, else more draws."""
    has, needs_s = f"its trace has {counted(len(process.base_s), 'request')}", enough_s(process, warmup_s)
    if needs_s is None:
        return f"{has}, all before warmup_s = {warmup_s:g}: lower warmup_s"
    if needs_s < duration_s:
        return f"{has}, of which none was drawn for it: raise search.seeds and search.fresh"
    return f"{has} and is silent in between: raise duration_s above {_upwards(needs_s)}"


def _upwards(value: float) -> str:
    """Three digits, rounded up."""
    if value <= 0.0:
        return "0"
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return f"{math.ceil(value * scale) / scale:.6g}"


def _stream(on: Ground, tenant: str) -> Stream:
    return next(stream for stream in streams(on.bench.scenario, 1.0) if stream.tenant == tenant)


def _without(on: Ground, names: Mapping[Name, str]) -> PlanConfig:
    """The question without these promises: the requests still come."""
    tenants = []
    for tenant in on.bench.scenario.tenant:
        table = tenant.model_dump(mode="json", exclude_none=True)
        if any(tenant.name == name for name, _ in names):
            common = table.pop("slo", None)
            for model, draw in zip(table["models"], _stream(on, tenant.name).draws, strict=True):
                if (tenant.name, draw.agreement.model) in names:
                    model.pop("slo", None)
                elif common is not None:
                    model.setdefault("slo", common)
        tenants.append(table)
    # what was not given stays so: a price, for one
    given = on.plan.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return PlanConfig.model_validate({**given, "tenant": tenants})
