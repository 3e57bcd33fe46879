"""The records of a View as compiled code reads them: ``job.deadline_s`` in place of ``job["deadline_s"]``.

The fields are those of :mod:`eunomia.contract.view`, which says what they mean. For type checkers alone: numba compiles
for the dtypes and reads no annotation, and NumPy's records have these attributes only there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints, Records


class Ready(Protocol):
    """A READY record."""

    request: int
    layer: int
    row: int
    model: int
    tenant: int
    pair: int
    arrival_s: float
    deadline_s: float
    ready_s: float
    work_best_s: float
    work_mean_s: float
    path_best_s: float
    path_mean_s: float
    iso_best_s: float
    iso_mean_s: float
    bytes_left: float
    attained_s: float
    last_run_s: float
    priority: float
    weight: float
    slo: float
    sli: float
    gap: float
    sli_count: int
    layers_done: int
    layers_total: int
    deferrable: int
    late: int
    sequence: int
    accelerator: int
    bound: int


class Accelerator(Protocol):
    """An ACCELERATOR record."""

    type: int
    request: int
    layer: int
    free_in_s: float
    demand_bytes_s: float
    last_request: int
    queued: int
    queued_s: float
    busy_s: float


class Numbers(Protocol):
    """An array of numbers within a record."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: SupportsIndex) -> float: ...

    def __setitem__(self, index: SupportsIndex, value: float) -> None: ...


class System(Protocol):
    """The SYSTEM record."""

    now_s: float
    bandwidth_bytes_s: float
    demand_bytes_s: float
    starts: int
    binds: int
    live: int
    finished: int
    seed: int
    late_last: int
    period_s: float
    parameters: Numbers
    block_at: npt.NDArray[np.uint64]
    block_bytes: Ints
    memory: Numbers


Row = TypeVar("Row")


class Rows(Protocol[Row]):
    """A structured array of one axis."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Rows[Row]: ...

    @overload
    def __getitem__(self, index: str) -> npt.NDArray[np.float64 | np.int64]: ...

    @overload
    def __setitem__(self, index: SupportsIndex, value: Row) -> None: ...

    @overload
    def __setitem__(self, index: slice, value: Rows[Row]) -> None: ...


Key: TypeAlias = Callable[[Ready, System], float]  # of an order: least first
CompiledKey: TypeAlias = Callable[[np.void, np.void], float]  # the same as machine code, called from Python
# ready, latency_s, demand_bytes_s, energy_j, accelerators, system; answer and priority, which it fills -> rows filled
CompiledDecide: TypeAlias = Callable[[Records, Floats, Floats, Floats, Records, np.void, Ints, Floats], int]
