"""A rule of formulas: from text and back, and as the rules that files and the engine take."""

from __future__ import annotations

import math

from eunomia.core.errors import ConfigError
from eunomia.learning.distill.inputs import PARTS
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.tree import Tree
from eunomia.learning.evolve.expression import MOST_NODES, ZERO, Formula, Node, number
from eunomia.learning.evolve.language import plain, read_formula, read_lines, write_formula

LARGEST = 3 * MOST_NODES * 60  # characters of a rule, remarks included


def read_rule(text: str, name: str = "rule") -> RuleSet:
    """A rule from its text. Raises ConfigError or UnknownNameError: the place, what is wrong, what would be right."""
    if len(text) > LARGEST:
        raise ConfigError(f"the rule has {len(text)} characters; at most {LARGEST} are read")
    lines = read_lines(text)
    trees = {}
    for part in PARTS:
        line, content = lines.get(part, (0, "0"))
        trees[part] = Formula(read_formula(content, part, line))
    gate = _gate(*lines["gate"]) if "gate" in lines else 1.0
    placement = lines["placement"][1].strip() if "placement" in lines else "eft"
    return RuleSet(name, {}, placement, gate, trees)


def write_rule(rules: RuleSet) -> str:
    """The text of a rule that has formulas and constants alone. Raises ConfigError for other rules."""
    nodes = {part: _node_of(each) for part, each in rules.trees.items()}
    order = nodes["order"]
    if rules.terms or order is None or None in nodes.values():
        raise ConfigError(
            f"rules '{rules.name}' have trees or terms; only formulas can be written as one text"
        )
    lines = [f"order = {write_formula(order)}", f"placement = {rules.place}", f"gate = {plain(rules.gate)}"]
    rest = [(part, nodes[part]) for part in ("start", "place")]
    lines += [f"{part} = {write_formula(node)}" for part, node in rest if node is not None and node != ZERO]
    return "\n".join(lines) + "\n"


def _node_of(part: Tree | Formula) -> Node | None:
    """The expression of a formula or a constant; None of a tree that asks."""
    if isinstance(part, Formula):
        return part.node
    return number(float(part.value[0])) if part.leaves == 1 else None


def _gate(line: int, text: str) -> float:
    try:
        gate = float(text)
    except ValueError:
        gate = math.nan
    if not gate > 0.0:
        raise ConfigError(f"line {line}: the gate is '{text.strip()}'; it must be a positive number, or inf")
    return gate
