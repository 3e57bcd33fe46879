"""Formulas as text: read by Python's grammar against a list of what is allowed, never executed; and written back.

    order = -time_left - 3 * bytes + 2 * where(started > 0, 1, 0)
    placement = eft_ca
    gate = 0.9
    start = -0.2 * others_loss

``order`` is the score of a waiting sub-job, highest first; ``start`` joins the bandwidth gate, ``place`` the worth of
an accelerator. A line without a name is the order. What is left out is: placement eft, gate 1, start 0, place 0.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.evolve.expression import (
    ARITY,
    MOST_DEPTH,
    MOST_NODES,
    NUMBER,
    Formula,
    Node,
    check_size,
    negated,
    number,
)

LONGEST, GREATEST = 2_000, 1e6
BINARY: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARED: dict[type[ast.AST], tuple[str, bool]] = {  # operator, whether its sides change places
    ast.Lt: ("<", False),
    ast.LtE: ("<=", False),
    ast.Gt: ("<", True),
    ast.GtE: ("<=", True),
}
FUNCTIONS = tuple(op for op in ARITY if op.isidentifier() and op != "neg")
STRENGTH = {"<": 1, "<=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "neg": 4}
LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)")
SETTINGS = ("placement", "gate")


def read_formula(text: str, part: str, line: int = 1) -> Node:
    """The expression of a part. Raises ConfigError or UnknownNameError, with line, column and a remedy."""
    if len(text) > LONGEST:
        raise ConfigError(f"line {line}: the {part} has {len(text)} characters; at most {LONGEST} are read")
    source = text.strip()
    indent = len(text) - len(text.lstrip())
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        at = (error.offset or 1) + indent
        raise ConfigError(
            f"line {line}, column {at}: the {part} cannot be read ({error.msg}); write e.g. -time_left - 3 * bytes"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigError(f"line {line}: the {part} cannot be read; is it one plain formula?") from None
    node = _Reader(part, line, indent).read(tree.body)
    check_size([Formula(node)], f"line {line}: the {part}")
    return node


class _Reader:
    """Python's tree -> ours; what is not on the list is refused."""

    def __init__(self, part: str, line: int, indent: int) -> None:
        self.part, self.line, self.indent = part, line, indent
        self.known = {NAMES[f] for f in MAY_ASK[part]}
        self.count = 0

    def where(self, node: ast.expr) -> str:
        return f"line {self.line}, column {node.col_offset + self.indent + 1}"

    def wrong(self, node: ast.expr, said: str) -> ConfigError:
        return ConfigError(f"{self.where(node)}: {said}")

    def read(self, node: ast.expr, depth: int = 1) -> Node:
        self.count += 1
        if self.count > 4 * MOST_NODES or depth > 4 * MOST_DEPTH:
            raise self.wrong(node, f"the {self.part} is too large; at most {MOST_NODES} nodes are allowed")
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            if node.id not in self.known:
                raise UnknownNameError(
                    "feature", node.id, self.known, f" of the {self.part} ({self.where(node)})"
                )
            return Node(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self.read(node.operand, depth + 1)
            return negated(inner) if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return Node(
                BINARY[type(node.op)], (self.read(node.left, depth + 1), self.read(node.right, depth + 1))
            )
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            op, swapped = COMPARED[type(node.ops[0])]
            sides = self.read(node.left, depth + 1), self.read(node.comparators[0], depth + 1)
            return Node(op, sides[::-1] if swapped else sides)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        raise self.wrong(
            node, f"this is not allowed in a formula; known are + - * / < <= > >=, {_listed(FUNCTIONS)}"
        )

    def _constant(self, node: ast.Constant) -> Node:
        given = node.value
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise self.wrong(node, f"{given!r:.20} is not a number; write one, or the name of a feature")
        if not abs(given) <= GREATEST or not math.isfinite(given):
            raise self.wrong(node, f"{str(given)[:20]} is out of bounds; constants lie within +-{GREATEST:g}")
        return number(given)

    def _call(self, node: ast.Call, depth: int) -> Node:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords:
            raise self.wrong(node, f"only these can be called, by position: {_listed(FUNCTIONS)}")
        if len(node.args) != ARITY[name]:
            raise self.wrong(node, f"{name} has {len(node.args)} arguments; it takes {ARITY[name]}")
        return Node(name, tuple(self.read(each, depth + 1) for each in node.args))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def write_formula(node: Node) -> str:
    """The text that is read back to the same expression, constant for constant."""
    return _text(node)[0]


def _text(node: Node) -> tuple[str, int]:
    """Text, and how strongly it holds together."""
    if node.op == NUMBER:
        return plain(node.value), 4 if node.value < 0.0 else 5
    if node.op not in ARITY:
        return node.op, 5
    strength = STRENGTH.get(node.op)
    if strength is None:
        return f"{node.op}({', '.join(_text(part)[0] for part in node.parts)})", 5
    if node.op == "neg":
        return f"-{_held(node.parts[0], strength)}", strength
    left, right = node.parts
    weakest = strength + 1 if strength == 1 else strength
    return f"{_held(left, weakest)} {node.op} {_held(right, strength + 1)}", strength


def _held(node: Node, least: int) -> str:
    text, strength = _text(node)
    return text if strength >= least else f"({text})"


def plain(value: float) -> str:
    """A number as short as it can be read back."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def read_lines(text: str) -> dict[str, tuple[int, str]]:
    """Name -> (line, text) of a rule; the order may stand without its name. Raises ConfigError."""
    found: dict[str, tuple[int, str]] = {}
    for line, raw in enumerate(text.splitlines(), 1):
        content = raw.split("#")[0].rstrip()
        if not content.strip():
            continue
        named = LINE.fullmatch(content)
        name, value = (named[1], " " * named.start(2) + named[2]) if named else ("order", content)
        if name not in (*PARTS, *SETTINGS):
            raise UnknownNameError("part of a rule", name, (*PARTS, *SETTINGS), f" in line {line}")
        if name in found:
            raise ConfigError(f"line {line}: the rule has a second '{name}'; leave one of them out")
        found[name] = (line, value)
    if "order" not in found:
        raise ConfigError("the rule has no order; write e.g. order = -time_left - 3 * bytes")
    return found
