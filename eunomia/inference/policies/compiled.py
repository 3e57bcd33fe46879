"""Any policy written as one compiled function over the View's arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numba import types

from eunomia.contract.rows import CompiledDecide
from eunomia.contract.view import Assign, View
from eunomia.core.compiled import Compiled as CompiledFunction
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE, DECIDE_TYPE, compile_decide
from eunomia.inference.kernel.unrolling import plan


@dataclass(frozen=True)
class Compiled:
    """A policy that runs inside the event loop and, unchanged, in stepped mode.

    ``function(ready, latency_s, demand_bytes_s, energy_j, accelerators, system, answer, priority)``
    writes (row of ``ready``, accelerator) pairs into ``answer``, in periodic mode also their
    priorities, and returns their number; 0 = hold. numba compiles it. ``parameters`` (at most 8) reach
    it as ``system.parameters``; ``system.memory`` keeps 64 numbers from one decision to the next. ``starts_alone``,
    ``charge_elsewhere``, ``charge_run``: traits (contract/traits.py).
    """

    function: Callable[..., int]
    name: str
    parameters: tuple[float, ...] = ()
    starts_alone: bool = False
    charge_elsewhere: Callable[..., None] | None = None
    charge_run: Callable[..., None] | None = None

    @property
    def rules(self) -> Rules:
        """What the kernel needs to run the policy by itself; a tick queues all that it would start."""
        return Rules(DECIDE, ahead=math.inf)

    @property
    def decide(self) -> CompiledDecide:
        """The compiled function."""
        return compile_decide(self.function)

    decide_tick = decide

    def __call__(self, view: View) -> list[Assign]:
        """Ask the compiled function about one View."""
        return ask(self, view)


class _Deciding(Protocol):
    """What runs inside the event loop: at events, and at the ticks of a period."""

    @property
    def rules(self) -> Rules: ...

    @property
    def decide(self) -> CompiledDecide: ...

    @property
    def decide_tick(self) -> CompiledDecide: ...


def ask(policy: _Deciding, view: View) -> list[Assign]:
    """The compiled function's answer to one View, from Python."""
    answer = np.zeros((max(len(view), len(view.accelerators)), 2), np.int64)
    priority = np.zeros(len(answer))
    numbers = (view.ready, view.latency_s, view.demand_bytes_s, view.energy_j, view.accelerators, view.system)
    if not view.system["period_s"] > 0.0:
        count = policy.decide(*numbers, answer, priority)
    elif policy.rules.ahead > 0.0:
        count = compiled_plan()(*numbers, answer, priority, policy.decide_tick, policy.rules.ahead)
    else:
        count = policy.decide_tick(*numbers, answer, priority)
    return [view.assign(int(i), int(s), float(priority[n])) for n, (i, s) in enumerate(answer[:count])]


@cache
def compiled_plan() -> CompiledFunction[..., int]:
    """What a tick asks for in place of one start, for schedulers of any kind (kernel/unrolling.py)."""
    signature = types.int64(*DECIDE_SIGNATURE.args, DECIDE_TYPE, types.float64)
    return compile_cached(plan, signature, "plan", "inference/kernel")
