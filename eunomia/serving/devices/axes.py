"""Which free axes of a network's inputs belong together, as far as its file names them.

Axes of one name have one size; a name such as ``past + words`` or ``2*words`` has the size that follows from its parts.
A name that says nothing, or is none, is of its axis alone. Names may be wrong: what runs decides (``fitting``).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from eunomia.serving.devices.messages import Port, Ports

if TYPE_CHECKING:
    import onnx

Shapes = dict[str, list[int]]
Names = Mapping[str, Sequence[str]]  # of the axes of each input
NAMELESS = {"", "?", "*", "-1", "None", "none", "unk", "dynamic"}
BATCH = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)
LONGEST = 200  # letters of a name that is read as a sum or product
ONE_WAY = ast.Add, ast.Mult
OPERATORS = *ONE_WAY, ast.Sub, ast.FloorDiv, ast.Div


def elements(sizes: Sequence[int]) -> int:
    """Of an input; an axis of none counts as one of one, which costs about as much."""
    return math.prod(max(size, 1) for size in sizes)


def are_empty(shapes: Iterable[tuple[str, Sequence[int]]]) -> bool:
    """Whether an input has no element."""
    return any(0 in sizes for _, sizes in shapes)


def names_of(model: onnx.ModelProto) -> Names:
    """As the file has them."""
    return {v.name: [d.dim_param for d in v.type.tensor_type.shape.dim] for v in model.graph.input}


class Axes:
    """Of the inputs to which ``shapes`` gives no sizes; what it gives to others holds for axes of the same name.

    ``bound``: inputs whose first axis says something of axes that are not first.
    """

    def __init__(self, ports: Ports, shapes: Mapping[str, Sequence[int]], names: Names) -> None:
        ranked = [p for p in ports["inputs"] if p["name"] not in ports.get("unranked", [])]
        self._labels = {p["name"]: _labels(p, names.get(p["name"], ())) for p in ranked}
        self._given = {
            label: size
            for name, sizes in shapes.items()
            for label, size in zip(self._labels.get(name, ()), sizes, strict=False)
            if label
        }
        self._ports = [p for p in ranked if p["name"] not in shapes and -1 in p["shape"]]
        free = [
            (n, label) for p in self._ports for n, label in enumerate(self._labels[p["name"]]) if label
        ]  # of axes with a size, it is empty
        plain = {label for labels in self._labels.values() for label in labels if not _parsed(label)}
        self._sums = {
            label: parsed for _, label in free if (parsed := _parsed(label)) and _follows(parsed, plain)
        }
        parts = [name for parsed in self._sums.values() for name in _parts(parsed)]
        alone = [label for _, label in free if label not in self._sums]
        self.labels = [each for each in dict.fromkeys([*alone, *parts]) if each not in self._given]
        batches = {label for label in self.labels if BATCH.search(label) and not label.startswith("/")}
        first = {label for n, label in free if n == 0 and (not batches or label.startswith("/"))}
        self.rows = batches | first
        behind = {label for n, label in free if n}
        bound = behind | {*parts, *self._sums}
        self.bound = {name for name, labels in self._labels.items() if labels and labels[0] in bound}

    def shapes(self, rows: int, size: int) -> Shapes:
        """So many rows, and the same size for all other axes; of the inputs that are left open."""
        return self._shapes({label: rows if label in self.rows else size for label in self.labels})

    def one_larger(self, rows: Sequence[int], sizes: Sequence[int]) -> Iterator[Shapes]:
        """One name after the other larger than 1."""
        for n in range(max(len(rows), len(sizes))):
            for label in self.labels:
                several = rows if label in self.rows else sizes
                if n < len(several):
                    yield self._shapes({label: several[n]})

    def agreed(self, shapes: Shapes) -> Shapes:
        """The same, but axes of one name have the size of its first, and sums that of their parts, where these are."""
        known = dict[str, int]()
        for name, labels in self._labels.items():
            for label, size in zip(labels, shapes[name], strict=True):
                known.setdefault(label, size)
        sums = {label: sum_ for label, sum_ in self._sums.items() if known.keys() >= {*_parts(sum_)}}
        known |= {label: max(1, _value(sum_, known)) for label, sum_ in sums.items()}
        found = {
            name: [known[label] if label else size for label, size in zip(labels, shapes[name], strict=True)]
            for name, labels in self._labels.items()
        }
        return {**shapes, **found}

    def _shapes(self, sizes: Mapping[str, int]) -> Shapes:
        known = {**dict.fromkeys(self.labels, 1), **sizes, **self._given}
        known |= {
            label: max(1, _value(sum_, known)) for label, sum_ in self._sums.items() if label not in known
        }
        return {
            p["name"]: [
                d if d >= 0 else known.get(label, 1)
                for d, label in zip(p["shape"], self._labels[p["name"]], strict=True)
            ]
            for p in self._ports
        }


def _labels(port: Port, names: Sequence[str]) -> list[str]:
    """Of each axis: its name, or if that says nothing, one of its own, with a slash; empty where it has a size."""
    named = [*names, *[""] * len(port["shape"])]
    return [
        "" if d >= 0 else f"/{port['name']}/{n}" if named[n].strip("/ ") in NAMELESS else named[n].lstrip("/")
        for n, d in enumerate(port["shape"])
    ]


@lru_cache(1024)
def _parsed(label: str) -> ast.expr | None:
    """A sum, difference, product or quotient of names and numbers; None where it is no such thing."""
    if len(label) > LONGEST:
        return None
    try:
        parsed = ast.parse(label.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    known = ast.BinOp, ast.Name, ast.Load, *OPERATORS
    fits = all(
        isinstance(node, known) or (isinstance(node, ast.Constant) and type(node.value) is int)
        for node in ast.walk(parsed)
    )
    return parsed if isinstance(parsed, ast.BinOp) and fits and _parts(parsed) else None


def _parts(parsed: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(parsed) if isinstance(node, ast.Name)]


def _follows(parsed: ast.expr, plain: set[str]) -> bool:
    """Whether it is meant so: in ``batch-size``, the hyphen takes nothing away."""
    operators = [node.op for node in ast.walk(parsed) if isinstance(node, ast.BinOp)]
    return plain.issuperset(_parts(parsed)) or all(isinstance(each, ONE_WAY) for each in operators)


def _value(parsed: ast.expr, known: Mapping[str, int]) -> int:
    """Of what ``_parsed`` lets pass; a quotient is rounded down, and one by zero is 0."""
    match parsed:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return known.get(name, 1)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, known), _value(right, known)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
            return a // b if b else 0
    return 1
