"""What an operator can want of a schedule: every objective once, with its meaning and who pursues it.

Rules, search, training and tuning take their names from here. Each of them computes an objective from its own data;
more is better everywhere. ``hits`` of the lookahead is ``hit_rate``, counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from eunomia.core.errors import ConfigError, UnknownNameError

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


def mixture_of(text: str, known: Collection[str]) -> tuple[tuple[str, float], ...]:
    """What to climb for ``attainment`` or ``0.7*attainment+0.3*hit_rate``: each as ``climbed`` has it, weights added.

    ``known``: objectives that the caller can compute. Raises UnknownNameError, ConfigError.
    """
    found: dict[str, float] = {}
    for part in text.split("+"):
        weight, star, name = (word.strip() for word in part.rpartition("*"))
        if name not in known:
            raise UnknownNameError("promise", name, known)
        try:
            share = float(weight) if star else 1.0
        except ValueError:
            share = math.nan
        if not math.isfinite(share):
            raise ConfigError(
                f"promise '{text}': the weight of {name} is '{weight}'; give a number: 0.7*{name}"
            )
        for each, w in (OBJECTIVES[name].climbed or {name: 1.0}).items():
            found[each] = found.get(each, 0.0) + share * w
    return tuple(found.items())
