"""Rules as the engine takes them: a learned policy whose block holds their trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.distill.inputs import PARTS
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import KIND, NETWORK, ORDER_ALONE, RESIDUAL, TREES


def pack(rules: RuleSet, starve: float = np.inf, alarm: float = 1.0) -> Floats:
    """The block: a heuristic's, then offsets of the trees or formulas, then these."""
    asked = {int(feature) for part in rules.parts.values() for feature in part.feature}
    head = rules.heuristic.pack(starve, alarm, sorted(asked & set(range(len(JOB)))))
    alone = all(rules.parts[part].is_zero for part in ("place", "start"))
    head[KIND], head[RESIDUAL] = TREES, ORDER_ALONE if alone else 1.0
    trees = [rules.parts[part].pack() for part in PARTS]
    ends = np.cumsum([len(tree) for tree in trees])
    offsets = NETWORK + len(PARTS) + np.concatenate([[0], ends[:-1]])
    return np.concatenate([head, offsets, *trees])


class RulePolicy(LearnedPolicy):
    """Runs inside the event loop and, unchanged, in stepped mode; ``counts`` and guards as in a learned policy."""

    def __init__(self, rules: RuleSet, starve: float = np.inf, alarm: float = 0.5) -> None:
        super().__init__(rules.heuristic, rules.name, starve, alarm)
        self.rule_set = rules
        self.block = pack(rules, starve, alarm)

    def __reduce__(self) -> tuple[Any, ...]:
        return RulePolicy, (self.rule_set, self.starve, self.alarm)
