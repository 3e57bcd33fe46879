"""From a cluster configuration to a checked problem, options and a policy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from eunomia.cluster.analytical import Peak, StepWork, steps_per_s
from eunomia.cluster.forecast import Forecast, WithForecast
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Estimates, Failures, Recording, Restart, SimulationOptions, Slowdown
from eunomia.cluster.policies.catalogue import as_allocator, own_allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.searches import as_searches
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces import JobTrace, read_jobs
from eunomia.cluster.traces.generate import Draws, generate
from eunomia.cluster.traces.jobs import extended, to_jobs
from eunomia.cluster.traces.logged import logged
from eunomia.config.cluster import (
    ClusterConfig,
    DeviceConfig,
    GenerateConfig,
    JobConfig,
    ModelConfig,
    TraceConfig,
)
from eunomia.config.overrides import parse_value
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.contract.traits import title, title_in_file
from eunomia.core.arrays import Floats
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.core.own_file import split_file

AllocatorLike = str | Allocator
WITH_SETTINGS = re.compile(r"(?P<name>[^()]+)\((?P<settings>.*)\)")


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs except the policy."""

    problem: ClusterProblem
    options: SimulationOptions
    remarks: tuple[str, ...]  # what the trace's reader left out or assumed


def prepare_cluster(config: ClusterConfig, seed: int, record: Recording = "all") -> Prepared:
    """Cluster, table, jobs and options of one seed. Raises the errors of whatever is wrong."""
    cluster = Cluster(
        tuple(
            DeviceType(d.type, d.count, d.per_server, d.cost_per_hour, d.memory_gib, d.servers_per_rack)
            for d in config.device
        )
    )
    jobs, table, remarks = _jobs(config, cluster, seed)
    if config.tuner is not None and config.tuner.trials is not None:
        jobs = as_searches(jobs, config.tuner.trials, seed)
    jobs = _weighted(jobs, dict(config.weight_factors))
    mixed = config.simulation.cross_type != "off"
    problem = build_problem(jobs, cluster, table, dict(config.tenant_weights), mixed)
    return Prepared(problem, _options(config, seed, record), (*_estimates(config), *remarks))


def build_policy(config: ClusterConfig, policy: AllocatorLike, problem: ClusterProblem) -> Allocator:
    """A policy by name, ``name(setting=value)``, ``FILE.py:NAME`` or object, with the forecast where there is one."""
    found = resolve_allocator(policy)
    expected = config.simulation.forecast
    if expected is None:
        return found
    forecast = Forecast(expected.jobs, expected.job_type, expected.gpus, expected.weight)
    return WithForecast(found, forecast, problem)


def allocator_name(policy: AllocatorLike) -> str:
    """What a policy is called in tables and folders."""
    if not isinstance(policy, str):
        return title(policy)
    path, brace, settings = policy.partition("(")
    own = split_file(path.strip())
    return policy if own is None else title_in_file(str(own[0]), own[1]) + brace + settings.replace(" ", "")


def resolve_allocator(policy: AllocatorLike) -> Allocator:
    """The policy object. Raises UnknownNameError, ConfigError."""
    if not isinstance(policy, str):
        return as_allocator(policy, {}, f"cluster policy '{title(policy)}'")
    name = policy.strip()
    match = WITH_SETTINGS.fullmatch(name)
    if match is None:
        return own_allocator(name)
    return own_allocator(match["name"].strip(), **_settings(name, match["settings"]))


def _settings(name: str, text: str) -> Data:
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"policy '{name}': write settings as name(setting=value, ...)")
        settings[key.strip()] = parse_value(value.strip())
    return settings


@lru_cache(maxsize=4)
def _gavel_table(path: str, changed_ns: int) -> ThroughputTable:
    return ThroughputTable.from_gavel_json(path)


