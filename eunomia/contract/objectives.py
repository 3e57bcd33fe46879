"""What an operator can want of a schedule: every objective once, with its meaning and who pursues it.

Rules, search, training and tuning take their names from here. Each of them computes an objective from its own data;
more is better everywhere. ``hits`` of the lookahead is ``hit_rate``, counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

TenantObjective = Literal["attainment", "shortfall", "max_min"]
TENANT: tuple[str, ...] = get_args(TenantObjective)  # those that need SLOs; rules and lookahead pursue them


@dataclass(frozen=True)
class Objective:
    """``rule``: the tenant-aware rule for it; ``climbed``: the mixture that a training climbs in its place."""

    meaning: str
    rule: str = ""
    climbed: Mapping[str, float] = field(default_factory=dict)


OBJECTIVES: dict[str, Objective] = {
    "hit_rate": Objective("hits over measured requests"),
    "worst_tenant": Objective("the lowest hit rate of a tenant"),
    "attainment": Objective(
        "share of pairs with an SLO that reach their target; 1 without SLOs",
        "triage",
        {"near_attainment": 0.6, "attainment": 0.4, "hit_rate": 0.1},
    ),
    "near_attainment": Objective("the same with a ramp around the target in place of a step"),
    "shortfall": Objective(
        "minus the mean shortfall of pairs with an SLO", "gap_first", {"shortfall": 1.0, "hit_rate": 0.05}
    ),
    "max_min": Objective(
        "minus the largest shortfall of a pair",
        "worst_first",
        {"max_min": 1.0, "shortfall": 0.5, "hit_rate": 0.05},
    ),
    "fairness": Objective("minus the standard deviation of hit rates over tenants"),
    "slowdown": Objective('minus the mean of response over isolated time; use it with late = "last"'),
    "uxcost": Objective("minus missed rate times relative energy, as in DREAM"),
}
