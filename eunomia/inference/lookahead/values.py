"""What every candidate of one decision is worth: labels for learners (expert iteration)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from numba import types

from eunomia.core.arrays import Floats, Records
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.memory import node_at, slot_at, waiting_at
from eunomia.inference.lookahead.companion import Companion
from eunomia.inference.lookahead.deliberate import evaluate, prepare
from eunomia.inference.lookahead.futures import count_arrivals
from eunomia.inference.lookahead.memory import FIRST, NORMAL, WORKSPACE_TYPE, planned_at, snapshot_of


@dataclass(frozen=True)
class Candidates:
    """Worth of the alternatives at one decision point, in the unit of the objective (hits lost, negative).

    ``value[i]``: request ``request[i]`` goes first until it is done, then the base rule decides. ``base``: the base
    rule alone; ``hold``: nothing starts before the next event, then the base rule.
    """

    request: npt.NDArray[np.int64]  # (n,) ascending
    value: npt.NDArray[np.float64]  # (n,)
    base: float
    hold: float

    @property
    def regret(self) -> npt.NDArray[np.float64]:
        """(n,) how much worse than the best of all alternatives, base and hold included."""
        best = max(self.base, self.hold, float(self.value.max(initial=-np.inf)))
        return best - self.value


def candidate_values(companion: Companion) -> Candidates:
    """Roll out every waiting request that can still be on time, from the live state of the companion's engine.

    Call it while the engine waits for an answer (``Engine.advance()`` returned True). The plan in force
    stays as it is, and so does the engine. With sampled futures the values are sums over the same futures.
    """
    out = np.zeros((2 + companion.known, 2))
    count = _compiled()(companion.workspace, out)
    rows = out[2:count][np.argsort(out[2:count, 0])]
    return Candidates(rows[:, 0].astype(np.int64), rows[:, 1].copy(), float(out[0, 1]), float(out[1, 1]))


def _evaluate_all(workspaces, out):  # type: ignore[no-untyped-def]
    """Rows (request, value): base, hold, then the candidates; returns their number."""
    ws = workspaces[0]
    ws.limit = 0
    count_arrivals(ws)
    prepare(ws)
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    count = 2
    for i in range(k.num_waiting):
        request = slot_at(k, node_at(k, waiting_at(k, i).value).slot).request
        known = False
        for row in range(2, count):
            known = known or out[row, 0] == request
        if not known:
            out[count, 0] = request
            count += 1
    for row in range(count):
        request = int(out[row, 0]) if row >= 2 else slot_at(k, 0).request
        ws.hold = 1 if row == 1 else 0
        if row >= 2:
            planned_at(ws, request).value = FIRST
        out[row, 1] = evaluate(ws, 0, -np.inf)
        planned_at(ws, request).value = NORMAL
    ws.hold = 0
    return count


@cache
def _compiled() -> Callable[[Records, Floats], int]:
    signature = types.int64(types.Array(WORKSPACE_TYPE, 1, "C"), types.Array(types.float64, 2, "C"))
    return compile_cached(
        _evaluate_all,
        signature,
        _evaluate_all.__qualname__,
        "inference/kernel",
        "inference/policies",
        "inference/lookahead",
    )