def _table(config: ClusterConfig) -> ThroughputTable:
    given = config.throughputs
    if given.gavel is not None:
        file = Path(given.gavel)
        if not file.is_file():
            raise ConfigError(f"no throughput table at {file}; Gavel's are in its repository, scheduler/")
        return _gavel_table(given.gavel, file.stat().st_mtime_ns)
    if given.csv is not None:
        if not Path(given.csv).is_file():
            raise ConfigError(f"no throughput table at {given.csv}")
        return ThroughputTable.from_csv(given.csv)
    return _written_out(given.model, config.device)


def _written_out(models: list[ModelConfig], devices: list[DeviceConfig]) -> ThroughputTable:
    """T(s) = T(1) * s * efficiency^log2(s), nan for a type that a model does not name; estimates by work."""
    named = [name for model in models for name in model.speed or {}]
    if any(model.work is not None for model in models):
        named += [device.type for device in devices]
    types = tuple(dict.fromkeys(named))
    keys, alone, spread = [], [], []
    for model in models:
        for scale in sorted(set(model.scales)):
            keys.append((model.name, scale))
            if model.work is not None:
                alone.append(_estimated(model, devices, types, scale, False))
                spread.append(_estimated(model, devices, types, scale, True))
            else:
                one = np.array([(model.speed or {}).get(name, np.nan) for name in types])
                alone.append(one * scale * model.efficiency ** np.log2(scale))
                spread.append(alone[-1] / (model.spread if scale > 1 else 1.0))
    return ThroughputTable(
        tuple(keys), types, np.array(alone), np.array(spread), source="[throughputs] model"
    )


def _estimated(
    model: ModelConfig, devices: list[DeviceConfig], types: tuple[str, ...], scale: int, spread: bool
) -> Floats:
    """(types,) steps/s by the devices' peaks; nan for a type that is no device here. ConfigError without a peak."""
    assert model.work is not None
    found = dict.fromkeys(types, np.nan)
    for device in devices:
        if device.peak is None:
            raise ConfigError(
                f"model '{model.name}' is estimated from its work, and device type '{device.type}' has no peak; "
                "give peak = { tflop, dram_gb, link_gb, network_gb }, or the model's speed"
            )
        work, peak = StepWork(**model.work.model_dump()), Peak(**device.peak.model_dump())
        found[device.type] = steps_per_s(work, peak, scale, spread and scale > 1)
    return np.array(list(found.values()))


def _estimates(config: ClusterConfig) -> tuple[str, ...]:
    """Which models' throughputs nobody has measured."""
    names = [f"'{model.name}'" for model in config.throughputs.model if model.work is not None]
    return (f"throughputs of {', '.join(names)} are estimates from work and peaks",) if names else ()


def _jobs(
    config: ClusterConfig, cluster: Cluster, seed: int
) -> tuple[list[TrainingJob], ThroughputTable, tuple[str, ...]]:
    if config.throughputs.relative:
        assert config.trace is not None
        return logged(
            _read(config.trace, config.name), cluster, config.throughputs.relative, config.trace.reference
        )
    table = _table(config)
    if config.job:
        return [_job(job) for job in config.job], table, ()
    if config.generate is not None:
        trace = _generated(config.generate, table, cluster, seed)
        return to_jobs(trace, table, config.generate.reference or cluster.names[0], seed), table, ()
    assert config.trace is not None
    trace = _read(config.trace, config.name)
    if config.throughputs.scale_beyond:
        table = extended(table, sorted(set(trace.gpus.tolist())), config.throughputs.efficiency)
    reference = config.trace.reference or cluster.names[0]
    said = _assumed(config.trace, trace, table, reference, len(cluster.types))
    return to_jobs(trace, table, reference, seed), table, (*trace.notes, *said)


