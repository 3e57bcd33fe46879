"""Slurm and Kueue as policies by name, set up by their operators' own files."""

from __future__ import annotations

from eunomia.cluster.operators.kueue_queues import read_kueue_queues
from eunomia.cluster.operators.slurm_conf import read_slurm_conf
from eunomia.cluster.operators.slurm_shares import read_shares
from eunomia.cluster.policies.kueue.allocator import Kueue
from eunomia.cluster.policies.slurm.allocator import Slurm
from eunomia.core.errors import ConfigError


def slurm(conf: str | None = None, sshare: str | None = None, **settings: object) -> Slurm:
    """``slurm(conf=slurm.conf, sshare=shares.txt)``, or by settings alone. Raises ConfigError, TraceError."""
    if sshare is not None:
        settings = {"shares": read_shares(sshare).raw, "idle": True, **settings}
    if conf is None:
        return Slurm(**settings)  # type: ignore[arg-type]
    return read_slurm_conf(conf).allocator(**settings)


def kueue(queues: str | None = None, **settings: object) -> Kueue:
    """``kueue(queues=queues.yaml)``, or one cohort of all tenants by settings. Raises ConfigError, TraceError."""
    if queues is None:
        return Kueue(**settings)  # type: ignore[arg-type]
    if settings:
        given = ", ".join(settings)
        raise ConfigError(f"kueue: the file of queues says how they share; leave out {given}, or the file")
    return Kueue(setup=read_kueue_queues(queues).setup)
