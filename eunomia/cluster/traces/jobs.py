"""From rows of a trace to training jobs: models for rows that name none, steps for rows that give times.

The rule for a row without a job type: one is drawn from the table's types, uniformly, by ``seed``, among those with a
positive throughput on the reference type; for a size that the table lacks, ``extended`` first scales the
largest measured one.
``duration_s`` is time on the reference type: steps = max(1, floor(duration * throughput there)).
"""

from __future__ import annotations

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.throughput import Key, ThroughputTable
from eunomia.cluster.traces.job_trace import NUMBERS, JobTrace
from eunomia.core.errors import ConfigError, PlatformError, TraceError

TRACE_STREAM = 1


def to_jobs(trace: JobTrace, table: ThroughputTable, reference: str, seed: int = 0) -> list[TrainingJob]:
    """Jobs of a trace; ``reference`` is the device type that its durations and SLOs are meant on.

    Raises PlatformError naming job and type for figures that are missing, TraceError for rows without work.
    """
    if reference not in table.types:
        raise PlatformError(
            f"reference type '{reference}' has no throughputs; measured: {', '.join(table.types)}"
        )
    column = table.types.index(reference)
    names = _names(trace, table, column, seed)
    jobs = []
    traits = traits_of(trace)
    rows = zip(
        trace.ids,
        trace.arrival_s.tolist(),
        trace.gpus.tolist(),
        trace.steps.tolist(),
        trace.duration_s.tolist(),
        trace.weight.tolist(),
        trace.slo.tolist(),
        (trace.tenants[c] for c in trace.tenant.tolist()),
        names,
        traits,
        strict=True,
    )
    for name, arrival_s, gpus, steps, duration_s, weight, slo, tenant, job_type, more in rows:
        if steps == steps and slo != slo:  # neither needs a throughput
            jobs.append(TrainingJob(name, job_type, steps, gpus, arrival_s, weight, tenant, traits=more))
            continue
        rate = float(table.alone[table.row(job_type, gpus, name), column])
        if not rate > 0.0:
            raise PlatformError(
                f"job '{name}': '{job_type}' with {gpus} workers has no throughput on the "
                f"reference type '{reference}', "
                f"which its duration or SLO is meant on"
            )
        if steps != steps and duration_s != duration_s:
            raise TraceError(f"job '{name}' has neither steps nor a duration", trace.path)
        total = steps if steps == steps else max(1.0, float(int(duration_s * rate)))
        deadline_s = arrival_s + slo * total / rate if slo == slo else None
        jobs.append(
            TrainingJob(name, job_type, total, gpus, arrival_s, weight, tenant, deadline_s, traits=more)
        )
    return jobs


def traits_of(trace: JobTrace) -> list[dict[str, float]]:
    """Limits and priorities of each job, as far as the trace has them; what a scheduler may know of it."""
    columns = {name: trace.more[name] for name in NUMBERS if name in trace.more and name != "wait_s"}
    return [
        {name: float(values[row]) for name, values in columns.items() if values[row] == values[row]}
        for row in range(len(trace))
    ]


def _names(trace: JobTrace, table: ThroughputTable, column: int, seed: int) -> list[str]:
    """Job type of each row, drawn where the trace names none; a draw depends on the row's place alone."""
    names = [trace.job_types[code] if code >= 0 else "" for code in trace.job_type.tolist()]
    draws = np.random.default_rng([seed, TRACE_STREAM]).random(len(trace))
    choices: dict[int, list[str]] = {}
    for row, name in enumerate(names):
        if name:
            continue
        gpus = int(trace.gpus[row])
        if gpus not in choices:
            choices[gpus] = [
                key[0]
                for number, key in enumerate(table.keys)
                if key[1] == gpus and table.alone[number, column] > 0.0
            ]
        if not choices[gpus]:
            raise ConfigError(
                f"job '{trace.ids[row]}' asks for {gpus} devices, which the throughput table has no row for; "
                "extend the table (scale_beyond = true), or leave such jobs out (max_gpus)"
            )
        names[row] = choices[gpus][int(draws[row] * len(choices[gpus]))]
    return names


def extended(table: ThroughputTable, scales: list[int], efficiency: float = 0.9) -> ThroughputTable:
    """The table with rows for more scale factors: an estimate, marked so in ``source``.

    T(s) = T(s') * (s / s') * efficiency^log2(s / s'), s' the nearest measured scale factor below s. This
    holds for job types that are measured with more than one worker; pairs are not extended (0). Real models
    scale worse or better; 0.9 per doubling is near what Gavel's table shows from 4 to 8 workers, see
    docs/cluster.md.
    """
    if not 0.0 < efficiency <= 1.0:
        raise ConfigError(f"efficiency is {efficiency}; it must be above 0 and at most 1")
    keys: list[Key] = list(table.keys)
    parents: list[int] = list(range(len(keys)))
    factors: list[float] = [1.0] * len(keys)
    for name in table.job_types:
        known = table.scales(name)
        for scale in sorted(set(scales) - set(known)):
            below = [s for s in known if s < scale]
            if len(known) < 2 or not below:
                continue
            ratio = scale / below[-1]
            keys.append((name, scale))
            parents.append(table.keys.index((name, below[-1])))
            factors.append(ratio * efficiency ** float(np.log2(ratio)))
    factor = np.array(factors)[:, None]
    beside = None
    if table.beside is not None:
        beside = np.zeros((len(keys), len(keys), len(table.types)))
        beside[: len(table.keys), : len(table.keys)] = table.beside
    spread = None if table.spread is None else table.spread[parents] * factor
    source = (
        table.source if len(keys) == len(table.keys) else f"{table.source}, larger scale factors estimated"
    )
    return ThroughputTable(tuple(keys), table.types, table.alone[parents] * factor, spread, beside, source)
