"""What would change under the scheduler that an operator runs: a log, its slurm.conf or ClusterQueues, and a change.

The log is replayed under the model of the present scheduler, then with the change. The first replay against the log's
own waits is the calibration; it stands under every table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from eunomia.cluster.options import SimulationOptions, Slowdown
from eunomia.cluster.problem import build_problem
from eunomia.cluster.traces import JobTrace, read_jobs
from eunomia.cluster.traces.logged import logged
from eunomia.config.cluster import ClusterConfig, cluster_from
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.report.table import Table
from eunomia.report.units import counted, value_text
from eunomia.study.cluster.build import AllocatorLike, Prepared, resolve_allocator
from eunomia.study.cluster.calibration import Calibration, calibrate, figures_of_log
from eunomia.study.cluster.run import run_prepared
from eunomia.study.cluster.whatif import Change, WhatIf, relative_change

MOST_JOBS = 20_000


@dataclass(frozen=True)
class Log:
    """A log of jobs, and how to read it. ``speed``: how fast types are beside each other; 1 unless given."""

    path: Path
    format: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    speed: Mapping[str, float] = field(default_factory=dict)
    most_jobs: int = MOST_JOBS

    def read(self) -> JobTrace:
        """The first ``most_jobs`` of it. Raises TraceError, ConfigError."""
        trace = read_jobs(self.path, self.format, columns=self.columns)
        if len(trace) <= self.most_jobs:
            return trace
        left_out = len(trace) - self.most_jobs
        return trace.select(slice(0, self.most_jobs)).with_notes(
            f"the last {counted(left_out, 'job')} left out (jobs = {self.most_jobs})"
        )


@dataclass(frozen=True, repr=False)
class StatusQuoWhatIf(WhatIf):
    """Log, replay and change side by side."""

    calibration: Calibration
    log: Mapping[str, float]  # metrics that the log itself gives

    def table(self, short: bool = False) -> Table:
        """Log, replay, after the change; a change smaller than the replay's own error is marked."""
        rows = []
        for name, before, after in self.shown():
            metric, seen = CLUSTER_METRICS[name], self.log.get(name, np.nan)
            shown = relative_change(before, after)
            if name in self.log and before != after and abs(after - before) <= abs(before - seen):
                shown += " (within the error)"
            rows.append(
                (
                    metric.label,
                    "" if np.isnan(seen) else value_text(metric, seen),
                    value_text(metric, before),
                    value_text(metric, after),
                    shown,
                )
            )
        jct = CLUSTER_METRICS["jct_mean_s"]
        for label, before, after in self.shown_tenants():
            texts = (value_text(jct, before), value_text(jct, after), relative_change(before, after))
            rows.append((label, "", *texts))
        return Table(("metric", "log", "replay", "after", "change"), tuple(rows))

    def answer(self) -> Data:
        """The same with the log's own figures and the calibration."""
        return {**super().answer(), "log": dict(self.log), "calibration": asdict(self.calibration)}

    def footnotes(self) -> list[str]:
        """The calibration, and what the table leaves out."""
        return [self.calibration.text(), *super().footnotes()]


def compared(
    log: Log,
    trace: JobTrace,
    devices: Mapping[str, tuple[int, int | None]],
    change: Change,
    said: list[str],
    now: Allocator,
    then: Allocator,
) -> StatusQuoWhatIf:
    """Both replays, and the first against the log."""
    changed, texts = _devices(devices, change)
    said = [*texts, *said]
    speed = {**dict.fromkeys((*devices, *changed), 1.0), **log.speed}
    trace = _that_fit(trace, devices, changed)
    before, after = (
        run_prepared(
            _config(log, counts, speed, change), _prepared(trace, counts, speed, change), allocator, 0
        )
        for counts, allocator in ((devices, now), (changed, then))
    )
    said = said or ["nothing changed: the calibration alone"]
    return StatusQuoWhatIf(before, after, tuple(said), calibrate(trace, before), figures_of_log(trace))


