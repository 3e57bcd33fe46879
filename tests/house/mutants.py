"""Changes that a test should notice: ``python tests/house/mutants.py --of FOLDER ... --tests PATH ... [--sample 60]``.

Each mutant changes one operator, constant, condition or statement inside one function. The tests run once and each
function notes which of them enter it. Each mutant then lives in a copy of this process (fork), where the function's
code is exchanged and those tests run again, the quickest first, until one fails. Survivors are printed with file,
line and change; the tests do not see them, or the change makes no difference. Compiled functions are left out: their
machine code would not change. A function that no test enters is printed as such; what runs at import stays as it was.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import gc
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).parents[2]
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.USub: ast.UAdd,
}  # fmt: skip
LIVED, DIED, ENDLESS = 0, 1, 2
Name = tuple[str, str, int]
ENTERED: set[Name] = set()


@dataclass(frozen=True)
class Mutant:
    """One change: the code of one function, changed."""

    path: Path
    line: int
    change: str
    before: CodeType
    after: CodeType


def changes(function: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """(node, what stands there instead, in words), for every change of one function's body."""
    for node in ast.walk(function):
        for field, old in ast.iter_fields(node):
            olds = old if isinstance(old, list) and field == "ops" else [old]
            for place, one in enumerate(olds):
                if type(one) in SWAPPED:
                    other = copy.deepcopy(node)
                    new = SWAPPED[type(one)]()
                    setattr(other, field, [*olds[:place], new, *olds[place + 1 :]] if olds is old else new)
                    yield node, other, f"{ast.unparse(node)}  ->  {ast.unparse(other)}"
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node, ast.copy_location(ast.Constant(value), node), f"{node.value}  ->  {value}"
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            other = copy.deepcopy(node)
            other.test = ast.UnaryOp(ast.Not(), node.test)
            yield node, other, f"if {ast.unparse(node.test)}  ->  if not ..."
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break)) or (
            isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        ):
            yield node, ast.Pass(), f"{ast.unparse(node).splitlines()[0]}  ->  pass"


def codes(code: CodeType) -> Iterator[CodeType]:
    """This code and all inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def outermost(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Plain functions and methods; one inside another is changed with that one, which makes it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            if not any(word in ast.unparse(d) for d in node.decorator_list for word in ("compiled", "jit")):
                yield node
        else:
            yield from outermost(node)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of the plain functions of a file."""
    tree = ast.parse(path.read_text())
    known = {
        (code.co_qualname, code.co_firstlineno): code for code in codes(compile(tree, str(path), "exec"))
    }
    for function in outermost(tree):
        for node, other, words in changes(function):
            changed = ast.fix_missing_locations(_Swap(node, other).visit(copy.deepcopy(_marked(tree, node))))
            try:
                inside = {
                    (c.co_qualname, c.co_firstlineno): c for c in codes(compile(changed, str(path), "exec"))
                }
            except SyntaxError:
                continue
            for place, code in known.items():
                made = inside.get(place)
                if (
                    code.co_name == function.name
                    and made
                    and made != code
                    and made.co_freevars == code.co_freevars
                ):
                    yield Mutant(path, node.lineno, words, code, made)  # type: ignore[attr-defined]


def _marked(tree: ast.AST, node: ast.AST) -> ast.AST:
    for one in ast.walk(tree):
        one.mark = one is node  # type: ignore[attr-defined]
    return tree


