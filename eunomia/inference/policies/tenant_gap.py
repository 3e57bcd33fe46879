"""Tenant-aware orders: who is below target, by how much, and who is worth saving.

Source: rules of our own, for a setting of Russo et al., arXiv 2403.00766: "Towards Fair and Firm Real-Time
Scheduling in DNN Multi-Tenant Multi-Accelerator Systems via Reinforcement Learning".

gap = target - measured indicator of the request's pair (tenant, network), a bare number (for latency
indicators relative to the target); a pair without an SLO, or without data yet, counts as well served (gap =
-1).

* ``gap_first``: pairs with gap + margin > 0 before all others; EDF or SJF inside each class. Spreads the pain.
* ``shift``: deadline (or remaining work) moved earlier by kappa x gap x relative deadline (or isolated time) [s].
* ``triage``: pairs just below target first, those above it second, those with gap > lost last. It gives up on what
  cannot be kept to keep what can: more targets met, a larger shortfall where they are not.
* ``worst_first``: pairs in steps of ``width`` of gap, the widest gap first: lifts the worst pair.

The operator's objective chooses: ``attainment`` -> triage, ``shortfall`` -> gap_first, ``max_min`` ->
worst_first.

Do badly: without SLOs they are EDF or SJF; with long windows of the indicator they act on the past and
overshoot; all of them give up hits in total (the price of fairness).

Deviations: (1) the indicator is the one that the agreement names, over its window, where the published
figures of these rules count from the start; (2) kappa is a share of the request's relative deadline, not
seconds.
"""

from __future__ import annotations

import math

from eunomia.contract.objectives import OBJECTIVES, TENANT
from eunomia.contract.rows import Key, Ready, System
from eunomia.core.errors import PolicyError, UnknownNameError
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order

RULE_FOR = {name: OBJECTIVES[name].rule for name in TENANT}
BASES = ("edf", "sjf")
WELL_SERVED = -1.0


@jitted
def gap_of(ready: Ready) -> float:
    """Signed gap of the pair; -1 without an objective or data."""
    if math.isnan(ready.slo) or ready.sli_count == 0:
        return WELL_SERVED
    return ready.gap


@jitted
def in_class(rank: float, time_s: float) -> float:
    """One number that orders by (rank, time): rank steps by 2, times are squeezed into [-1, 1]."""
    if time_s == math.inf:
        return 2.0 * rank + 1.0
    return 2.0 * rank + time_s / (1.0 + abs(time_s))


@jitted
def _below(ready: Ready, margin: float) -> float:
    return 0.0 if gap_of(ready) + margin > 0.0 else 1.0


@jitted
def _triage(ready: Ready, margin: float, lost: float) -> float:
    gap = gap_of(ready)
    if gap > lost:
        return 2.0
    return 0.0 if gap + margin > 0.0 else 1.0


@jitted
def _left_s(ready: Ready, system: System) -> float:
    return ready.deadline_s - system.now_s


def gap_first_edf(ready: Ready, system: System) -> float:
    """Pairs below their target (or within the margin of it) first, by deadline; dynamic."""
    return in_class(_below(ready, system.parameters[0]), _left_s(ready, system))


def gap_first_sjf(ready: Ready, system: System) -> float:
    """Pairs below their target (or within the margin of it) first, by remaining work; dynamic."""
    return in_class(_below(ready, system.parameters[0]), ready.work_best_s)


def shift_edf(ready: Ready, system: System) -> float:
    """Earliest deadline first, deadlines moved by kappa x gap x relative deadline; dynamic."""
    if ready.deadline_s == math.inf:
        return math.inf
    return ready.deadline_s - system.parameters[0] * gap_of(ready) * (ready.deadline_s - ready.arrival_s)


def shift_sjf(ready: Ready, system: System) -> float:
    """Shortest remaining work first, moved by kappa x gap x isolated time; dynamic."""
    return ready.work_best_s - system.parameters[0] * gap_of(ready) * ready.iso_best_s


def triage_edf(ready: Ready, system: System) -> float:
    """Pairs just below target, then those above, then those too far below to be saved; by deadline; dynamic."""
    rank = _triage(ready, system.parameters[0], system.parameters[1])
    return in_class(rank, _left_s(ready, system))


