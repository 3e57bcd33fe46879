"""A log's jobs with the run times that they had: no networks, only how fast device types are beside each other.

A job may run on the types that it names, or on any. Its run time holds on the type that it ran on: the one the log
names, else its only type, else ``reference``. On another type it is that times the ratio of the two speeds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.traces.job_trace import JobTrace
from eunomia.cluster.traces.jobs import traits_of
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError

ANY = "any"


def logged(
    trace: JobTrace, cluster: Cluster, speed: Mapping[str, float], reference: str | None = None
) -> tuple[list[TrainingJob], ThroughputTable, tuple[str, ...]]:
    """Jobs, a table of their speeds, and remarks. ``speed`` by type of the cluster, in any unit.

    Raises ConfigError for a type without a speed and UnknownNameError for a job on a type that the cluster lacks.
    Raises TraceError for a job without a run time, or too large for its types.
    """
    for name in cluster.names:
        if name not in speed:
            raise ConfigError(
                f"throughputs.relative names no speed of '{name}'; give one for every device type, 1.0 where run times "
                "are the same"
            )
    reference = reference or cluster.names[0]
    count = len(trace)
    nothing = np.full(count, "", object)
    allowed, ran_on = trace.more.get("device", nothing), trace.more.get("ran_on", nothing)
    traits = traits_of(trace)
    largest = {name: int(n) for name, n in zip(cluster.names, cluster.counts, strict=True)}
    jobs, keys, guessed = [], {}, 0
    for row in range(count):
        name, gpus, run_s = trace.ids[row], int(trace.gpus[row]), float(trace.duration_s[row])
        types = tuple(str(allowed[row]).split(",")) if allowed[row] else cluster.names
        for kind in {*types, str(ran_on[row]) or reference}:
            if kind not in largest and (kind in types or kind not in speed):
                raise UnknownNameError("device type", kind, largest, f" of job '{name}'")
        if not run_s > 0.0:
            raise TraceError(
                f"job '{name}' has no run time; throughputs.relative needs one for each", trace.path
            )
        if gpus > max(largest[kind] for kind in types):
            raise TraceError(
                f"job '{name}' asks for {gpus} devices of {', '.join(types)}, more than there are; raise count, or "
                "leave such jobs out (max_gpus)",
                trace.path,
            )
        base = str(ran_on[row]) or (types[0] if len(types) == 1 else reference)
        guessed += not ran_on[row] and len(types) > 1
        label = ANY if types == cluster.names else ",".join(types)
        keys[label, gpus] = types
        jobs.append(
            TrainingJob(
                name,
                label,
                run_s * speed[base],
                gpus,
                float(trace.arrival_s[row]),
                float(trace.weight[row]),
                trace.tenants[trace.tenant[row]],
                traits=traits[row],
            )
        )
    alone = [[speed[kind] if kind in types else 0.0 for kind in cluster.names] for types in keys.values()]
    table = ThroughputTable(tuple(keys), cluster.names, np.array(alone), source="run times of the log")
    equal = len({speed[name] for name in cluster.names}) == 1 and len(cluster.names) > 1
    said = (
        *(["run times are taken to be the same on every type (throughputs.relative)"] if equal else []),
        *(
            [f"{guessed} jobs do not say where they ran: their run times are meant on '{reference}'"]
            if guessed
            else []
        ),
    )
    return jobs, table, (*trace.notes, *said)
