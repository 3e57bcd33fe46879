"""Slurm and Kueue as policies by name, set up by their operators' own files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from eunomia.cluster.operators.kueue_queues import read_kueue_queues
from eunomia.cluster.operators.slurm_conf import read_slurm_conf
from eunomia.cluster.operators.slurm_shares import read_shares
from eunomia.cluster.policies.kueue.allocator import Kueue
from eunomia.cluster.policies.slurm.allocator import Slurm
from eunomia.core.errors import ConfigError
from eunomia.core.registry import made


def slurm(conf: str | None = None, sshare: str | None = None, **settings: object) -> Slurm:
    """``slurm(conf=slurm.conf, sshare=shares.txt)``, or by settings alone. Raises ConfigError, TraceError."""
    if sshare is not None:
        settings = {"shares": read_shares(sshare).raw, "idle": True, **settings}
    known: Mapping[str, object] = {} if conf is None else read_slurm_conf(conf).settings
    return cast(Slurm, made(Slurm, {**known, **settings}, "cluster policy 'slurm'"))


def kueue(queues: str | None = None, **settings: object) -> Kueue:
    """``kueue(queues=queues.yaml)``, or one cohort of all tenants by settings. Raises ConfigError, TraceError."""
    if queues is None:
        return cast(Kueue, made(Kueue, settings, "cluster policy 'kueue'"))
    if settings:
        given = ", ".join(settings)
        raise ConfigError(f"kueue: the file of queues says how they share; leave out {given}, or the file")
    return Kueue(setup=read_kueue_queues(queues).setup)
