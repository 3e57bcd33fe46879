"""Random expressions and rules of formulas."""

from __future__ import annotations

import numpy as np

from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.evolve.expression import ARITY, NUMBER, Formula, Node, number

OPERATORS = tuple(ARITY)


def random_node(rng: np.random.Generator, part: str, size: int) -> Node:
    """An expression of at most ``size`` nodes."""
    if size < 2 or rng.random() < 0.15:
        if rng.random() < 0.4:
            return number(float(rng.choice([0.0, -2.0, 0.5, 1e-9, 3e5, np.round(rng.standard_normal(), 3)])))
        return Node(NAMES[int(rng.choice(MAY_ASK[part]))])
    op = str(rng.choice([op for op in OPERATORS if ARITY[op] < size]))
    rest = size - 1
    parts = []
    for left in range(ARITY[op], 0, -1):
        each = rest - left + 1 if left == 1 else int(rng.integers(1, rest - left + 2))
        parts.append(random_node(rng, part, each))
        rest -= parts[-1].nodes
    if op == "neg" and parts[0].op == NUMBER:
        return number(-parts[0].value)
    return Node(op, tuple(parts))


def random_formulas(seed: int, place: str = "eft", sizes: tuple[int, int, int] = (20, 8, 8)) -> RuleSet:
    """A rule of three formulas."""
    rng = np.random.default_rng(seed)
    trees = {part: Formula(random_node(rng, part, size)) for part, size in zip(PARTS, sizes, strict=True)}
    return RuleSet("random", {}, place, 0.9, trees)
