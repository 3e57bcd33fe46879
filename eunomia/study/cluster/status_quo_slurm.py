"""``whatif --slurm``: a log replayed under a slurm.conf, and with other nodes, shares or settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from eunomia.cluster.operators.slurm_conf import SlurmConf, read_slurm_conf
from eunomia.cluster.operators.slurm_shares import Shares, read_shares
from eunomia.cluster.traces import JobTrace
from eunomia.core.errors import UnknownNameError
from eunomia.study.cluster.build import AllocatorLike
from eunomia.study.cluster.status_quo import Log, StatusQuoWhatIf, compared, instead, other, positive_factor
from eunomia.study.cluster.whatif import Change


def what_if_slurm(
    log: Log,
    conf: str | Path,
    change: Change,
    *,
    settings: Mapping[str, str] | None = None,
    shares: str | Path | None = None,
    qos: Mapping[str, float] | None = None,
    policy: AllocatorLike | None = None,
) -> StatusQuoWhatIf:
    """Replay a log under a slurm.conf, and with a change. Raises TraceError, ConfigError.

    ``settings``: keys of slurm.conf with other values. ``shares``: output of sshare. ``qos``: priorities by name.
    ``change.weight`` multiplies shares of accounts or users. ``policy``: another scheduler instead, afterwards.
    """
    present = read_slurm_conf(conf)
    tree = Shares() if shares is None else read_shares(shares)
    trace = _slurm_jobs(log.read(), present, tree, qos or {})
    devices = {name: (count, present.per_node[name]) for name, count in present.counts.items()}
    weighted, said = _weighted_shares(trace, tree.raw, change.weight)
    said = [*said, *(f"{key} = {value}" for key, value in (settings or {}).items())]
    idle = {"idle": True}
    after = other(policy) or read_slurm_conf(conf, settings).allocator(shares=weighted, **idle)
    remarks = tuple(f"{present.path.name}: {key} is not modelled" for key in present.ignored)
    return compared(
        log,
        trace.with_notes(*remarks),
        devices,
        change,
        [*said, *instead(policy, "Slurm")],
        present.allocator(shares=tree.raw, **idle),
        after,
    )


def _slurm_jobs(trace: JobTrace, conf: SlurmConf, tree: Shares, qos: Mapping[str, float]) -> JobTrace:
    """Jobs with the types and limits of their partitions, Slurm's factors, and the whole path of their accounts."""
    count = len(trace)
    nothing = np.full(count, "", object)
    more = dict(trace.more)
    names = more.get("partition", nothing)
    partition = [conf.partitions.get(str(name)) for name in names]
    typed = set(conf.counts)
    device, ran_on = (np.array(more.get(key, nothing)) for key in ("device", "ran_on"))
    if typed == {"gpu"}:
        device, ran_on = nothing, nothing.copy()  # the file has GPUs without types
    limit_s = np.array(more.get("time_limit_s", np.full(count, np.nan)), float)
    for row, found in enumerate(partition):
        if found is not None and not device[row] and 0 < len(found.types) < len(typed):
            device[row] = ",".join(found.types)
        if found is not None and np.isnan(limit_s[row]):
            limit_s[row] = found.limit_s
    highest = max((found.priority for found in conf.partitions.values()), default=0.0)
    factor = [0.0 if found is None or not highest else found.priority / highest for found in partition]
    most = max(qos.values(), default=0.0)
    grade = [qos.get(str(name), 0.0) / most if most else 0.0 for name in more.get("qos", nothing)]
    paths = [tree.path_of(name) for name in trace.tenants]
    unknown = sorted({str(n) for n, found in zip(names, partition, strict=True) if found is None and n})
    empty = [name for name in conf.empty if name in names]
    unlimited = int(np.isnan(limit_s).sum())
    more |= {
        "device": device,
        "ran_on": ran_on,
        "time_limit_s": limit_s,
        "partition_factor": np.array(factor),
        "qos_factor": np.array(grade),
    }
    return replace(trace, tenants=tuple(paths), more=more).with_notes(
        f"partitions that {conf.path.name} lacks: {', '.join(unknown[:6])}" if unknown else "",
        f"partitions of {conf.path.name} without GPUs, whose jobs run anywhere: {', '.join(empty[:6])}"
        if empty
        else "",
        f"{unlimited} jobs have no time limit: backfill counts on their true run times" if unlimited else "",
    )


def _weighted_shares(
    trace: JobTrace, raw: Mapping[str, float], weight: Mapping[str, float]
) -> tuple[dict[str, float], list[str]]:
    """Shares after multiplying those of accounts or users."""
    found, said = dict(raw), []
    known = {
        "/".join(path.split("/")[:n]) for path in trace.tenants for n in range(1, path.count("/") + 2)
    } | set(raw)
    for name, factor in weight.items():
        if name not in known:
            raise UnknownNameError("account or user", name, known)
        found[name] = found.get(name, 1.0) * positive_factor(name, factor)
        said.append(f"shares of '{name}' times {factor:g}")
    return found, said
