"""Which modules of a checkout import each other in a circle, imports for types and inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

Graph = dict[str, set[str]]


class Import(NamedTuple):
    """``import module`` without names, or ``from module import names``, with as many dots before the module."""

    line: int
    module: str
    names: tuple[str, ...]
    level: int


@cache
def imports_of(source: str) -> tuple[Import, ...]:
    """Every import, wherever it stands. Kept by the text: files are parsed once, copies of them not again."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, (), 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            found.append(Import(node.lineno, node.module or "", names, node.level))
    return tuple(found)


def import_graph(root: Path, packages: Sequence[str]) -> Graph:
    """Module -> modules of the same packages that it names in an import, wherever the import stands.

    ``from a.b import c`` is an import of ``a.b.c`` where that is a module, else of ``a.b``. That Python runs the
    ``__init__`` of every package on the way does not count: nobody wrote it.
    """
    files = {
        _name(path.relative_to(root)): path
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    graph: Graph = {}
    for module, path in files.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        named = _named(path.read_text(encoding="utf-8"), package)
        graph[module] = {found for name in named if (found := _known(name, files))} - {module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Sets of modules that reach each other: strongly connected components of two or more (Tarjan, 1972)."""
    order: dict[str, int] = {}
    least: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = least[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                least[module] = min(least[module], least[other])
            elif other in stack:
                least[module] = min(least[module], order[other])
        if least[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _named(source: str, package: str) -> Iterator[str]:
    for one in imports_of(source):
        if not one.names:
            yield one.module
            continue
        above = package.split(".")[: len(package.split(".")) - one.level + 1] if one.level else []
        base = ".".join([*above, *([one.module] if one.module else [])])
        yield from (f"{base}.{name}" for name in one.names)


def _known(name: str, files: dict[str, Path]) -> str | None:
    """The module that ``name`` is, or is a name of."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None
