"""Arrival processes by name: what a scenario's ``arrivals = {process = "poisson", ...}`` builds."""

from __future__ import annotations

from inspect import isfunction

from eunomia.core.errors import ConfigError
from eunomia.core.registry import Registry, made
from eunomia.workload.arrivals import ArrivalProcess
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.paced import Paced

Arrivals = ArrivalProcess | Paced | ClosedLoop

ARRIVALS = Registry(
    "arrival process",
    "eunomia.arrivals",
    {
        "poisson": "eunomia.workload.arrivals:Poisson",
        "mmpp": "eunomia.workload.arrivals:Mmpp",
        "bursty": "eunomia.workload.arrivals:bursty",
        "diurnal": "eunomia.workload.arrivals:Diurnal",
        "profile": "eunomia.workload.arrivals:Profile",
        "periodic": "eunomia.workload.arrivals:Periodic",
        "replay": "eunomia.workload.arrivals:Replay",
        "closed_loop": "eunomia.workload.closed_loop:ClosedLoop",
        "moca": "eunomia.workload.paced:MocaStreams",
        "aurora": "eunomia.workload.paced:AuroraStreams",
    },
)


def arrivals(process: str, /, **settings: object) -> Arrivals:
    """Build a process by its registered name, or by ``FILE.py:NAME``: ``arrivals("poisson", rate_per_s=120.0)``.

    Raises UnknownNameError for the name and ConfigError for a setting that is missing, unknown or wrong.
    """
    found, what = ARRIVALS.resolve(process), f"arrival process '{process}'"
    process_ = made(found, settings, what) if isinstance(found, type) or isfunction(found) else found
    if not isinstance(process_, ArrivalProcess | Paced | ClosedLoop):
        raise ConfigError(f"{what} gives {type(process_).__name__}, which is no arrival process")
    return process_
