"""Genomes of rules, and how one becomes another: crossover, point mutation, growth, shrinking, other constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.distill.fitting.teacher import three_digits
from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.evolve.expression import ARITY, MOST_DEPTH, NUMBER, ZERO, Formula, Node, number
from eunomia.learning.evolve.language import GREATEST
from eunomia.learning.evolve.rule import read_rule, write_rule
from eunomia.learning.policy.bases import ORDERS, base_weights
from eunomia.learning.policy.weights import PLACES

SIZES = {"order": 1.0, "place": 0.1, "start": 0.1}  # of a constant, usually: start margins are shares of B
WEIGHTS = {"order": 0.65, "place": 0.1, "start": 0.25}  # how often a part is varied
NOTHING = np.zeros((1, len(NAMES)))


@dataclass(frozen=True)
class Genome:
    """A rule as the search sees it."""

    order: Node
    place: Node = ZERO
    start: Node = ZERO
    placement: str = "eft"
    gate: float = 1.0

    @property
    def nodes(self) -> int:
        """Nodes of the parts that are there."""
        return sum(node.nodes for node in (self.order, self.place, self.start) if node != ZERO)

    def rules(self, name: str = "rule") -> RuleSet:
        """What the engine and files take."""
        trees = {part: Formula(getattr(self, part)) for part in PARTS}
        return RuleSet(name, {}, self.placement, self.gate, trees)

    @property
    def text(self) -> str:
        """The rule as text."""
        return write_rule(self.rules())

    @property
    def constants(self) -> Floats:
        """All numbers of the rule, the gate last where there is one."""
        there = [getattr(self, part) for part in PARTS if getattr(self, part) != ZERO]
        found = [n.value for part in there for n in part.walk() if n.op == NUMBER]
        return np.array([*found, *([self.gate] if math.isfinite(self.gate) else [])])

    def with_constants(self, values: Floats) -> Genome:
        """The same rule with other numbers, three digits each."""
        left = [three_digits(min(max(float(v), -GREATEST), GREATEST)) for v in values]

        def filled(node: Node) -> Node:
            parts = tuple(map(filled, node.parts))  # in the order of ``walk``
            return number(left.pop(0)) if node.op == NUMBER else Node(node.op, parts)

        parts = [getattr(self, part) for part in PARTS]
        order, place, start = (part if part == ZERO else filled(part) for part in parts)
        gate = max(left.pop(0), 0.05) if left else self.gate
        return Genome(order, place, start, self.placement, gate)


def genome_from(text: str) -> Genome:
    """The genome of a rule's text."""
    rules = read_rule(text)
    order, place, start = (rules.formulas[part].node for part in PARTS)
    return Genome(order, place, start, rules.place, rules.gate)


def known(name: str) -> Genome:
    """The rule ``order+f+placement+gX`` as formulas."""
    weights, terms = base_weights(name), ORDERS[name.partition("+")[0]]
    order = " + ".join(f"{w:g} * {f}" for f, w in terms.items()).replace("-1 * ", "-").replace("+ -", "- ")
    return genome_from(f"order = {order}\nplacement = {weights.place}\ngate = {weights.gate:g}")


