"""Rules as the engine takes them: compiled, with their trees in a block of the View."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.learning.distill.compiled import decide
from eunomia.learning.distill.inputs import PARTS
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.policy.learned import FOLDERS, LearnedPolicy
from eunomia.learning.policy.weights import NETWORK, Floats


@cache
def compiled_rules() -> Any:
    """The decision as machine code; loaded from the cache if there."""
    return compile_cached(decide, DECIDE_SIGNATURE, "rules", *FOLDERS, "learning/distill")


def pack(rules: RuleSet, starve: float = np.inf, alarm: float = 1.0) -> Floats:
    """The block: a heuristic's, then offsets of the trees, then their nodes."""
    head = rules.heuristic().pack(starve, alarm)
    trees = [rules.trees[part].pack() for part in PARTS]
    ends = np.cumsum([len(tree) for tree in trees])
    offsets = NETWORK + len(PARTS) + np.concatenate([[0], ends[:-1]])
    return np.concatenate([head, offsets, *trees])


class RulePolicy(LearnedPolicy):
    """Runs inside the event loop and, unchanged, in stepped mode; ``counts`` and guards as in a learned policy."""

    def __init__(self, rules: RuleSet, starve: float = np.inf, alarm: float = 0.5) -> None:
        super().__init__(rules.heuristic(), rules.name, starve, alarm)
        self.rule_set = rules
        self.block = pack(rules, starve, alarm)

    def __reduce__(self) -> tuple[Any, ...]:
        return RulePolicy, (self.rule_set, self.starve, self.alarm)

    @property
    def decide(self) -> Any:
        """The compiled function."""
        return compiled_rules()
