"""The same arrivals, faster: how the load of a scenario is scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.workload.arrivals import ArrivalProcess, Diurnal, Mmpp, Periodic, Poisson, Profile, Replay
from eunomia.workload.paced import AuroraStreams, MocaStreams
from eunomia.workload.processes import Arrivals


def _rate(process: Poisson | Diurnal | Profile, factor: float) -> Arrivals:
    return replace(process, rate_per_s=process.rate_per_s * factor)


def _mmpp(process: Mmpp, factor: float) -> Arrivals:
    calm, burst = process.calm_rate_per_s * factor, process.burst_rate_per_s * factor
    return replace(process, calm_rate_per_s=calm, burst_rate_per_s=burst)


def _periodic(process: Periodic, factor: float) -> Arrivals:
    return replace(process, period_s=process.period_s / factor)


def _replay(process: Replay, factor: float) -> Arrivals:
    return replace(process, speedup=process.speedup * factor)


def _paced(process: MocaStreams | AuroraStreams, factor: float) -> Arrivals:
    return replace(process, cap=process.cap / factor)


SCALED: dict[type, Callable[[Any, float], Arrivals]] = {
    Poisson: _rate,
    Diurnal: _rate,
    Profile: _rate,
    Mmpp: _mmpp,
    Periodic: _periodic,
    Replay: _replay,
    MocaStreams: _paced,
    AuroraStreams: _paced,
}


@dataclass(frozen=True)
class Faster:
    """A process with its time run ``factor`` times as fast: what a process without a rule of its own becomes."""

    process: ArrivalProcess
    factor: float

    @property
    def mean_rate_per_s(self) -> float:
        """Arrivals per second."""
        return self.factor * self.process.mean_rate_per_s

    def times(self, rng: np.random.Generator, duration_s: float) -> npt.NDArray[np.float64]:
        """Arrival times in [0, duration_s), ascending."""
        return np.asarray(self.process.times(rng, duration_s * self.factor) / self.factor)


def faster(process: Arrivals, factor: float, tenant: str) -> Arrivals:
    """The process with its long-run rate multiplied by ``factor``.

    Exact in the mean, but for paced streams, whose jitter does not scale, and for traces: sped up, the
    run covers another piece of the trace, whose rate may differ (``capacity.factor_for`` corrects for
    both). A process that is not ours runs ``Faster``. Raises ConfigError for closed loops, which have no rate.
    """
    if factor == 1.0:
        return process
    if type(process) not in SCALED and isinstance(process, ArrivalProcess):
        return Faster(process, factor)
    if type(process) not in SCALED:
        kind = type(process).__name__
        raise ConfigError(
            f"tenant '{tenant}': {kind} arrivals have no rate to scale; leave load out, or use another process"
        )
    scaled: Arrivals = SCALED[type(process)](process, factor)
    return scaled
