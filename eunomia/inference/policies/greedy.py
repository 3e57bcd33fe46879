"""Order x placement: the family of list-scheduling rules, compiled or stepped with the same results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np
from numba import types

from eunomia.contract.rows import CompiledKey
from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats, Records
from eunomia.core.compiled import Compiled
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.greedy import greedy_choice
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DYNAMIC, GREEDY, KEPT_BY, PLACEMENTS, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE, KEY_TYPE, compile_key
from eunomia.inference.policies.ordering import Order, find_order
from eunomia.inference.policies.ticks import queue_all


@dataclass(frozen=True)
class Greedy:
    """Start the first ready sub-job, in order, whose chosen accelerator is idle; repeat.

    ``order``: a name (policies/ordering.py), an Order, or a function (ready, system) -> float that numba
    can compile (taken as dynamic). ``place``: any_idle, pref, eft, eft_ca or first_idle (docs/engine.md).
    ``feasible`` (+f): requests that can no longer meet their deadline go last. ``gate`` (+g): hold
    while the demand of running layers exceeds gate x bandwidth, so that urgent layers run at full
    speed. Greedy rules look one decision ahead and never preempt inside a layer.
    """

    order: str | Order | Callable[..., float] = "edf"
    place: str = "any_idle"
    feasible: bool = False
    gate: float = math.inf

    def __post_init__(self) -> None:
        if self.place not in PLACEMENTS:
            raise UnknownNameError("placement", self.place, PLACEMENTS)
        if isinstance(self.order, str):
            find_order(self.order)
        if not self.gate > 0.0:
            raise PolicyError(
                f"bandwidth gate is {self.gate}; it must be positive, such as 0.9, or be left out"
            )

    @property
    def resolved(self) -> Order:
        """The order as an object."""
        if isinstance(self.order, Order):
            return self.order
        if isinstance(self.order, str):
            return find_order(self.order)
        return Order(getattr(self.order, "__name__", "custom"), self.order, dynamic=True)

    @property
    def name(self) -> str:
        """Canonical name: order, +f, +placement, +g."""
        name = self.resolved.name + ("+f" if self.feasible else "")
        name += "" if self.place == "any_idle" else f"+{self.place}"
        return name + (f"+g{self.gate:g}" if math.isfinite(self.gate) else "")

    @property
    def rules(self) -> Rules:
        """What the kernel needs to run the rule by itself."""
        order = self.resolved
        return Rules(
            DYNAMIC if order.dynamic else GREEDY,
            PLACEMENTS.index(self.place),
            feasible=self.feasible,
            gate=float(self.gate),
            base=KEPT_BY.index(order.kept_by),
            per_layer=order.per_layer,
        )

    @property
    def work_conserving(self) -> bool:
        """Whether it never leaves an accelerator idle for which something waits, if there is but one."""
        return not math.isfinite(self.gate)

    @property
    def steady(self) -> bool:
        """Whether only arrivals can make it prefer another request to the one that runs; lateness aside."""
        return self.resolved.steady and not math.isfinite(self.gate)

    @property
    def key(self) -> CompiledKey:
        """The compiled order."""
        return compile_key(self.resolved.key)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Constants of the order."""
        return self.resolved.parameters

    def __call__(self, view: View) -> list[Assign]:
        """One start, or none; the engine calls again while something can start. At a tick, all of them."""
        if view.system["period_s"] > 0.0:
            tiered = self.feasible or view.system["late_last"] == 1
            return queue_all(self.key, view, tiered=tiered, queues=self.place in ("eft", "eft_ca"))
        index, s = _choose()(
            self.key,
            view.ready,
            view.latency_s,
            view.demand_bytes_s,
            view.accelerators,
            view.system,
            PLACEMENTS.index(self.place),
            self.feasible,
            float(self.gate),
        )
        return [view.assign(index, s)] if index >= 0 else []


# key, ready, latency_s, demand_bytes_s, accelerators, system, place, feasible, gate -> row of ready, accelerator
_Choose: TypeAlias = Callable[
    [CompiledKey, Records, Floats, Floats, Records, np.void, int, bool, float], tuple[int, int]
]


@lru_cache(maxsize=1)
def _choose() -> _Choose:
    """``greedy_choice`` for calls from Python, as from each server that begins."""
    ready, latency, demand, _, accelerators, system = DECIDE_SIGNATURE.args[:6]
    result = types.UniTuple(types.int64, 2)
    signature = result(
        KEY_TYPE, ready, latency, demand, accelerators, system, types.int64, types.boolean, types.float64
    )
    function = cast(Compiled[..., tuple[int, int]], greedy_choice).py_func
    return compile_cached(function, signature, "greedy", "inference/kernel")
