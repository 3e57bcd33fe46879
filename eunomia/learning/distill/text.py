"""A tree as indented rules, and back.

    if laxity_ratio <= 0.31:
        if started <= 0.5: -0.42
        else: +1.1
    else: 0

A branch is a number, on the same line or indented below, or further rules, indented. ``>`` may be used in place of
``<=``; ``#`` begins a remark. Reading what was written gives the same tree, number for number. A part that is neither a
number nor begins with ``if`` is a formula (learning/evolve/language.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.distill.inputs import MAY_ASK, NAMES
from eunomia.learning.distill.tree import LEAF, Tree, constant, node
from eunomia.learning.evolve.expression import NUMBER, Formula
from eunomia.learning.evolve.language import plain, read_formula, write_formula

QUESTION = re.compile(r"if\s+(\w+)\s*(<=|>)\s*(\S+?)\s*:\s*(.*)")
PLAIN = re.compile(r"(if|else)\b.*|[-+.\deinfa]+")  # a tree: a question, or a number
OTHERWISE = re.compile(r"else\s*:\s*(.*)")
Line = tuple[int, int, str]  # number, indentation, text


def to_text(tree: Tree | Formula, at: int = 0, indent: str = "") -> str:
    """Rules, one question or value per line; a formula on one."""
    if isinstance(tree, Formula):
        number = tree.node.op == NUMBER
        return f"{_number(tree.node.value) if number else write_formula(tree.node)}\n"
    if tree.feature[at] == LEAF:
        return f"{indent}{_number(float(tree.value[at]))}\n"
    low, high = at + 1, int(tree.right[at])
    head = f"{indent}if {NAMES[tree.feature[at]]} <= {plain(float(tree.threshold[at]))}:"
    return f"{head}{_branch(tree, low, indent)}{indent}else:{_branch(tree, high, indent)}"


def _branch(tree: Tree, at: int, indent: str) -> str:
    if tree.feature[at] == LEAF:
        return f" {_number(float(tree.value[at]))}\n"
    return "\n" + to_text(tree, at, indent + "    ")


def _number(value: float) -> str:
    return "0" if value == 0.0 else f"{'+' if value > 0.0 else ''}{plain(value)}"


def from_text(text: str, part: str) -> Tree | Formula:
    """What ``part`` ('order', 'place' or 'start') says. Raises ConfigError or UnknownNameError, naming the line."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].rstrip().expandtabs(4)
        if line:
            lines.append((number, len(line) - len(line.lstrip()), line.strip()))
    if not lines:
        raise ConfigError(f"{part} rules are empty; a single 0 adds nothing")
    if not PLAIN.fullmatch(lines[0][2]):
        if len(lines) > 1:
            raise _wrong(part, lines[1], "follows a formula, which stands on one line")
        return Formula(read_formula(lines[0][2], part, lines[0][0]))
    allowed = {NAMES[f]: f for f in MAY_ASK[part]}
    tree, rest = _read(lines, part, allowed)
    if rest:
        raise _wrong(part, rest[0], "does not belong to the rule above: is it indented like its 'if'?")
    return tree


def _read(lines: list[Line], part: str, allowed: dict[str, int]) -> tuple[Tree, list[Line]]:
    """One rule or number at the head of ``lines``, and what is left."""
    first = lines[0]
    asked = QUESTION.fullmatch(first[2])
    if asked is None:
        return constant(_value(first[2], part, first)), lines[1:]
    name, sign, limit, inline = asked.groups()
    _check(name, part, first, allowed)
    threshold = _value(limit, part, first)
    low, rest = _read_branch(inline, first, lines[1:], part, allowed)
    other = OTHERWISE.fullmatch(rest[0][2]) if rest else None
    if other is None or rest[0][1] != first[1]:
        raise _wrong(part, first, "needs an 'else:' indented like it")
    high, rest = _read_branch(other[1], rest[0], rest[1:], part, allowed)
    if sign == ">":
        low, high = high, low
    return node(allowed[name], threshold, low, high), rest


def _read_branch(
    inline: str, head: Line, rest: list[Line], part: str, allowed: dict[str, int]
) -> tuple[Tree, list[Line]]:
    if inline:
        return constant(_value(inline, part, head)), rest
    if not rest or rest[0][1] <= head[1]:
        raise _wrong(part, head, "has nothing indented below it")
    return _read(rest, part, allowed)


def _value(text: str, part: str, line: Line) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _wrong(part, line, f"has '{text}' where a number or 'if NAME <= NUMBER:' belongs") from None
    if not math.isfinite(value):
        raise _wrong(part, line, f"has the value {text}; it must be finite")
    return value


def _check(name: str, part: str, line: Line, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise UnknownNameError("feature", name, allowed, f" in line {line[0]} of the {part} rules")


def _wrong(part: str, line: Line, what: str) -> ConfigError:
    return ConfigError(f"line {line[0]} of the {part} rules ('{line[2]}') {what}")
