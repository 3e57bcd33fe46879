"""The recipes of CONTRIBUTING.md, performed in a copy of the package: the file, the line in the table, and a run."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from tests import children

RECIPE = re.compile(
    r"^### (?P<title>[^\n]+)\n.*?(?P<verb>File|Add to)\s`(?P<file>eunomia/[\w/]+\.py)`:\n```python\n(?P<text>.*?)```\n"
    r"Line in `(?P<table>eunomia/[\w/]+\.py)`:\n```python\n(?P<line>[^\n]+)\n```",
    re.DOTALL | re.MULTILINE,
)
FOUND = {m["title"]: m.groupdict() for m in RECIPE.finditer((children.ROOT / "CONTRIBUTING.md").read_text())}
CHILD = """
import json, eunomia
from eunomia.study.cluster import run_cluster
lab = {"name": "small", "duration_s": 0.2,
       "platform": {"accelerators": [{"type": "simba"}, {"type": "eyeriss"}], "dram_bandwidth_gb_s": 8.0,
                    "contention": "lossy"},
       "tenant": [{"name": "a", "arrivals": {"process": "metronome", "gap_s": 0.004},
                   "models": [{"model": "two-layers", "deadline_factor": 3.0}]}]}
cluster = {"name": "two", "device": [{"type": "gpu", "count": 2}],
           "throughputs": {"model": [{"name": "m", "speed": {"gpu": 2.0}}]},
           "job": [{"id": f"j{i}", "type": "m", "steps": 4000.0} for i in range(2)]}
run = eunomia.run(lab, "last_first")
print(json.dumps([eunomia.__file__, run.policy, run.metrics["requests"], run.metrics["hit_rate"],
                  run.metrics["early_rate"],
                  run_cluster(cluster, "equal").metrics["jct_mean_s"],
                  run_cluster(cluster, "isolated").metrics["jct_mean_s"]]))
"""


TABLE = re.compile(r"    \{\n|[A-Z_]+: dict\[.*\] = \{\n")
TORCH = importlib.util.find_spec("torch") is not None  # tests/learning/test_loop.py needs it
NEWCOMERS = (
    "lossy",
    "early_rate",
    "requests-gateway",
    "jobs-ledger",
    "uncut",
    "uptime",
    *(("wander",) if TORCH else ()),
)  # whose contract tests are run
CONTRACTS = (
    "tests/inference/test_contention_models.py",
    "tests/metrics/test_documentation.py",
    "tests/test_trace_formats.py",
    "tests/serving/test_backends.py",
    "tests/serving/test_fronts.py",
    *(("tests/learning/test_loop.py",) if TORCH else ()),
    "-k",
    "("
    + " or ".join((*NEWCOMERS, "page", "together", "apart"))
    + ") and not resnet50",  # one network will do
)


def environment(root: Path) -> dict[str, str]:
    """Of commands in the changed copy: what they say is the same with little optimisation, and sooner compiled."""
    return {"PYTHONPATH": str(root), "NUMBA_OPT": "1"}


def copy(root: Path) -> None:
    """A checkout that the recipes may change."""
    for name in ("eunomia", "tests", "checks", "docs", "benchmarks"):
        shutil.copytree(children.ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "mkdocs.yml"):
        shutil.copy(children.ROOT / name, root)


def perform(recipe: dict[str, str], root: Path) -> None:
    """Write the file, or add to it, and put the line first into the only table of the other file."""
    target, table = root / recipe["file"], root / recipe["table"]
    added = recipe["verb"] == "Add to"
    assert target.exists() == added
    target.write_text(target.read_text() + "\n\n" + recipe["text"] if added else recipe["text"])
    lines = table.read_text().splitlines(keepends=True)
    (opening,) = (n for n, line in enumerate(lines) if TABLE.fullmatch(line))
    indent = " " * (len(lines[opening + 1]) - len(lines[opening + 1].lstrip()))
    lines.insert(opening + 1, f"{indent}{recipe['line']}\n")
    table.write_text("".join(lines))


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which every recipe was performed."""
    root = tmp_path_factory.mktemp("recipes")
    copy(root)
    for recipe in FOUND.values():
        perform(recipe, root)
    done = children.run(children.python("-m", "checks.pages", "--write"), env=environment(root), cwd=root)
    assert done.returncode == 0, done.stderr
    return root


def test_every_recipe_adds_one_file_and_one_line_and_works(changed: Path) -> None:
    assert set(FOUND) == {
        "A policy",
        "An allocator",
        "An arrival process",
        "A network",
        "A contention model",
        "A metric",
        "A trace reader",
        "A reader of job traces",
        "A device backend",
        "An agent",
        "An endpoint",
    }
    done = children.run(children.python("-c", CHILD), env=environment(changed), cwd=changed)
    assert done.returncode == 0, done.stderr
    where, policy, requests, hit_rate, early_rate, equal, isolated = json.loads(done.stdout)
    assert where.startswith(str(changed)) and policy == "last_first"
    assert requests == 50 and 0.0 <= early_rate <= hit_rate == pytest.approx(1.0) and equal == isolated


def test_every_newcomer_passes_the_tests_of_its_table(changed: Path) -> None:
    command = children.python("-m", "pytest", "-v", "-p", "no:cacheprovider", *CONTRACTS)
    done = children.run(command, env=environment(changed), cwd=changed)
    assert done.returncode == 0, done.stdout[-3000:]
    assert all(f"[{name}" in done.stdout for name in NEWCOMERS) and "skipped" not in done.stdout
