"""Do stock clients work, and does anything made up break the server? Parts: stock clients, made up, roles, fuzzing.

The server's tests, with five times their examples and a row for each. Stock tritonclient: HTTP and gRPC, synchronous
and asynchronous, every call that it offers, answers compared bit for bit with the whole network's; perf_analyzer.
Requests made up from the OpenAPI document by schemathesis, from grammars and by mutation by hypothesis, and by
coverage with atheris, where it is installed. Every endpoint and RPC with no key, a wrong, a tenant's and an admin's.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.page import ROOT
from benchmarks.table import Cell, Options, Table, table
from tests.serving import fuzz
from tests.serving.fuzz_targets import TARGETS

TESTS = {
    "stock clients": [f"tests/serving/test_{n}.py" for n in ("stock_calls", "streams", "perf_analyzer")],
    "made up": ["tests/serving/test_openapi.py", "tests/serving/test_fuzz.py"],
    "roles": ["tests/serving/test_security.py"],
}
LIBRARIES = ("tritonclient", "grpcio", "aiohttp", "geventhttpclient", "schemathesis", "hypothesis")
FUZZED_S, FUZZED_QUICK_S = 10, 2  # for each target


def outcomes(files: list[str], profile: str) -> Iterator[list[Cell]]:
    """A row for each test: what it checks, of what, the answers it counted, and whether it passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}", *files]
        settings = {**os.environ, "HYPOTHESIS_PROFILE": profile}
        command = [sys.executable, "-m", "pytest", *words]
        subprocess.run(command, cwd=ROOT, env=settings, stdout=sys.stderr, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    for case in cases:
        check, _, of = case.attrib["name"].removeprefix("test_").replace("_", " ").partition("[")
        said = [str(one.get("value")) for one in case.iter("property")]
        failed = [f"{one.get('message')}"[:160] for kind in ("failure", "error") for one in case.iter(kind)]
        skipped = case.find("skipped") is not None
        yield [check, of.rstrip("]"), "; ".join(said + failed), "not run" if skipped else not failed]


def fuzzed(seconds: int) -> Iterator[list[Cell]]:
    """A row for each function that reads a stranger's bytes."""
    for target in TARGETS:
        inputs, crashes = fuzz.campaign(target, seconds)
        yield [target, inputs, "; ".join(crashes), not crashes and inputs > 0]


def verdict(rows: list[list[Cell]]) -> list[str]:
    """A sentence for each row that is not as promised."""
    return [f"Not as promised: {row[0]}, {row[1]}: {row[2]}" for row in rows if row[-1] is False] or [
        "Nothing failed." if rows else "Not as promised: nothing was tried."
    ]


def measure(options: Options) -> Iterator[Table]:
    """A table for each part; the quick run has as many examples as the tests."""
    named = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    for key in options.chosen(TESTS):
        rows = list(outcomes(TESTS[key], "suite" if options.quick else "page"))
        yield table(key, "check; of; answers; as promised", rows, [f"{named}.", *verdict(rows)])
    if options.wants("fuzzing") and importlib.util.find_spec("atheris") is not None:
        rows = list(fuzzed(FUZZED_QUICK_S if options.quick else FUZZED_S))
        notes = [f"atheris {version('atheris')}.", *verdict(rows)]
        yield table("fuzzing", "function that reads; inputs|,; crashes; as promised", rows, notes)