def _prepared(
    trace: JobTrace, devices: Mapping[str, tuple[int, int | None]], speed: Mapping[str, float], change: Change
) -> Prepared:
    """Jobs, devices and options of one replay; a log has no prices, so those given hold before and after."""
    cluster = Cluster(
        tuple(
            DeviceType(name, count, each, change.price.get(name, 0.0))
            for name, (count, each) in devices.items()
        )
    )
    jobs, table, remarks = logged(trace, cluster, speed)
    options = SimulationOptions(events="at_once", slowdown=Slowdown("none"), record="leases")
    return Prepared(build_problem(jobs, cluster, table), options, remarks)


def _config(
    log: Log, devices: Mapping[str, tuple[int, int | None]], speed: Mapping[str, float], change: Change
) -> ClusterConfig:
    """What the records say of a replay."""
    table: Data = {
        "name": log.path.name,
        "device": [
            {"type": name, "count": count, **({"per_server": each} if each else {})}
            | ({"cost_per_hour": float(change.price[name])} if name in change.price else {})
            for name, (count, each) in devices.items()
        ],
        "throughputs": {"relative": dict(speed)},
        "trace": {"path": str(log.path), "format": log.format, "columns": dict(log.columns)},
    }
    return cluster_from(table)


def _devices(
    devices: Mapping[str, tuple[int, int | None]], change: Change
) -> tuple[dict[str, tuple[int, int | None]], list[str]]:
    """Devices after the change, and the change in words."""
    left, said = dict(devices), []
    for sign, verb, counts in ((1, "add", change.add), (-1, "remove", change.remove)):
        for name, count in counts.items():
            had, each = left.get(name, (0, None))
            if name not in left and sign < 0:
                raise UnknownNameError("device type", name, left)
            if count < 1 or had + sign * count < 0:
                raise ConfigError(
                    f"{verb} {name}={count}: there are {had}; give a number from 1 on that is left"
                )
            left[name] = (had + sign * count, each)
            said.append(f"{name}: {had} -> {had + sign * count} devices")
    left = {name: value for name, value in left.items() if value[0]}
    if not left:
        raise ConfigError("no device would be left")
    return left, said


def _that_fit(trace: JobTrace, *clusters: Mapping[str, tuple[int, int | None]]) -> JobTrace:
    """Without jobs that are larger than their types in one of the clusters."""
    allowed = trace.more.get("device", np.full(len(trace), "", object))
    most = [max(count for count, _ in devices.values()) for devices in clusters]
    kept = np.ones(len(trace), np.bool_)
    for row in range(len(trace)):
        for devices, largest in zip(clusters, most, strict=True):
            types = [name for name in str(allowed[row]).split(",") if name]
            if all(name in devices for name in types):  # others are named when jobs are built
                kept[row] &= max((devices[name][0] for name in types), default=largest) >= trace.gpus[row]
    left_out = int((~kept).sum())
    if not kept.any():
        raise TraceError("no job of the log fits on these devices; check the counts and types", trace.path)
    return trace.select(kept).with_notes(
        f"{left_out} jobs larger than their devices left out" if left_out else ""
    )


def positive_factor(name: str, factor: float) -> float:
    """The factor of a weight. Raises ConfigError unless it is above 0."""
    if not 0.0 < factor < np.inf:
        raise ConfigError(f"weight {name}={factor}: it must be greater than 0")
    return factor


def instead(policy: AllocatorLike | None, now: str) -> list[str]:
    """That another scheduler takes the place of the log's own, as the user wrote it."""
    if policy is None:
        return []
    return [f"{policy if isinstance(policy, str) else type(policy).__name__} instead of {now}"]


def other(policy: AllocatorLike | None) -> Allocator | None:
    """The scheduler that stands in the place of the log's own, if one does. Raises UnknownNameError, ConfigError."""
    return None if policy is None else resolve_allocator(policy)


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts. Raises ConfigError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise ConfigError(f"{option} {text}: write KEY=VALUE")
        found[key] = value
    return found