class _Swap(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self.other = other

    def visit(self, node: ast.AST) -> ast.AST:
        if getattr(node, "mark", False):
            return ast.copy_location(self.other, node)
        return self.generic_visit(node)


def name_of(code: CodeType) -> Name:
    """File, name and line of a function."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def caches() -> list[functools._lru_cache_wrapper[object]]:
    """What functions of the house and its tests remember, except machine code, which can be made once only."""
    found = [thing for thing in gc.get_objects() if type(thing) is functools._lru_cache_wrapper]
    ours = [cache for cache in found if cache.__module__.startswith(("eunomia", "tests"))]
    return [cache for cache in ours if not cache.__name__.startswith("compile")]


def exchange(new: dict[Name, CodeType]) -> None:
    """Give every function of this process that is named its new code."""
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(ROOT)):
            thing.__code__ = new.get(name_of(thing.__code__), thing.__code__)


def noting(path: Path) -> dict[Name, CodeType]:
    """The functions of a file, each adding its name to `ENTERED` first."""
    tree = ast.parse(path.read_text())
    for function in outermost(tree):
        first = [node.lineno for node in [*function.decorator_list, function]][0]
        name = str(path), function.name, first
        note = ast.parse(f"__import__('sys').modules[{__name__!r}].ENTERED.add({name})").body[0]
        function.body.insert(0, ast.copy_location(note, function.body[0]))
    return {
        name_of(code): code for code in codes(compile(ast.fix_missing_locations(tree), str(path), "exec"))
    }


class Notes:
    """A plugin that notes seconds and entered functions of each test.

    What is entered while a test is set up counts for its whole file: fixtures are shared.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.entered: dict[str, set[Name]] = {}
        self.caches: list[functools._lru_cache_wrapper[object]] = []

    def pytest_collection_finish(self) -> None:
        self.caches = caches()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        for cache in self.caches:
            cache.cache_clear()
        ENTERED.clear()
        yield
        self.entered.setdefault(item.nodeid.split("::")[0], set()).update(ENTERED)
        ENTERED.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
            self.entered[report.nodeid] = set(ENTERED)

    def of(self, code: CodeType) -> list[str]:
        """The tests that enter a function, the quickest first."""
        name = code.co_filename, code.co_name, code.co_firstlineno
        return sorted(
            (test for test in self.seconds if name in self.entered[test] | self.entered[test.split("::")[0]]),
            key=self.seconds.__getitem__,
        )


def run_tests(tests: list[str], *plugins: object) -> int:
    """pytest's status, without its words."""
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins))


def fate(mutant: Mutant, tests: list[str], limit_s: float) -> int:
    """Run the tests on a mutant in a copy of this process."""
    child = os.fork()
    if child == 0:
        os.setsid()
        exchange({name_of(mutant.before): mutant.after})
        for cache in caches():
            cache.cache_clear()
        os._exit(DIED if run_tests(tests) else LIVED)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return LIVED if status == 0 else DIED
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ENDLESS


def main() -> int:
    """Print survivors and the share that died; status 1 if the tests fail without any change."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--of", nargs="+", required=True, help="files or folders to change")
    ask.add_argument("--tests", nargs="+", required=True)
    ask.add_argument("--sample", type=int, default=60)
    ask.add_argument("--seed", type=int, default=0)
    told = ask.parse_args()
    paths = [Path(of).resolve() for of in told.of]
    files = sorted({file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])})
    for file in files:
        importlib.import_module(
            ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
    exchange({name: code for file in files for name, code in noting(file).items()})
    notes = Notes()
    if run_tests(told.tests, notes):
        print(f"the tests fail without any change: {' '.join(told.tests)}")
        return 1
    everything = [mutant for file in files for mutant in mutants_of(file)]
    chosen = random.Random(told.seed).sample(everything, min(told.sample, len(everything)))
    fates = []
    for mutant in chosen:
        tests = notes.of(mutant.before)
        limit_s = 60.0 + 5.0 * sum(notes.seconds[test] for test in tests)
        fates.append(fate(mutant, tests, limit_s) if tests else LIVED)
        if fates[-1] == LIVED:
            where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
            print(f"survived {len(tests)} tests: {where}: {mutant.change}", flush=True)
    dead = len(fates) - fates.count(LIVED)
    print(
        f"{dead} of {len(fates)} mutants died ({fates.count(ENDLESS)} never ended), of {len(everything)} possible"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
