"""Who sends what when, drawn before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.workload.arrivals import ArrivalProcess

MAX_REQUESTS = 5_000_000


@dataclass(frozen=True)
class LoadStream:
    """One tenant's requests for one network.

    ``deadline_s`` decides what counts as a hit, from the intended send time; it is sent along as
    ``slo_ms`` when ``send_deadline`` says so. ``key``: API key; without one the tenant's name goes into a header.
    """

    tenant: str
    model: str
    process: ArrivalProcess
    deadline_s: float
    key: str | None = None
    send_deadline: bool = False


@dataclass(frozen=True)
class Schedule:
    """Send times in order, and the stream of each."""

    time_s: npt.NDArray[np.float64]
    stream: npt.NDArray[np.int64]


def draw_schedule(streams: Sequence[LoadStream], duration_s: float, seed: int) -> Schedule:
    """Arrivals of every stream, each from a random number generator of its own; raises ConfigError when none comes."""
    children = np.random.SeedSequence(seed).spawn(len(streams))
    times = [
        stream.process.times(np.random.default_rng(child), duration_s)
        for stream, child in zip(streams, children, strict=True)
    ]
    count = sum(map(len, times))
    if not 0 < count <= MAX_REQUESTS:
        raise ConfigError(
            f"the load has {count} requests in {duration_s:g} s; from 1 to {MAX_REQUESTS} can be sent"
        )
    owner = np.repeat(np.arange(len(streams)), [len(t) for t in times])
    time_s = np.concatenate(times)
    order = np.argsort(time_s, kind="stable")
    return Schedule(time_s[order], owner[order])
