"""From requests, costs and a platform to what the program needs: who counts, windows, demands, capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PlatformError, UnknownNameError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.metrics.bounds.demand import Bytes, ModelDemand, least_costs, model_demand
from eunomia.metrics.bounds.windows import CLOCK, GRACE_S
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable

UNLIMITED = tuple(
    name for name, model in CONTENTION.items() if model.exceeds
)  # modes that may deliver more than B
SMALL, LAYERS = 10, 24  # requests and layers in question, up to which a case is small


@dataclass(frozen=True)
class BoundOptions:
    """How a bound is computed; the first five say what is bounded, the rest how tightly.

    ``contention`` and ``bandwidth_bytes_s``: None = the platform's. ``horizon_s``: the run is cut off
    there. ``segments``: layers of a request are cut into so many precedence segments, each with a window
    of its own; 8 tighten the bound when deadlines are tight; 0 = one per layer. ``merge``: layers alike to
    this share form one group (0 = proportional ones alone). ``count_bytes``: DRAM bytes by type, or the least
    over types.
    ``intervals``: None = by size, 0 = all release and deadline points (of every segment), n = equal ones.
    ``tight``: bytes move while their layer runs; None = where the case is small. A small case (SMALL requests,
    LAYERS layers at most) is cut into layers, whose order on each accelerator counts.
    """

    contention: str | None = None
    bandwidth_bytes_s: float | None = None
    horizon_s: float | None = None
    segments: int = 1
    merge: float = 0.0
    count_bytes: Bytes = "typed"
    intervals: int | None = None
    tight: bool | None = None
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.contention is not None and self.contention not in CONTENTION:
            raise UnknownNameError("contention mode", self.contention, CONTENTION)
        if self.count_bytes not in ("typed", "least"):
            raise UnknownNameError("way to count bytes", self.count_bytes, ("typed", "least"))
        if self.segments < 0:
            raise ConfigError(
                f"segments is {self.segments}; it must be at least 1, or 0 for a segment per layer"
            )
        if not 0.0 <= self.merge <= 1.0:
            raise ConfigError(f"merge is {self.merge}; it must lie in 0..1")
        for name in ("bandwidth_bytes_s", "horizon_s", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ConfigError(f"{name} is {value}; it must be positive, or absent")


@dataclass(frozen=True, eq=False)
class Instance:
    """Requests sorted into three kinds, and what the ones in question need.

    ``free``: counted as served and given no work: without deadline, or of closed loops (their arrival
    depends on the schedule). ``lost``: cannot be served even alone. ``open``: rows that the program decides.
    """

    free: Ints
    lost: Ints
    open: Ints
    start_s: Floats  # (open,)
    end_s: Floats  # (open,)
    model: Ints  # (open,) index into demands
    demands: tuple[ModelDemand, ...]
    models: tuple[DnnModel, ...]
    count: Floats  # (types,) accelerators
    bandwidth_bytes_s: float  # inf = no limit applies

    @property
    def small(self) -> bool:
        """Whether an integer program over the order of its layers is within reach."""
        layers = np.array([len(model.layers) for model in self.models], np.int64)[self.model]
        return len(self.open) <= SMALL and int(layers.sum()) <= LAYERS


def build_instance(
    requests: RequestTable, table: CostTable, platform: PlatformLike, options: BoundOptions
) -> Instance:
    """Sort the requests and work out demands. Raises ConfigError or PlatformError for unknown names."""
    columns = np.array([_column(table, name) for name in platform.types], np.int64)
    count = np.bincount(platform.type_of, minlength=len(columns)).astype(np.float64)
    columns, count = columns[count > 0], count[count > 0]
    end_s = requests.deadline_s + GRACE_S
    if options.horizon_s is not None:
        end_s = np.minimum(end_s, options.horizon_s)
    free = np.isnan(end_s) | np.isinf(end_s)
    tolerance_s = CLOCK * max(1.0, float(end_s[~free].max(initial=0.0)))
    demands = _demands(table, columns, tolerance_s, options)
    model = _models(requests, table)
    alone_s = np.array([demand.path_s for demand in demands])[model]
    start_s, end_s = requests.arrival_s - tolerance_s, end_s + tolerance_s
    lost = ~free & (end_s - start_s < alone_s)
    rows = np.flatnonzero(~free & ~lost)
    contention = options.contention or platform.contention
    bandwidth = platform.dram_bytes_s if options.bandwidth_bytes_s is None else options.bandwidth_bytes_s
    return Instance(
        np.flatnonzero(free),
        np.flatnonzero(lost),
        rows,
        start_s[rows],
        end_s[rows],
        model[rows],
        demands,
        table.models,
        count,
        math.inf if contention in UNLIMITED else float(bandwidth),
    )


def _demands(
    table: CostTable, columns: Ints, tolerance_s: float, options: BoundOptions
) -> tuple[ModelDemand, ...]:
    work_s, volume = least_costs(table, columns, tolerance_s)
    stuck = np.flatnonzero(~np.isfinite(work_s).any(axis=1))
    if len(stuck):
        model, layer = table.layer_at(int(stuck[0]))
        raise PlatformError(
            f"no accelerator of the platform can run layer '{model.layers[layer].name}' of model '{model.name}'"
        )
    return tuple(
        model_demand(
            model,
            work_s[table.offsets[m] : table.offsets[m + 1]],
            volume[table.offsets[m] : table.offsets[m + 1]],
            segments=options.segments,
            merge=options.merge,
            count_bytes=options.count_bytes,
        )
        for m, model in enumerate(table.models)
    )


def _models(requests: RequestTable, table: CostTable) -> Ints:
    """(n,) index of each request's model in the table."""
    names = [model.name for model in table.models]
    for agreement in requests.agreements:
        if agreement.model not in names:
            raise ConfigError(
                f"tenant '{agreement.tenant}' uses model '{agreement.model}', which has no costs; "
                f"known: {', '.join(names)}"
            )
    return np.array([names.index(a.model) for a in requests.agreements], np.int64)[requests.pair]


def _column(table: CostTable, name: str) -> int:
    if name not in table.types:
        raise PlatformError(
            f"the cost table has no accelerator type '{name}'; it has: {', '.join(table.types)}"
        )
    return table.types.index(name)
