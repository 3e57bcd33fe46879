"""No test depends on how quick the machine is, and every process that a test starts goes through ``tests.children``.

A walk over the sources of the tests, and over the programs that they hold as text. It finds clocks, sleeps, processes
started otherwise, and waits bounded by a number of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MAY_READ_CLOCKS = {"patience.py"}
MAY_START = {"children.py"}
PROGRAMS = {"same_science", "house", "hostile"}  # folders that people run, not pytest
FOR_EVER_S = 3600.0  # a sleep as long as this never ends: the process is killed in it

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
      for unit in ("", "_ns")),
    "timeit.timeit", "timeit.repeat", "timeit.default_timer", "datetime.datetime.now", "datetime.datetime.utcnow",
}  # fmt: skip
STARTS = {
    *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")),
    *(f"os.{name}" for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp")),
    *(f"asyncio.create_subprocess_{name}" for name in ("exec", "shell")),
    "multiprocessing.Process", "multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor",
}  # fmt: skip
BOUNDED = {"urlopen", "HTTPConnection", "create_connection", "settimeout", "communicate", "wait", "wait_for", "join",
           "result", "select", "WebDriverWait", "ModelInfer", "ServerLive", "run"}  # fmt: skip


def names_of(tree: ast.AST) -> dict[str, str]:
    """What imports call things: local name -> full dotted name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                found[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """``module.name`` of an expression, "" where it is none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (before := dotted(node.value, names)):
        return f"{before}.{node.attr}"
    return ""


def faults(source: str, file: str = "test_x.py", *, inside_text: bool = False) -> Iterator[tuple[int, str]]:
    """Line and sentence of everything that a test must not do."""
    tree = ast.parse(source)
    names = names_of(tree)
    for node in ast.walk(tree):
        name = dotted(node, names) if isinstance(node, ast.Name | ast.Attribute) else ""
        if name in CLOCKS and file not in MAY_READ_CLOCKS:
            yield node.lineno, f"reads the clock {name}; wait for a condition (tests.patience), or count work"
        if isinstance(node, ast.Call):
            yield from _faults_of_call(node, names, file)
            if (name := dotted(node.func, names)) in STARTS and file not in MAY_START and not inside_text:
                yield node.lineno, f"starts a process by {name}; tests.children does that"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno + line, fault) for line, fault in _faults_of_text(node.value, file))


def _faults_of_call(call: ast.Call, names: dict[str, str], file: str) -> Iterator[tuple[int, str]]:
    simulated = any(name.startswith("tests.simulated_time.") for name in names.values())
    sleeps = {"time.sleep"} if simulated else {"time.sleep", "asyncio.sleep"}
    if dotted(call.func, names) in sleeps and file not in MAY_READ_CLOCKS:
        given = _number(call.args[0]) if call.args else None
        if given is None or 0.0 < given < FOR_EVER_S:
            yield call.lineno, "sleeps; wait for a condition (tests.patience)"
    callee = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if callee in BOUNDED:
        given_s = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
        given_s += call.args[-1:] if callee != "run" else []
        if any(_number(value) for value in given_s):
            yield call.lineno, f"bounds {callee} by a number of its own; tests.patience.PATIENCE_S does that"


def _faults_of_text(text: str, file: str) -> Iterator[tuple[int, str]]:
    """Programs that are run by a child."""
    if "import " not in text or "\n" not in text:
        return
    try:
        found = list(faults(text, file, inside_text=True))
    except SyntaxError:  # some other text
        return
    yield from found


def _number(node: ast.AST) -> float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def test_no_test_reads_a_clock_sleeps_or_starts_a_process_by_itself() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {fault}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__)  # which plants some
        if path.relative_to(TESTS).parts[0] not in PROGRAMS
        for line, fault in faults(path.read_text(encoding="utf-8"), str(path.relative_to(TESTS)))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("source, says", [
    ("import time\nbegan = time.monotonic()\nassert time.monotonic() - began < 2.0", "reads the clock time.monotonic"),
    ("from time import perf_counter as now\nassert now() < 5", "reads the clock time.perf_counter"),
    ("import time as t\nassert t.process_time_ns() < 5", "reads the clock time.process_time_ns"),
    ("from datetime import datetime\ndatetime.now()", "reads the clock datetime.datetime.now"),
    ("import time\nread = time.time", "reads the clock time.time"),
    ("import time\ntime.sleep(0.1)", "sleeps"),
    ("from asyncio import sleep\nasync def f(s):\n    await sleep(s)", "sleeps"),
    ("PROGRAM = '''\nimport time\ntime.sleep(1)\n'''", "sleeps"),
    ("import subprocess\nsubprocess.run(['true'])", "starts a process by subprocess.run"),
    ("from subprocess import Popen as P\nP('true')", "starts a process by subprocess.Popen"),
    ("from tests.simulated_time import run_simulated\nimport time\ntime.sleep(1)", "sleeps"),
    ("import os\nos.fork()", "starts a process by os.fork"),
    ("import multiprocessing as mp\nmp.Process()", "starts a process by multiprocessing.Process"),
    ("from urllib.request import urlopen\nurlopen('x', timeout=10)", "bounds urlopen by a number"),
    ("thread.join(30.0)", "bounds join by a number"),
    ("line.settimeout(1)", "bounds settimeout by a number"),
    ("children.run(['true'], timeout=2)", "bounds run by a number"),
])  # fmt: skip
def test_a_planted_fault_is_found(source: str, says: str) -> None:
    assert any(says in fault for _, fault in faults(source)), source


@pytest.mark.parametrize("source", [
    "import time\ntime.sleep(3600)", "import asyncio\nasync def f():\n    await asyncio.sleep(0)",
    "import subprocess\ndef f(p: subprocess.Popen): return subprocess.PIPE",
    "from tests.simulated_time import run_simulated\nimport asyncio\nasync def f():\n    await asyncio.sleep(0.1)",
    "', '.join(['a'])", "thread.join()", "thread.join(PATIENCE_S)",
    "ask(server, timeout=1)", "now_s = 3.0\nassert now_s < 4.0", "timer.time.monotonic()", "import os\nos.kill(1, 9)",
])  # fmt: skip
def test_what_is_allowed_is_not_found(source: str) -> None:
    assert not list(faults(source))