def triage_sjf(ready: Ready, system: System) -> float:
    """Pairs just below target, then those above, then those too far below; by remaining work; dynamic."""
    return in_class(_triage(ready, system.parameters[0], system.parameters[1]), ready.work_best_s)


def worst_first_edf(ready: Ready, system: System) -> float:
    """Widest gap first, in steps; by deadline inside a step; dynamic."""
    return in_class(-math.floor(gap_of(ready) / system.parameters[0]), _left_s(ready, system))


def worst_first_sjf(ready: Ready, system: System) -> float:
    """Widest gap first, in steps; by remaining work inside a step; dynamic."""
    return in_class(-math.floor(gap_of(ready) / system.parameters[0]), ready.work_best_s)


_DEFAULTS: dict[str, tuple[float, ...]] = {
    "gap_first": (0.02,),  # margin
    "shift": (1.0,),  # kappa
    "triage": (0.02, 0.25),  # margin, lost
    "worst_first": (0.05,),  # width
}
_KEYS: dict[str, Key] = {
    key.__name__: key
    for key in (
        gap_first_edf,
        gap_first_sjf,
        shift_edf,
        shift_sjf,
        triage_edf,
        triage_sjf,
        worst_first_edf,
        worst_first_sjf,
    )
}


# Only these read the clock; deadlines moved by ``shift`` stay where they are until the gap changes.
_KEPT_BY = {
    name: "rank" if name.endswith("_edf") and not name.startswith("shift") else "key" for name in _KEYS
}


def tenant_order(rule: str, base: str = "edf", *constants: float) -> Order:
    """The order of a rule on a base; constants as in the table of defaults. Raises UnknownNameError, PolicyError."""
    if rule not in _DEFAULTS:
        raise UnknownNameError("tenant rule", rule, _DEFAULTS)
    if base not in BASES:
        raise UnknownNameError("base order", base, BASES)
    values = constants or _DEFAULTS[rule]
    if len(values) != len(_DEFAULTS[rule]) or not all(value > 0.0 for value in values):
        raise PolicyError(f"tenant rule '{rule}' has {len(_DEFAULTS[rule])} positive constants, not {values}")
    name = f"{rule}_{base}"
    return Order(name, _KEYS[name], dynamic=True, parameters=tuple(values), kept_by=_KEPT_BY[name])


TENANT_ORDERS = tuple(tenant_order(rule, base) for rule in _DEFAULTS for base in BASES)


def tenant_rule(objective: str = "attainment", base: str = "edf", gate: float = math.inf) -> Greedy:
    """The rule for the operator's objective, + f + eft, with a gate if asked. Raises UnknownNameError."""
    if objective not in RULE_FOR:
        raise UnknownNameError("objective", objective, RULE_FOR)
    return Greedy(tenant_order(RULE_FOR[objective], base), "eft", feasible=True, gate=gate)


def triage(margin: float = 0.02, lost: float = 0.25, base: str = "edf", gate: float = math.inf) -> Greedy:
    """For SLO attainment: pairs just below target first, those that cannot be saved last; EDF+f+eft inside."""
    return Greedy(tenant_order("triage", base, margin, lost), "eft", feasible=True, gate=gate)


def gap_first(margin: float = 0.02, base: str = "edf", gate: float = math.inf) -> Greedy:
    """For a small shortfall: pairs below target before all others; EDF+f+eft inside."""
    return Greedy(tenant_order("gap_first", base, margin), "eft", feasible=True, gate=gate)


def worst_first(width: float = 0.05, base: str = "edf", gate: float = math.inf) -> Greedy:
    """For the worst pair (max-min): widest gap first, in steps; EDF+f+eft inside."""
    return Greedy(tenant_order("worst_first", base, width), "eft", feasible=True, gate=gate)


def shift(kappa: float = 1.0, base: str = "edf", gate: float = math.inf) -> Greedy:
    """Deadlines moved earlier for pairs below target, later for those above; EDF+f+eft."""
    return Greedy(tenant_order("shift", base, kappa), "eft", feasible=True, gate=gate)
