"""The rows of a View, picked from the table of waiting requests: one pass, compiled."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from numba import from_dtype, types

from eunomia.contract.view import READY
from eunomia.core.compiled import Compiled, compiled

_READY, _FLOATS = types.Array(from_dtype(READY), 1, "C"), types.Array(types.float64, 2, "C")
_NUMBERS, _FLAGS = types.Array(types.float64, 1, "C"), types.Array(types.boolean, 1, "C")
_COUNTS = types.Array(types.int64, 1, "C")
SIGNATURE = types.void(
    _READY,
    _COUNTS,
    _FLAGS,
    types.int64,
    types.int64,
    _FLOATS,
    _FLOATS,
    types.float64,
    _NUMBERS,
    types.float64,
    _READY,
    _FLOATS,
)


@compiled
def _relieve(
    ready: npt.NDArray[np.void], now_s: float, served_s: npt.NDArray[np.float64], starve_s: float
) -> None:
    """Of each tenant that has starved, the most urgent of its late requests counts as one that can make it."""
    since_s, urgent = np.full(len(served_s), np.inf), np.full(len(served_s), -1)
    for n in range(len(ready)):
        tenant = ready[n].tenant
        if ready[n].late:
            since_s[tenant] = min(since_s[tenant], ready[n].arrival_s)
            if urgent[tenant] < 0 or ready[n].deadline_s < ready[urgent[tenant]].deadline_s:
                urgent[tenant] = n
    for tenant in range(len(served_s)):
        if urgent[tenant] >= 0 and now_s - max(since_s[tenant], served_s[tenant]) > starve_s:
            ready[urgent[tenant]].late = 0


@compiled
def offer(
    records: npt.NDArray[np.void],
    rows_of_input: npt.NDArray[np.int64],
    offered: npt.NDArray[np.bool_],
    end: int,
    ahead: int,
    indicators: npt.NDArray[np.float64],
    latency_s: npt.NDArray[np.float64],
    now_s: float,
    served_s: npt.NDArray[np.float64],
    starve_s: float,
    ready: npt.NDArray[np.void],
    ready_latency_s: npt.NDArray[np.float64],
) -> None:
    """Fill ``ready`` (n,) READY and ``ready_latency_s`` (n, devices).

    ``records``, ``rows_of_input``, ``offered``: the table, how many rows each input has, and which requests to take, of
    the first ``end``, row ``ahead`` before all others (-1 = none). ``indicators`` (3, pairs): sli, gap, count.
    ``latency_s``: the table of block times, per row of input. Late is whoever cannot make its deadline any more; but of
    each tenant that has a late request and was not served for ``starve_s`` (``served_s`` (tenants,): when each last
    was), the most urgent one counts as one that can.
    """
    count = late = 0
    for step in range(-1, end):
        row = ahead if step < 0 else step
        if row < 0 or not offered[row] or (row == ahead and step >= 0):
            continue
        ready[count] = records[row]
        one = ready[count]
        one.sli = indicators[0, one.pair]
        one.gap = indicators[1, one.pair]
        one.sli_count = types.int64(indicators[2, one.pair])
        one.late = one.deadline_s < now_s + one.path_best_s
        late += one.late
        for device in range(latency_s.shape[1]):
            ready_latency_s[count, device] = latency_s[one.row, device] * rows_of_input[row]
        count += 1
    if late > 0 and starve_s < float("inf"):
        _relieve(ready[:count], now_s, served_s, starve_s)


@cache
def compile_offer() -> Compiled[..., None]:
    """``offer`` as machine code for the types above alone, made or read from disk now."""
    offer.compile(SIGNATURE)
    offer.disable_compile()
    return offer
