"""One run to one row of numbers, and rows over seeds and policies to estimates that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError
from eunomia.core.records import RunRecords
from eunomia.metrics.columns import Tables
from eunomia.metrics.run import Facts, Run
from eunomia.metrics.statistics import NO_DATA, Estimate, interval
from eunomia.metrics.statistics import paired_difference as minus
from eunomia.metrics.table import METRICS
from eunomia.metrics.window import measured
from eunomia.workload.tenant import Agreement

Summary = Mapping[str, float]
Seeds = Sequence[Summary] | Mapping[int, Summary]  # one summary per seed, in the same order for all policies


def summarise(
    source: Tables | RunRecords,
    agreements: Sequence[Agreement] | None = None,
    warmup_s: float | None = None,
    end_s: float | None = None,
    facts: Facts | None = None,
) -> dict[str, float]:
    """Every metric of METRICS for one run, by name; nan where the run has no data for it.

    ``source`` is a recorded run, or maps names of eunomia.core.schemas to Arrow tables or to mappings of
    arrays; ``requests`` is needed, the others add metrics. SLOs are judged from ``agreements``, or read from
    the ``pairs`` table when they are None. ``warmup_s`` and ``end_s`` choose the requests (``measured``), by
    default 0 and the last instant on record. For a recorded run the defaults are ``warmup_s`` and
    ``duration_s`` of its manifest, which also gives facts that ``facts`` lacks.
    """
    known, tables = facts or Facts(), source.tables if isinstance(source, RunRecords) else source
    if isinstance(source, RunRecords):
        known = known.over(Facts.of(source.manifest))
        warmup_s = source.manifest.get("warmup_s") if warmup_s is None else warmup_s
        end_s = source.manifest.get("duration_s") if end_s is None else end_s
    run = Run(tables, agreements, measured(tables, warmup_s or 0.0, end_s), known)
    return {
        name: float(metric.function(run)) if all(map(run.has, metric.needs)) else math.nan
        for name, metric in METRICS.items()
    }


@dataclass(frozen=True)
class Compared:
    """Estimates over seeds, by policy and metric, and their paired differences to one policy."""

    baseline: str
    estimates: dict[str, dict[str, Estimate]]  # policy -> metric -> mean over seeds
    differences: dict[str, dict[str, Estimate]]  # policy -> metric -> policy minus baseline, seed by seed

    @property
    def policies(self) -> list[str]:
        """Policies in the order given."""
        return list(self.estimates)

    def ranked(self, metric: str = "hit_rate") -> list[str]:
        """Policies from best to worst mean of a metric; those without data stand last."""
        sign = -1.0 if metric in METRICS and METRICS[metric].better == "lower" else 1.0
        value = {name: sign * row.get(metric, NO_DATA).mean for name, row in self.estimates.items()}
        return sorted(value, key=lambda name: (math.isnan(value[name]), -value[name]))


def compare(
    summaries: Mapping[str, Seeds], baseline: str | None = None, confidence: float = 0.95
) -> Compared:
    """Mean and interval of every metric over seeds, and its difference to ``baseline`` seed by seed.

    ``summaries``: policy -> one ``summarise`` result per seed; a mapping by seed pairs runs by seed, without
    seeds that one side lacks; a sequence pairs them by position. ``baseline`` is the first policy by default.
    For the price of fairness take the SLO-agnostic policy as baseline: it is minus the difference of
    ``hit_rate``.
    """
    if not summaries:
        return Compared("", {}, {})
    reference = next(iter(summaries)) if baseline is None else baseline
    if reference not in summaries:
        raise UnknownNameError("policy", reference, summaries)
    rows = {policy: _by_seed(runs) for policy, runs in summaries.items()}
    names = list(dict.fromkeys(name for runs in rows.values() for run in runs.values() for name in run))
    estimates, differences = {}, {}
    for policy, runs in rows.items():
        estimates[policy] = {name: interval(_values(runs, list(runs), name), confidence) for name in names}
        seeds = [seed for seed in runs if seed in rows[reference]]
        differences[policy] = {
            name: minus(_values(runs, seeds, name), _values(rows[reference], seeds, name), confidence)
            for name in names
        }
    return Compared(reference, estimates, differences)


def _by_seed(runs: Seeds) -> dict[int, Summary]:
    return dict(runs) if isinstance(runs, Mapping) else dict(enumerate(runs))


def _values(runs: Mapping[int, Summary], seeds: Sequence[int], name: str) -> Floats:
    return np.array([runs[seed].get(name, math.nan) for seed in seeds], np.float64)
