"""How large the product is, counted the same way at any checkout: ``python -m tests.size [CHECKOUT ...]``.

The definitions are the docstrings below; ``tests/test_size.py`` keeps the figures from growing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.import_circles import circles, import_graph

MOST_PARAMETERS = 8
COMPILED = (
    "compiled",
    "jitted",
    "njit",
    "jit",
    "overload",
    "intrinsic",
    "kernel",
)  # decorators of compiled functions


def learning_lines(root: Path) -> int:
    """Lines of the Python files that learn: ``eunomia/learning`` (``eunomia/inference/learning`` before)."""
    return _lines([*root.glob("eunomia/learning/**/*.py"), *root.glob("eunomia/inference/learning/**/*.py")])


def study_lines(root: Path) -> int:
    """Lines of the Python files of ``benchmarks`` and ``studies``; their settings (TOML) are data and do not count."""
    return _lines([*root.glob("benchmarks/**/*.py"), *root.glob("studies/**/*.py")])


def wide_functions(root: Path) -> int:
    """Functions and methods of ``eunomia`` with more than 8 parameters, ``self`` included, compiled ones left out.

    A parameter is positional or by keyword; ``*args`` and ``**kwargs`` do not count. Compiled are functions of numba:
    those under a decorator of ``COMPILED``, or in a folder ``kernel``. Verbs of the command line count.
    """
    return len(list(_wide(root, MOST_PARAMETERS, compiled=False)))


def wide_functions_all(root: Path) -> int:
    """Functions and methods of ``eunomia`` with 8 or more parameters, compiled ones included."""
    return len(list(_wide(root, MOST_PARAMETERS - 1, compiled=True)))


def any_uses(root: Path) -> int:
    """Uses of the name ``Any`` in ``eunomia``, imports and texts left out."""
    return sum(_read(path.read_text(encoding="utf-8")).anys for path in root.glob("eunomia/**/*.py"))


def format_skips(root: Path) -> int:
    """Comments ``fmt: skip`` in ``eunomia``."""
    return sum(path.read_text(encoding="utf-8").count("# fmt: skip") for path in root.glob("eunomia/**/*.py"))


def import_circles(root: Path) -> int:
    """Circles of imports among the modules of ``eunomia`` and ``benchmarks``, imports for types alone included."""
    return len(circles(import_graph(root, ("eunomia", "benchmarks"))))


def guide_words(root: Path) -> int:
    """Words between blanks in all Markdown files of ``docs`` but the results and the tutorials."""
    pages = [path for path in root.glob("docs/**/*.md") if not {"results", "tutorials"} & set(path.parts)]
    return _words(pages)


def tutorial_words(root: Path) -> int:
    """Words between blanks in all Markdown files of ``docs/tutorials``, their code included."""
    return _words(root.glob("docs/tutorials/*.md"))


def longest_file(root: Path) -> int:
    """Lines of the longest Python file of ``eunomia``."""
    return max(_lines([path]) for path in root.glob("eunomia/**/*.py"))


COUNTS: dict[str, Callable[[Path], int]] = {
    "lines of learning": learning_lines,
    "lines of benchmarks and studies": study_lines,
    "functions with more than 8 parameters, not compiled": wide_functions,
    "functions with 8 or more parameters, compiled ones too": wide_functions_all,
    "uses of Any": any_uses,
    "fmt: skip": format_skips,
    "import circles": import_circles,
    "guide words": guide_words,
    "tutorial words": tutorial_words,
    "lines of the longest file": longest_file,
}


def _words(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def _lines(paths: Iterable[Path]) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


class _Function(NamedTuple):
    line: int
    name: str
    parameters: int
    compiled: bool


class _Read(NamedTuple):
    anys: int
    functions: list[_Function]  # with as many parameters as count anywhere


@cache
def _read(source: str) -> _Read:
    """What is counted in a file, which is parsed once for all counts."""
    anys = 0
    functions: list[_Function] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            anys += node.id == "Any"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
            if count >= MOST_PARAMETERS:
                functions.append(_Function(node.lineno, node.name, count, _is_compiled(node)))
    return _Read(anys, functions)


def _wide(root: Path, most: int, compiled: bool) -> Iterator[str]:
    for path in sorted(root.glob("eunomia/**/*.py")):
        if "kernel" in path.parts and not compiled:
            continue
        for one in _read(path.read_text(encoding="utf-8")).functions:
            if one.parameters > most and (compiled or not one.compiled):
                yield f"{path.relative_to(root).as_posix()}:{one.line} {one.name} ({one.parameters})"


def _is_compiled(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(re.split(r"[.(]", ast.unparse(each))[0] in COMPILED for each in node.decorator_list)


def main() -> None:
    """A table with a column per checkout, and the functions that take too much."""
    here = Path(__file__).resolve().parents[1]
    roots = [Path(text).resolve() for text in sys.argv[1:]] or [here]
    print("| | " + " | ".join(root.name for root in roots) + " |")
    print("|---|" + "---:|" * len(roots))
    for what, count in COUNTS.items():
        print(f"| {what} | " + " | ".join(f"{count(root):,}" for root in roots) + " |")
    for root in roots:
        print(*["", f"{root.name}:", *_wide(root, MOST_PARAMETERS, compiled=False)], sep="\n")


if __name__ == "__main__":
    main()
