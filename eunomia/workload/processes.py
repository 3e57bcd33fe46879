"""Arrival processes by name: what a scenario's ``arrivals = {process = "poisson", ...}`` builds."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.core.registry import Registry
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
    """Build a process by its registered name: ``arrivals("poisson", rate_per_s=120.0)``.

    Raises UnknownNameError for the name and ConfigError for a setting that is missing, unknown or wrong.
    """
    factory = ARRIVALS.load(process)
    try:
        made: Arrivals = factory(**settings)
    except TypeError as error:
        reason = str(error).split("() ")[-1]
        raise ConfigError(f"arrival process '{process}': {reason}") from None
    return made
