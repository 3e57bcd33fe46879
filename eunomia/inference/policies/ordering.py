"""Classical orders: a number per ready sub-job, least first. Formulas: section 7.1 of docs/policies.md.

Each function gets one READY record and the SYSTEM record (eunomia/contract/view.py) and is compiled
by numba. A *static* order depends only on facts that are frozen when the sub-job becomes ready, so
that waiting sub-jobs can be kept in a heap; a *dynamic* one is evaluated at every decision.
"""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.contract.rows import Key, Ready, System
from eunomia.core.errors import UnknownNameError
from eunomia.inference.kernel.noise import uniform

Key = Key


def fcfs(ready: Ready, system: System) -> float:
    """First come, first served: time of arrival of the request. Blind to deadlines and sizes."""
    return ready.arrival_s


def edf(ready: Ready, system: System) -> float:
    """Earliest deadline first. Optimal on one machine without overload; collapses beyond it."""
    return ready.deadline_s


def sjf(ready: Ready, system: System) -> float:
    """Shortest remaining work first, best-case time. Starves large networks."""
    return ready.work_best_s


def sjf_mean(ready: Ready, system: System) -> float:
    """Shortest remaining work first, mean time over accelerator types."""
    return ready.work_mean_s


def llf(ready: Ready, system: System) -> float:
    """Least laxity first: deadline - now - remaining critical path (best case). ``now`` is common to all."""
    return ready.deadline_s - ready.path_best_s


def llf_mean(ready: Ready, system: System) -> float:
    """Least laxity first with mean times over accelerator types."""
    return ready.deadline_s - ready.path_mean_s


def heft(ready: Ready, system: System) -> float:
    """Highest upward rank first: longest mean-time path to the end (Topcuoglu et al., TPDS 2002). Deadline-blind."""
    return -ready.path_mean_s


def edf_bytes(ready: Ready, system: System) -> float:
    """Deadline + 3 x remaining DRAM bytes / B: earliest deadline with a toll on bandwidth."""
    return ready.deadline_s + 3.0 * ready.bytes_left / system.bandwidth_bytes_s


def priority(ready: Ready, system: System) -> float:
    """Highest static priority first."""
    return -ready.priority


def shuffled(ready: Ready, system: System) -> float:
    """A random order, drawn per sub-job from the run's seed: the floor for every other order."""
    return uniform(system.seed, ready.request, ready.layer, 4)


def laxity_ratio(ready: Ready, system: System) -> float:
    """(deadline - now) / remaining critical path; dynamic. Collapses in overload."""
    return (ready.deadline_s - system.now_s) / ready.path_best_s


def deficit_edf(ready: Ready, system: System) -> float:
    """Time to the deadline x (1 - deficit), deficit = max(0, shortfall of the pair), at most 0.99; dynamic.

    The heuristic rival of Fair/Firm, after distance-based priority for (m,k)-firm streams: pairs
    below their SLO are treated as more urgent in proportion to what they miss. Late requests keep
    their lateness as key.
    """
    left_s = ready.deadline_s - system.now_s
    if left_s <= 0.0:
        return left_s
    return left_s * (1.0 - min(max(ready.gap, 0.0), 0.99))


def deficit_llf(ready: Ready, system: System) -> float:
    """Laxity x (1 - deficit); dynamic. See ``deficit_edf``."""
    left_s = ready.deadline_s - system.now_s - ready.path_best_s
    if left_s <= 0.0:
        return left_s
    return left_s * (1.0 - min(max(ready.gap, 0.0), 0.99))


@dataclass(frozen=True, slots=True)
class Order:
    """An ordering rule, whether its key changes while a sub-job waits, and its constants (at most 8).

    ``steady``: neither time nor progress ever makes its key of what runs worse than of what waits. The key reads the
    constants as ``system.parameters``.

    ``kept_by``: what keeps the sub-jobs of one pair in order while they wait, so that the engine need not score all.
    "deadline": the key reads that, the clock and what all of the pair share (gap, slo, model), and never falls when the
    deadline grows. "key": it reads facts that do not change, and gap and sli_count of the pair, but not the clock.
    "rank": it is ``in_class(rank, deadline - now)`` (tenant_gap.py), with a rank that all of the pair share.
    ``per_layer``: of one layer of the pair, that is, it also reads what the layer has by itself.
    """

    name: str
    key: Key
    dynamic: bool = False
    parameters: tuple[float, ...] = ()
    steady: bool = False
    kept_by: str = ""
    per_layer: bool = False


ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        Order("fcfs", fcfs, steady=True),
        Order("edf", edf, steady=True),
        Order("sjf", sjf, steady=True),
        Order("sjf_mean", sjf_mean, steady=True),
        Order("llf", llf),
        Order("llf_mean", llf_mean),
        Order("heft", heft),
        Order("edf_bytes", edf_bytes, steady=True),
        Order("priority", priority, steady=True),
        Order("shuffled", shuffled),
        Order("laxity_ratio", laxity_ratio, dynamic=True, kept_by="deadline", per_layer=True),
        Order("deficit_edf", deficit_edf, dynamic=True, kept_by="deadline"),
        Order("deficit_llf", deficit_llf, dynamic=True, kept_by="deadline", per_layer=True),
    )
}


def find_order(name: str) -> Order:
    """The order of that name; raises UnknownNameError."""
    if name not in ORDERS:
        raise UnknownNameError("order", name, ORDERS)
    return ORDERS[name]
