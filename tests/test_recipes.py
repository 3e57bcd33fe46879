"""The recipes of CONTRIBUTING.md, performed in a copy of the package: the file, the line in the table, and a run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests import children

RECIPE = re.compile(
    r"^### (?P<title>[^\n]+)\n.*?`(?P<file>eunomia/[\w/]+\.py)`:\n```python\n(?P<text>.*?)```\n"
    r"Line in `(?P<table>eunomia/[\w/]+\.py)`:\n```python\n(?P<line>[^\n]+)\n```",
    re.DOTALL | re.MULTILINE,
)
FOUND = {m["title"]: m.groupdict() for m in RECIPE.finditer((children.ROOT / "CONTRIBUTING.md").read_text())}
CHILD = """
import json, eunomia
from eunomia.study.cluster import run_cluster
lab = {"name": "small", "duration_s": 0.2,
       "platform": {"accelerators": [{"type": "simba"}, {"type": "eyeriss"}], "dram_bandwidth_gb_s": 8.0},
       "tenant": [{"name": "a", "arrivals": {"process": "metronome", "gap_s": 0.004},
                   "models": [{"model": "two-layers", "deadline_factor": 3.0}]}]}
cluster = {"name": "two", "device": [{"type": "gpu", "count": 2}],
           "throughputs": {"model": [{"name": "m", "speed": {"gpu": 2.0}}]},
           "job": [{"id": f"j{i}", "type": "m", "steps": 4000.0} for i in range(2)]}
run = eunomia.run(lab, "last_first")
print(json.dumps([eunomia.__file__, run.policy, run.metrics["requests"], run.metrics["hit_rate"],
                  run_cluster(cluster, "equal").metrics["jct_mean_s"],
                  run_cluster(cluster, "isolated").metrics["jct_mean_s"]]))
"""


def perform(recipe: dict[str, str], root: Path) -> None:
    """Write the file, and put the line first into the only table of the other file."""
    assert not (root / recipe["file"]).exists()
    (root / recipe["file"]).write_text(recipe["text"])
    table = root / recipe["table"]
    lines = table.read_text().splitlines(keepends=True)
    assert lines.count("    {\n") == 1
    lines.insert(lines.index("    {\n") + 1, f"        {recipe['line']}\n")
    table.write_text("".join(lines))


def test_every_recipe_adds_one_file_and_one_line_and_works(tmp_path: Path) -> None:
    assert set(FOUND) == {"A policy", "An allocator", "An arrival process", "A network"}
    shutil.copytree(children.ROOT / "eunomia", tmp_path / "eunomia")
    for recipe in FOUND.values():
        perform(recipe, tmp_path)
    done = children.run(children.python("-c", CHILD), env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    where, policy, requests, hit_rate, equal, isolated = json.loads(done.stdout)
    assert where.startswith(str(tmp_path)) and policy == "last_first"
    assert requests == 50 and hit_rate == pytest.approx(1.0) and equal == isolated