@dataclass(frozen=True)
class Variation:
    """Draws rules. ``features`` that are never asked: those of promises where nothing is promised."""

    without: frozenset[str]
    most: int

    def vary(self, mine: Genome, other: Genome, rng: np.random.Generator) -> Genome:
        """A child; it is never larger than allowed."""
        for _ in range(8):
            child = self._child(mine, other, rng)
            deepest = max(child.order.depth, child.place.depth, child.start.depth)
            if child.nodes <= self.most and deepest <= MOST_DEPTH and child != mine:
                return child
        return mine.with_constants(mine.constants * np.exp(0.2 * rng.standard_normal(len(mine.constants))))

    def _child(self, mine: Genome, other: Genome, rng: np.random.Generator) -> Genome:
        """Another placement, gate, or part: with one more term, or with something else in place of one node."""
        if rng.random() < 0.05:
            return replace(mine, placement=str(rng.choice(PLACES)))
        if rng.random() < 0.05:
            gate = mine.gate if math.isfinite(mine.gate) else 1.0
            return replace(mine, gate=three_digits(max(gate * math.exp(0.15 * rng.standard_normal()), 0.05)))
        part = str(rng.choice(PARTS, p=[WEIGHTS[name] for name in PARTS]))
        nodes = {name: getattr(mine, name) for name in PARTS}
        if rng.random() < 0.3:
            term = Node("*", (self._constant(part, rng), self.random(part, 2, rng)))
            nodes[part] = tidy(Node("+", (nodes[part], term)))
        else:
            at = int(rng.integers(nodes[part].nodes))
            old = list(nodes[part].walk())[at]
            nodes[part] = tidy(
                exchanged(nodes[part], at, self._instead(old, getattr(other, part), part, rng))
            )
        place = ZERO if nodes["place"].op == NUMBER else nodes["place"]  # alike for all accelerators
        return Genome(nodes["order"], place, nodes["start"], mine.placement, mine.gate)

    def _instead(self, old: Node, donor: Node, part: str, rng: np.random.Generator) -> Node:
        """For a node: a part of the other parent, a part of its own, something new, or its like (point mutation)."""
        move = rng.random()
        if move < 0.4:
            return list(donor.walk())[int(rng.integers(donor.nodes))]
        if move < 0.6:
            return old.parts[int(rng.integers(len(old.parts)))] if old.parts else ZERO
        if move < 0.75:
            return self.random(part, 3, rng)
        alike = [op for op, count in ARITY.items() if count == len(old.parts)]
        return Node(str(rng.choice(alike)), old.parts) if alike else self._leaf(part, rng)

    def random(self, part: str, depth: int, rng: np.random.Generator) -> Node:
        """An expression of at most ``depth`` levels."""
        if depth <= 1 or rng.random() < 0.3:
            return self._leaf(part, rng)
        op = str(rng.choice(list(ARITY)))
        return Node(op, tuple(self.random(part, depth - 1, rng) for _ in range(ARITY[op])))

    def _leaf(self, part: str, rng: np.random.Generator) -> Node:
        if rng.random() < 0.25:
            return self._constant(part, rng)
        return Node(str(rng.choice([NAMES[f] for f in MAY_ASK[part] if NAMES[f] not in self.without])))

    def _constant(self, part: str, rng: np.random.Generator) -> Node:
        size = SIZES[part] * 10.0 ** rng.uniform(-1.0, 0.7)
        return number(three_digits(size if rng.random() < 0.5 else -size))


def exchanged(node: Node, at: int, new: Node) -> Node:
    """The tree with ``new`` in place of the node that stands at ``at`` in ``walk``."""
    if at == node.nodes - 1:
        return new
    parts = []
    for part in node.parts:
        parts.append(exchanged(part, at, new) if 0 <= at < part.nodes else part)
        at -= part.nodes
    return Node(node.op, tuple(parts))


def tidy(node: Node) -> Node:
    """The same value with less: constants are computed, what adds nothing is left out."""
    if node.op == NUMBER:
        return number(three_digits(min(max(node.value, -GREATEST), GREATEST)))
    if not node.parts:
        return node
    parts = tuple(map(tidy, node.parts))
    a, b = parts[0], parts[-1]
    if all(part.op == NUMBER for part in parts):
        return tidy(number(Formula(Node(node.op, parts))(NOTHING)[0]))
    if node.op == "where" and a.op == NUMBER:
        return parts[1] if a.value > 0.0 else b
    if node.op in ("min", "max") and a == b:
        return a
    if node.op == "neg":
        return a.parts[0] if a.op == "neg" else Node("neg", parts)
    if node.op == "-" and a == b or node.op == "*" and ZERO in parts:
        return ZERO
    if node.op in ("+", "-") and b == ZERO or node.op in ("*", "/") and b == number(1.0):
        return a
    if node.op == "+" and a == ZERO or node.op == "*" and a == number(1.0):
        return b
    return Node(node.op, parts)
