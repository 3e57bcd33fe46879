"""Synthetic traces by the rules of Gavel's generators (OSDI 2020 code); random numbers are our own.

``continuous``: Poisson arrivals; 80 % of the jobs take 10^U(1.5, 3) minutes on the reference type, 20 % 10^U(3, 4);
1, 2, 4 or 8 workers for 70, 10, 15 and 5 %. ``hours``: the trace tool, 1 to 4 whole hours; 1, 2 or 4 workers for 70, 10
and 20 %. ``static``: as continuous, all at time 0. Job types are uniform among those measured at that size.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces.job_trace import JobTrace, no_value, numbered
from eunomia.cluster.traces.jobs import TRACE_STREAM
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PlatformError

Kind = Literal["continuous", "hours", "static"]
SIZES = {"continuous": ((1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05)), "hours": ((1, 2, 4), (0.70, 0.10, 0.20))}
SLO_FACTORS = (1.2, 2.0, 10.0)
URGENT_WEIGHT, URGENT_SHARE = 5.0, 0.2


class Draws(TypedDict, total=False):
    """What a generated trace draws besides. Left out: gangs of several workers, one tenant, no weights, no SLOs."""

    multi_gpu: bool
    priorities: bool
    slos: bool
    tenants: int


def generate(
    table: ThroughputTable,
    reference: str,
    jobs: int,
    mean_gap_s: float = 1800.0,
    kind: Kind = "continuous",
    *,
    seed: int = 0,
    **draws: Unpack[Draws],
) -> JobTrace:
    """A trace of ``jobs`` jobs whose durations are meant on ``reference``. Raises ConfigError, PlatformError.

    ``draws``: what else is drawn, see ``Draws``.
    """
    tenants = draws.get("tenants", 1)
    if reference not in table.types:
        raise PlatformError(
            f"reference type '{reference}' has no throughputs; measured: {', '.join(table.types)}"
        )
    if jobs < 1 or tenants < 1 or not mean_gap_s > 0.0:
        raise ConfigError(f"{jobs} jobs of {tenants} tenants every {mean_gap_s} s; all three must be above 0")
    streams = [np.random.default_rng([seed, TRACE_STREAM, part]) for part in range(7)]
    gaps = np.concatenate([[0.0], streams[0].exponential(mean_gap_s, jobs - 1)])
    arrival_s = np.zeros(jobs) if kind == "static" else np.cumsum(gaps)
    gpus = _sizes(streams[1], jobs, kind, draws.get("multi_gpu", True))
    names, codes = _types(table, table.types.index(reference), gpus, streams[2].random(jobs))
    urgent = streams[4].random(jobs) < URGENT_SHARE
    slo = np.array(SLO_FACTORS)[streams[5].integers(0, len(SLO_FACTORS), jobs)]
    return JobTrace(
        format="generated",
        path=f"{kind} generator",
        ids=numbered(jobs),
        arrival_s=arrival_s,
        gpus=gpus,
        tenants=tuple(f"tenant-{n}" for n in range(tenants)) if tenants > 1 else ("trace",),
        tenant=streams[6].integers(0, tenants, jobs).astype(np.int32),
        job_types=names,
        job_type=codes,
        steps=no_value(jobs),
        duration_s=_durations(streams[3], jobs, kind),
        weight=np.where(urgent, URGENT_WEIGHT, 1.0) if draws.get("priorities", False) else np.ones(jobs),
        slo=slo if draws.get("slos", False) else no_value(jobs),
    )


def _sizes(rng: np.random.Generator, jobs: int, kind: Kind, multi_gpu: bool) -> Ints:
    sizes, shares = SIZES["hours" if kind == "hours" else "continuous"]
    drawn = rng.choice(sizes, jobs, p=shares).astype(np.int64)
    return drawn if multi_gpu else np.ones(jobs, np.int64)


def _durations(rng: np.random.Generator, jobs: int, kind: Kind) -> Floats:
    if kind == "hours":
        return 3600.0 * rng.choice(np.linspace(1.0, 4.0, 4), jobs)
    long = rng.random(jobs) >= 0.8
    exponent = np.where(long, rng.uniform(3.0, 4.0, jobs), rng.uniform(1.5, 3.0, jobs))
    return np.asarray(60.0 * 10.0**exponent)


def _types(
    table: ThroughputTable, column: int, gpus: Ints, draws: Floats
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Job types for each job, among those that run with its workers on the reference type."""
    names = table.job_types
    codes = np.zeros(len(gpus), np.int32)
    for size in np.unique(gpus).tolist():
        fitting = [
            names.index(name)
            for row, (name, scale) in enumerate(table.keys)
            if scale == size and table.alone[row, column] > 0.0
        ]
        if not fitting:
            raise ConfigError(
                f"no job type runs with {size} workers on '{table.types[column]}'; give such rows to the "
                "throughput table, or set multi_gpu = false"
            )
        here = gpus == size
        codes[here] = np.array(fitting, np.int32)[(draws[here] * len(fitting)).astype(np.int64)]
    return names, codes
