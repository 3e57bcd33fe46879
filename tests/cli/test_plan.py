"""``eunomia plan`` from a shell: an answer as JSON, a status that says whether there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tomli_w

from tests.cli.shell import Shell
from tests.study.test_plan import question


def asked(**changes: Any) -> None:
    search = {"seeds": 1, "fresh": 2, "cost_error": 0.0, "policies": ["edf+f+eft"], "front": []}
    Path("plan.toml").write_text(tomli_w.dumps(question(search=search, **changes)))


def test_the_answer_is_one_json_document_with_its_files(shell: Shell) -> None:
    asked()
    done = shell("plan", "plan.toml", "--json", "--workers", "1", "--no-rivals")
    assert done.code == 0 and not done.err
    found = json.loads(done.out)
    assert found["platform"]["cost"] > 0.0 and found["policy"] == "edf+f+eft"
    assert {promise["pair"] for promise in found["promises"]} == {"a/four", "b/two"}
    assert all(Path(path).is_file() for path in found["paths"].values())


def test_no_platform_is_a_failure_that_says_why(shell: Shell) -> None:
    asked(bounds={"devices": 1})
    done = shell("plan", "plan.toml", "--workers", "1", "-q")
    assert done.code == 1
    assert "no platform within the bounds" in done.err
    said = shell("plan", "plan.toml", "--workers", "1")
    assert said.err.count("no platform within the bounds") == 1
    assert "no platform within" not in said.out
    assert "platforms within the bounds" in said.out and "plan.csv" in said.out
    assert "Traceback" not in done.err


def test_another_plan_in_the_folder_is_not_overwritten(shell: Shell) -> None:
    asked()
    assert shell("plan", "plan.toml", "--workers", "1", "-q", "--no-rivals", "--out", "here").code == 0
    asked(duration_s=0.05)
    done = shell("plan", "plan.toml", "--workers", "1", "-q", "--out", "here")
    assert done.code == 1 and "holds another plan" in done.err and "--force" in done.err
