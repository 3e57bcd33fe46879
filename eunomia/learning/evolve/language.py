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
import re

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.evolve.expression import ARITY, NUMBER, Formula, Node, check_size, number

LONGEST, GREATEST = 2_000, 1e6
BINARY: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
FUNCTIONS = tuple(op for op in ARITY if op.isidentifier() and op != "neg")
STRENGTH = {"<": 1, "<=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "neg": 4}
LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)")
SETTINGS = ("placement", "gate")


def read_formula(text: str, part: str, line: int = 1) -> Node:
    """The expression of a part. Raises ConfigError or UnknownNameError, with line, column and a remedy."""
    indent = len(text) - len(text.lstrip())
    try:
        if len(text) > LONGEST:
            raise ValueError
        node = _read(ast.parse(text.strip(), mode="eval").body, part, f"line {line}, column", indent + 1)
        check_size([Formula(node)], f"line {line}: the {part}")
    except SyntaxError as error:
        raise ConfigError(
            f"line {line}, column {(error.offset or 1) + indent}: the {part} cannot be read ({error.msg}); write e.g. "
            "-time_left - 3 * bytes"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigError(
            f"line {line}: the {part} has {len(text)} characters and cannot be read; write one plain formula, of at "
            f"most {LONGEST}"
        ) from None
    return node


def _read(node: ast.expr, part: str, place: str, first: int) -> Node:
    """Python's tree -> ours; what is not on the list is refused. ``first``: column of the text."""
    where = f"{place} {node.col_offset + first}"

    def read(*parts: ast.expr) -> tuple[Node, ...]:
        return tuple(_read(each, part, place, first) for each in parts)

    match node:
        case ast.Constant(value=bool() | complex() | str() | bytes() | None):
            raise ConfigError(
                f"{where}: {node.value!r:.20} is not a number; write one, or the name of a feature"
            )
        case ast.Constant(value=int() | float() as given):
            if not abs(given) <= GREATEST:
                raise ConfigError(
                    f"{where}: the number is out of bounds; constants lie within +-{GREATEST:g}"
                )
            return number(given)
        case ast.Name(id=name):
            if name not in (known := {NAMES[f] for f in MAY_ASK[part]}):
                raise UnknownNameError("feature", name, known, f" of the {part} ({where})")
            return Node(name)
        case ast.UnaryOp(op=ast.USub()):
            (inner,) = read(node.operand)
            return number(-inner.value) if inner.op == NUMBER else Node("neg", (inner,))
        case ast.UnaryOp(op=ast.UAdd()):
            return read(node.operand)[0]
        case ast.BinOp(op=op) if type(op) in BINARY:
            return Node(BINARY[type(op)], read(node.left, node.right))
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() as op], comparators=[right]):
            return Node("<" if isinstance(op, ast.Lt) else "<=", read(left, right))
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE() as op], comparators=[right]):
            return Node("<" if isinstance(op, ast.Gt) else "<=", read(right, left))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            if len(node.args) != ARITY[name]:
                raise ConfigError(f"{where}: {name} has {len(node.args)} arguments; it takes {ARITY[name]}")
            return Node(name, read(*node.args))
    raise ConfigError(
        f"{where}: this is not allowed; a formula has + - * / < <= > >=, {', '.join(FUNCTIONS)}"
    )


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
