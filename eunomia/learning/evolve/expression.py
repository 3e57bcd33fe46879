"""Expressions over the named features of the observation: trees of nodes, their value, their postfix program.

Every operation gives a finite number. Results beyond +-1e15 count as that. A divisor nearer to 0 than 1e-6 counts as
1e-6 with its sign. ``log1p(a)`` is the sign of a times log(1 + |a|), ``sqrt(a)`` the sign of a times the root of |a|.
A comparison is 1 or 0, and ``where(c, a, b)`` is a where c > 0, otherwise b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.learning.distill.inputs import NAMES
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.formula import CODES, FORMULA, LIMIT, SMALL, STACK

NUMBER = CODES[0]
WIDEST = {"where": 3, "neg": 1, "abs": 1, "log1p": 1, "sqrt": 1}
ARITY = {op: WIDEST.get(op, 2) for op in CODES[1:]}
MOST_NODES, MOST_DEPTH = 40, 24
PLACE_OF = {name: place for place, name in enumerate(NAMES)}
CODE_OF = {**PLACE_OF, **{op: -1 - place for place, op in enumerate(CODES)}}


@dataclass(frozen=True)
class Node:
    """An operator (a key of ARITY) over its parts, a feature by its name, or ``number`` with its value."""

    op: str
    parts: tuple[Node, ...] = ()
    value: float = 0.0

    @cached_property
    def nodes(self) -> int:
        """Number of operators, features and constants."""
        return 1 + sum(part.nodes for part in self.parts)

    @cached_property
    def depth(self) -> int:
        """Nodes on the longest way down."""
        return 1 + max((part.depth for part in self.parts), default=0)

    def walk(self) -> Iterator[Node]:
        """All nodes, parts before what is made of them: the order of the program."""
        for part in self.parts:
            yield from part.walk()
        yield self


def number(value: float) -> Node:
    """A constant."""
    return Node(NUMBER, (), float(value))


ZERO = number(0.0)


MEANS: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / (b if abs(b) >= SMALL else math.copysign(SMALL, b + 0.0)),
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    "min": min,
    "max": max,
    "where": lambda c, a, b: a if c > 0.0 else b,
    "neg": lambda a: -a,
    "abs": abs,
    "log1p": lambda a: math.copysign(math.log1p(abs(a)), a + 0.0),
    "sqrt": lambda a: math.copysign(math.sqrt(abs(a)), a + 0.0),
}


def value_of(node: Node, row: Floats) -> float:
    """The value for one row of inputs (NAMES,), by the definition."""
    if node.op == NUMBER:
        return node.value
    if node.op not in ARITY:
        return float(row[PLACE_OF[node.op]])
    found = MEANS[node.op](*(value_of(part, row) for part in node.parts))
    return min(max(found, -LIMIT), LIMIT)


@dataclass(frozen=True)
class Formula:
    """An expression as one part of a rule: it has what the parts of rules have in common with a tree."""

    node: Node

    leaves = 0  # it asks no questions

    @cached_property
    def feature(self) -> Ints:
        """Places of the features that it reads."""
        return np.array(sorted({PLACE_OF[n.op] for n in self.node.walk() if n.op in PLACE_OF}), np.int64)

    @property
    def is_zero(self) -> bool:
        """Whether it adds nothing."""
        return self.node.op == NUMBER and self.node.value == 0.0

    def __call__(self, inputs: Floats) -> Floats:
        """(n,) values for rows of inputs (n, NAMES)."""
        return np.array([value_of(self.node, row) for row in inputs])

    def pack(self) -> Floats:
        """What compiled code reads (policy/formula.py); of a constant, a leaf (policy/trees.py)."""
        if self.node.op == NUMBER:
            return np.array([-1.0, 0.0, 0.0, self.node.value])
        program = [float(each) for n in self.node.walk() for each in (CODE_OF[n.op], n.value)]
        return np.array([FORMULA, len(program) // 2, *[0.0] * STACK, *program])

    @cached_property
    def split(self) -> tuple[Mapping[str, float], Formula]:
        """The linear terms of sub-job features by name, and the rest: their sum is the formula, but for rounding.

        Linear terms are decided faster, and can be explained one by one.
        """
        linear: dict[str, float] = {}
        rest: list[Node] = []
        for factor, term in _terms(self.node, 1.0):
            if term.op in JOB:
                linear[term.op] = linear.get(term.op, 0.0) + factor
            else:
                rest.append(term if factor == 1.0 else Node("*", (number(factor), term)))
        total = reduce(lambda a, b: Node("+", (a, b)), rest) if rest else ZERO
        return {name: weight for name, weight in linear.items() if weight}, Formula(total)


def check_size(formulas: Iterable[Formula], what: str) -> None:
    """Raises ConfigError above MOST_NODES nodes together, or MOST_DEPTH levels; a part that is 0 does not count."""
    found = [formula.node for formula in formulas if not formula.is_zero]
    if (count := sum(node.nodes for node in found)) > MOST_NODES:
        raise ConfigError(f"{what} has {count} nodes; at most {MOST_NODES} are allowed: leave terms out")
    if (depth := max((node.depth for node in found), default=0)) > MOST_DEPTH:
        raise ConfigError(f"{what} is {depth} levels deep; at most {MOST_DEPTH} are allowed: nest it less")


def _terms(node: Node, factor: float) -> Iterator[tuple[float, Node]]:
    """A node times a factor, as terms: sums, differences and constant factors are taken apart."""
    if node.op in ("+", "-"):
        yield from _terms(node.parts[0], factor)
        yield from _terms(node.parts[1], factor if node.op == "+" else -factor)
    elif node.op == "neg":
        yield from _terms(node.parts[0], -factor)
    elif node.op == "*" and NUMBER in (node.parts[0].op, node.parts[1].op):
        by, what = node.parts if node.parts[0].op == NUMBER else node.parts[::-1]
        yield from _terms(what, factor * by.value)
    else:
        yield factor, node
