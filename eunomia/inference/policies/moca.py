"""MoCA's dispatch score: priority plus waiting time in units of the request's own length.

Source: Kim et al., "MoCA: Memory-Centric, Adaptive Execution for Multi-Tenant Deep Neural Networks", HPCA
2023, arXiv 2305.05843; code: MOCA branch of ucb-bar/gemmini-rocc-tests.

score = priority (0 to 11) + (now - arrival) / iso, iso = isolated best-case time of the network [s]. Greatest
score first. Its second half splits the memory bandwidth by urgency: w = (1 + priority) / 4 + 10 remaining / slack, and
who is more urgent is cut less (``weighted`` in docs/engine.md). ``moca`` is the order alone, and shares as the
platform does; ``moca_split`` brings its split along, on platforms that share proportionally or max-min.

Does badly: blind to deadlines; under overload long waiters win, whether or not they can still make it.

Deviations: (1) decides at layer boundaries, the published one starts whole networks on tiles; (2) without its
co-location of memory-bound with compute-bound networks at dispatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eunomia.contract.rows import Ready, System
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order


def moca_key(ready: Ready, system: System) -> float:
    """Greatest priority + waiting / isolated time first (MoCA, HPCA 2023); dynamic. Blind to deadlines."""
    return -(ready.priority + (system.now_s - ready.arrival_s) / ready.iso_best_s)


MOCA = Order("moca", moca_key, dynamic=True)


def moca(place: str = "any_idle", gate: float = math.inf) -> Greedy:
    """Priority + waiting / isolated time (MoCA, HPCA 2023); its bandwidth split is the ``moca_split``."""
    return Greedy(MOCA, place, gate=gate)


@dataclass(frozen=True)
class Splitting(Greedy):
    """A greedy rule whose accelerators throttle their own memory traffic by urgency."""

    sharing: str = (
        "weighted"  # contention mode in place of the platform's, where that is proportional or max-min
    )

    @property
    def name(self) -> str:
        """The rule's name with the split."""
        return super().name.replace("moca", "moca_split", 1)


def moca_split(place: str = "any_idle", gate: float = math.inf) -> Splitting:
    """MoCA whole: priority + waiting / isolated time, bandwidth split by urgency (HPCA 2023). Blind to deadlines."""
    return Splitting(MOCA, place, gate=gate)
