"""HTAS' elastic pool of priced machines, from a configuration."""

from __future__ import annotations

import math
from dataclasses import replace

from eunomia.cluster.environments.elastic_pool import Flavour, PoolJob
from eunomia.cluster.environments.elastic_pool_run import PoolOptions, PoolResult, arrivals, run_pool
from eunomia.config.cluster_worlds import PoolConfig
from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.study.cluster.worlds import Figures, Worlds

METRICS = {
    "cost": Metric("cost of the machines", "cost", "cost", "lower"),
    "wait_mean_s": Metric("mean wait", "mean wait", "s", "lower"),
    "wait_max_s": Metric("longest wait", "longest wait", "s", "lower"),
    "turnaround_mean_s": Metric("mean turnaround", "turnaround", "s", "lower"),
    "machine_h": Metric("machine hours", "machine hours", "h", "lower"),
    "migrations": Metric("migrations", "migrations", "count", "lower"),
    "unfinished": Metric("jobs unfinished", "unfinished", "count", "lower"),
}


def run_pools(config: PoolConfig) -> Worlds:
    """Every scheduler on every seed. Raises PlatformError for a job that fits on no flavour, ConfigError likewise."""
    catalogue = [Flavour(**flavour.model_dump()) for flavour in config.flavour]
    seeds = tuple(range(config.seed, config.seed + config.compare.seeds))
    figures: dict[str, tuple[Figures, ...]] = {}
    for scheduler in config.compare.schedulers:
        options = PoolOptions(scheduler=scheduler, **config.pool.model_dump())
        runs = []
        for seed in seeds:
            jobs = pool_jobs(config, seed)
            _check_sizes(jobs, catalogue, options)
            horizon_s = math.inf if config.horizon_s is None else config.horizon_s
            runs.append(_figures(run_pool(jobs, catalogue, replace(options, seed=seed), horizon_s)))
        figures[scheduler] = tuple(runs)
    return Worlds(config.name, seeds, figures, "cost", METRICS)


def pool_jobs(config: PoolConfig, seed: int) -> list[PoolJob]:
    """The containers of one seed; those written out are the same for every seed."""
    if config.generate is not None:
        made = config.generate
        return arrivals(made.pattern, seed, made.jobs, made.services, made.error)
    return [
        PoolJob(**{**job.model_dump(), "run_s": math.inf if job.run_s is None else job.run_s})
        for job in config.job
    ]


def _check_sizes(jobs: list[PoolJob], catalogue: list[Flavour], options: PoolOptions) -> None:
    """Every job fits somewhere; a scheduler that rents one flavour for all that waits needs one that fits all."""
    for job in jobs:
        if not any(flavour.fits(job) for flavour in catalogue):
            size = f"{job.cpu:g} cores, {job.memory_gib:g} GiB"
            devices = f", {job.devices} x {job.device or 'any device'}" if job.devices else ""
            raise ConfigError(
                f"job '{job.name}' ({size}{devices}) fits on no flavour; add one that is as large"
            )
    one = options.scheduler == "least_requested" or options.flavours == "one"
    if one and not any(all(flavour.fits(job) for job in jobs) for flavour in catalogue):
        who = "least_requested" if options.scheduler == "least_requested" else "flavours = 'one'"
        raise ConfigError(
            f"{who} rents machines of one flavour, and no flavour fits every job; add one that does"
        )


def _figures(result: PoolResult) -> Figures:
    return {
        "cost": result.cost,
        "wait_mean_s": _mean(result.wait_s.tolist()),
        "wait_max_s": max(result.wait_s.tolist(), default=math.nan),
        "turnaround_mean_s": _mean(result.turnaround_s.tolist()),
        "machine_h": result.machine_h,
        "rented": float(result.rented),
        "migrations": float(result.migrations),
        "submitted": float(result.submitted),
        "finished": float(result.finished),
        "unfinished": float(result.unfinished),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
