"""A set of rules: terms of the order, a placement, a gate, and three trees or formulas that correct them.

Rules::

    score(j)    = terms . x_j + order(x_j, z)                      which sub-job next, hopeless ones last
    place(j, s) = -(finish / least finish) + place(x_j, y_js, z)   where
    start(j, s) = gate - D / B + start(x_j, y_js, z)               now, if >= 0; otherwise hold

With trees of one leaf of value 0 this is a heuristic ``order+f+placement+gX``. A part may be a formula in place of a
tree (learning/evolve); what is linear in the order's formula is decided, and explained, as terms are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError
from eunomia.learning.distill.inputs import PARTS
from eunomia.learning.distill.text import to_text
from eunomia.learning.distill.tree import Tree, constant
from eunomia.learning.evolve.expression import Formula, check_size
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.weights import Weights


@dataclass(frozen=True, eq=False)
class RuleSet:
    """Rules and where they come from. ``ranges``: least and greatest value of job features in training (alarm)."""

    name: str
    terms: dict[str, float]
    place: str = "eft"
    gate: float = 1.0  # share of B; inf = no gate
    trees: Mapping[str, Tree | Formula] = field(default_factory=lambda: {part: constant() for part in PARTS})
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.terms, *self.ranges):
            if name not in JOB:
                raise UnknownNameError("feature of a sub-job", name, JOB)
        check_size(self.formulas.values(), f"rules '{self.name}'")
        _ = self.heuristic  # refused here, if at all

    @property
    def leaves(self) -> int:
        """Leaves of all trees; a tree of one leaf has no questions and does not count."""
        return sum(tree.leaves for tree in self.trees.values() if tree.leaves > 1)

    @property
    def nodes(self) -> int:
        """Nodes of all formulas."""
        return sum(formula.node.nodes for formula in self.formulas.values() if not formula.is_zero)

    @property
    def formulas(self) -> dict[str, Formula]:
        """The parts that are formulas."""
        return {part: each for part, each in self.trees.items() if isinstance(each, Formula)}

    @cached_property
    def parts(self) -> Mapping[str, Tree | Formula]:
        """What is decided by parts, beside ``heuristic``: the order without linear terms of its formula."""
        return {
            **self.trees,
            **({"order": self.formulas["order"].split[1]} if "order" in self.formulas else {}),
        }

    @cached_property
    def heuristic(self) -> Weights:
        """The rules without trees, as weights. Raises ConfigError for a gate or placement that cannot be."""
        linear = self.formulas["order"].split[0] if "order" in self.formulas else {}
        base = np.array([self.terms.get(name, 0.0) + linear.get(name, 0.0) for name in JOB])
        return Weights(place=self.place, gate=self.gate, base=base, low=self._bound(0), high=self._bound(1))

    def correct(self, part: str, inputs: Floats, everyone: Floats, index: int = 0) -> Floats:
        """(n,) corrections of a part, for rows of inputs (n, NAMES)."""
        return self.parts[part](inputs)

    def _bound(self, side: int) -> Floats:
        widest = (-np.inf, np.inf)
        return np.array([self.ranges.get(name, widest)[side] for name in JOB])

    @property
    def stamp(self) -> str:
        """Hash of all that decides: it differs once a rule is changed by hand."""
        text = repr((sorted(self.terms.items()), self.place, self.gate))
        text += "".join(to_text(self.trees[part]) for part in PARTS)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def edited(self) -> bool:
        """Whether rules were changed since they were distilled: figures in ``made`` are then those of the original."""
        return "stamp" in self.made and self.made["stamp"] != self.stamp