def _assumed(
    given: TraceConfig, trace: JobTrace, table: ThroughputTable, reference: str, types: int
) -> tuple[str, ...]:
    """What a run takes for granted about models and run times. ConfigError where models would be invented unasked."""
    unnamed, names = int((trace.job_type < 0).sum()), table.job_types
    if unnamed and len(names) > 1 and not given.draw_models:
        raise ConfigError(
            f"{given.path}: {unnamed} of {len(trace)} jobs name no model, and the throughput table has {len(names)}; "
            "map a column (trace.columns.job_type), keep the log's run times (throughputs.relative), or accept "
            "models at random (trace.draw_models = true)"
        )
    said = []
    if unnamed:
        how = f"is taken for a '{names[0]}'" if len(names) == 1 else "got one drawn from the throughput table"
        said.append(f"{unnamed} of {len(trace)} jobs name no network: each {how}")
    if np.isnan(trace.steps).any() and (unnamed or (given.reference is None and types > 1)):
        which = (
            "trace.reference" if given.reference else "the first device type; trace.reference names another"
        )
        said.append(f"run times of the log are taken as times on '{reference}' ({which})")
    return tuple(said)


def _weighted(jobs: list[TrainingJob], factors: dict[str, float]) -> list[TrainingJob]:
    """Jobs with their weights multiplied, by id or by tenant. Raises ConfigError for a name that nobody has."""
    if not factors:
        return jobs
    known = {name for job in jobs for name in (job.job_id, job.tenant)}
    for name in factors:
        if name not in known:
            raise ConfigError(f"weight_factors names '{name}', which is no job and no tenant")
    return [
        replace(job, weight=job.weight * factors.get(job.job_id, factors.get(job.tenant, 1.0)))
        for job in jobs
    ]


def _job(job: JobConfig) -> TrainingJob:
    return TrainingJob(
        job.id, job.type, job.steps, job.gpus, job.arrival_s, job.weight, job.tenant, job.deadline_s, job.app,
        job.memory_gib, job.min_gpus, job.max_gpus, dict(job.traits),
    )  # fmt: skip


def _generated(given: GenerateConfig, table: ThroughputTable, cluster: Cluster, seed: int) -> JobTrace:
    reference = given.reference or cluster.names[0]
    draws = Draws(
        multi_gpu=given.multi_gpu, priorities=given.priorities, slos=given.slos, tenants=given.tenants
    )
    return generate(table, reference, given.jobs, given.mean_gap_s, given.kind, seed=seed, **draws)


def _read(given: TraceConfig, name: str) -> JobTrace:
    if not Path(given.path).exists():
        raise ConfigError(
            f"'{name}': trace.path: there is no file {given.path}; write where it is (docs/cluster.md says where "
            "public ones are)"
        )
    trace = read_jobs(given.path, given.format, columns=given.columns)
    if given.max_gpus is not None:
        kept = trace.gpus <= given.max_gpus
        left_out = int((~kept).sum())
        if not kept.any():
            raise ConfigError(f"{given.path}: every job asks for more than max_gpus = {given.max_gpus}")
        trace = trace.select(kept).with_notes(
            f"{left_out} jobs with more than {given.max_gpus} GPUs left out" if left_out else ""
        )
    if given.max_jobs is not None:
        trace = trace.select(slice(0, given.max_jobs))
    return replace(trace, arrival_s=trace.arrival_s / given.speedup)


def _options(config: ClusterConfig, seed: int, record: Recording) -> SimulationOptions:
    s = config.simulation
    if s.mode == "gavel":
        base = SimulationOptions.gavel(seed, s.drop_rule, record)
    else:
        base = SimulationOptions(
            mode=s.mode,
            events=s.events,
            drop_rule=s.drop_rule,
            stickiness=s.stickiness,
            cross_type=s.cross_type,
            restart=Restart(**s.restart.model_dump()),
            slowdown=Slowdown(**s.slowdown.model_dump()),
            failures=Failures(**s.failures.model_dump()),
            estimates=Estimates(**s.estimates.model_dump()),
            seed=seed,
            record=record,
        )
    set_by_hand = {
        name: getattr(s, name)
        for name in ("min_gap_s", "priority", "queue", "placement")
        if getattr(s, name) is not None
    }
    return replace(base, round_s=s.round_s, horizon_s=s.horizon_s, **set_by_hand)
