"""Deferrable jobs in what on-demand work leaves over, from a configuration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eunomia.cluster.environments.deferrable import (
    DeferrableCase,
    DeferrableJob,
    DeferrablePolicy,
    DeferrableResult,
    Rolling,
    day,
    first_fit,
    largest_first,
    latest_start_first,
    offline_optimum,
    run_deferrable,
)
from eunomia.config.cluster_worlds import DeferrableConfig
from eunomia.metrics.metric import Metric
from eunomia.study.cluster.worlds import Figures, Worlds

Method = Callable[[DeferrableCase], DeferrableResult]
METRICS = {
    "served": Metric("share of the work served", "served", "share", "higher"),
    "utilisation": Metric("utilisation of what is left over", "utilisation", "share", "higher"),
    "wait_slots": Metric("mean wait in slots", "wait, slots", "count", "lower"),
    "overload": Metric("share of overloaded slots", "overload", "share", "lower"),
    "window_passed": Metric("jobs whose window passed", "window passed", "count", "lower"),
}
OPTIMUM_GAP = 1e-3  # relative, of the offline optimum


def online(policy: DeferrablePolicy) -> Method:
    """A policy that sees the forecast."""
    return lambda case: run_deferrable(case.jobs, case.left_over, case.forecast, policy)


def informed(policy: DeferrablePolicy) -> Method:
    """A policy whose forecast is the truth."""
    return lambda case: run_deferrable(case.jobs, case.left_over, case.left_over, policy)


METHODS: dict[str, Method] = {
    "first_fit": online(first_fit),
    "latest_start_first": online(latest_start_first),
    "largest_first": online(largest_first),
    "rolling": online(Rolling()),
    "informed_first_fit": informed(first_fit),
    "offline_optimum": lambda case: offline_optimum(case.jobs, case.left_over, gap=OPTIMUM_GAP),
}


def run_deferrables(config: DeferrableConfig) -> Worlds:
    """Every policy on every seed. Raises ConfigError for jobs that make no sense, or an optimum that is too large."""
    seeds = tuple(range(config.seed, config.seed + config.compare.seeds))
    cases = [deferrable_case(config, seed) for seed in seeds]
    figures: dict[str, tuple[Figures, ...]] = {
        name: tuple(_figures(METHODS[name](case), len(case.jobs)) for case in cases)
        for name in config.compare.policies
    }
    return Worlds(config.name, seeds, figures, "served", METRICS)


def deferrable_case(config: DeferrableConfig, seed: int) -> DeferrableCase:
    """The day of one seed; one that is written out is the same for every seed."""
    if config.generate is not None:
        made = config.generate
        return day(seed, made.slots, made.devices, made.load, made.noise)
    assert config.slots is not None
    left_over = np.array(config.slots.left_over, np.int64)
    forecast = left_over if config.slots.forecast is None else np.array(config.slots.forecast, np.int64)
    jobs = tuple(DeferrableJob(**job.model_dump()) for job in config.job)
    return DeferrableCase(jobs, left_over, forecast)


def _figures(result: DeferrableResult, jobs: int) -> Figures:
    started = int((result.start >= 0).sum())
    return {
        "served": result.served,
        "utilisation": result.utilisation,
        "wait_slots": result.wait_slots,
        "overload": result.overload,
        "jobs": float(jobs),
        "started": float(started),
        "window_passed": float(jobs - started),
    }
