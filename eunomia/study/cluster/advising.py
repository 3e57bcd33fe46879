"""Advice for a Slurm cluster: read it, ask allocators, compare with what Slurm itself has decided."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from eunomia.cluster.advice import Advised, advise
from eunomia.cluster.operators.slurm_now import CLOCK, SINFO, SQUEUE, SSHARE, SlurmNow, read_now
from eunomia.cluster.operators.slurm_shares import read_shares
from eunomia.cluster.policies.catalogue import own_allocator
from eunomia.core.data import Json
from eunomia.core.errors import ConfigError, EunomiaError, OutputError
from eunomia.engines.slurm.ask import ask
from eunomia.study.cluster.slurm_plan import STATES

POLICIES = ("slurm", "max_min_fairness_perf", "finish_time_fairness_perf", "themis", "least_attained_service")


def slurm_now(sinfo: Path | None = None, squeue: Path | None = None) -> SlurmNow:
    """From saved files, or from the commands. Raises ConfigError."""
    clock = _text(None, CLOCK) if sinfo is None and squeue is None else ""
    now = read_now(_text(sinfo, SINFO), _text(squeue, SQUEUE), clock, STATES)
    return replace(now, jobs=tuple(replace(job, running=not job.waits) for job in now.jobs))  # all hold GPUs


def account_shares(sshare: Path | None, live: bool) -> dict[str, float]:
    """Raw shares of accounts; none where Slurm keeps no accounts. Raises TraceError for a file that is none."""
    if sshare is not None:
        return read_shares(sshare).raw
    if not live:
        return {}
    with NamedTemporaryFile("w", suffix=".txt") as saved:
        try:
            saved.write(_text(None, SSHARE))
            saved.flush()
            return read_shares(saved.name).raw
        except EunomiaError:  # no accounting
            return {}


def advice(
    now: SlurmNow, policies: Sequence[str], speeds: Mapping[str, float], shares: Mapping[str, float]
) -> dict[str, list[Advised]]:
    """What each allocator would do, by name. Raises ConfigError for a type of GPU that there is not."""
    for kind in speeds:
        if kind not in now.counts:
            raise ConfigError(f"--speed {kind}: there is no such GPU; there are {', '.join(now.counts)}")
    return {name: advise(now, own_allocator(name), speeds, shares) for name in policies}


def as_record(now: SlurmNow, found: Mapping[str, Sequence[Advised]]) -> Json:
    """One look: the cluster, and by allocator what it would do otherwise than Slurm did."""
    return {
        "time_s": now.now_s,
        "gpus": now.counts,
        "running": sum(job.running for job in now.jobs),
        "waiting": sum(not job.running for job in now.jobs),
        "advice": {name: [_record(each) for each in advised] for name, advised in found.items()},
    }


def append(path: Path, record: Json) -> None:
    """One more line of a shadow period. Raises OutputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def _record(each: Advised) -> Json:
    job = {key: value for key, value in asdict(each.job).items() if value != float("inf")}
    return {**job, "does": each.does, "on": each.on, "why": each.why}


def _text(path: Path | None, command: Sequence[str]) -> str:
    if path is not None:
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}; save it with {' '.join(command)}") from None
    return ask(command, instead=f", or give --{command[0]} FILE, saved elsewhere")
