"""Shortest first: by remaining time (SRTF), or by remaining service, time x devices (SRSF)."""

from __future__ import annotations

from eunomia.cluster.policies.serving_order import Ordered, Types, fastest_s
from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats


def srtf(types: Types = "stay") -> Ordered:
    """Shortest remaining time first, preemptive. Optimal mean completion time on one machine (Schrage 1968).

    Needs to know run times; does badly for long jobs, which may wait for ever under load, and for gangs: a
    short job on many devices goes before many jobs on one each.
    """
    return Ordered(fastest_s, types)


def srsf(types: Types = "stay") -> Ordered:
    """Shortest remaining service (time x devices) first, preemptive; as Tiresias' simulator has it (NSDI 2019).

    Does badly for wide and long jobs, which wait for all others.
    """
    return Ordered(_service, types)


def _service(view: ClusterView) -> Floats:
    return fastest_s(view) * view.scale
