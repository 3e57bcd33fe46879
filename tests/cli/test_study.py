"""``eunomia study`` from the shell: plan, results, JSON, the page, one sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.scenarios import small
from tests.cli.shell import Shell

TINY = """
name = "tiny"
replications = 2
requests = 200
warmup_requests = 20
policies = ["fcfs", "edf"]
decision_repeats = 1

[platform]
preset = "simba3-eyeriss3"

[deadlines]
alpha = 3.0

[claim]
champion = "edf"
rivals = ["fcfs"]

[[grid]]
name = "main"
sets = ["moca-light"]
qos = ["m"]
loads = [1.0]
"""


@pytest.fixture
def file(shell: Shell, tmp_path: Path) -> str:
    (tmp_path / "tiny.toml").write_text(TINY)
    return "tiny.toml"


def test_a_plan_says_how_much_there_is_to_do_and_does_nothing(
    shell: Shell, file: str, tmp_path: Path
) -> None:
    done = shell("study", file, "--plan", "--json")
    assert done.code == 0 and json.loads(done.out)["runs"] == 2
    assert "2 runs" in shell("study", file, "--plan").out
    assert not (tmp_path / "runs").exists()


def test_a_page_that_cannot_be_written_is_said_before_anything_runs(
    shell: Shell, file: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.md").mkdir()
    for page in ("tiny.toml/found.md", "folder.md"):
        done = shell("study", file, "--page", page)
        assert done.code == 1 and f"cannot write '{page}'" in done.err
    assert not (tmp_path / "runs").exists()


def test_results_page_and_json(shell: Shell, file: str, tmp_path: Path) -> None:
    done = shell("study", file, "--workers", "1", "--page", "found.md")
    assert done.code == 0, done.err
    assert "edf" in done.out and "report.html" in done.out and "on average" in done.out
    assert "us per decision" in (tmp_path / "found.md").read_text()
    folder = tmp_path / "runs" / "study-tiny"
    assert {"study.json", "study.csv", "results.md", "report.html", "timings.json", "manifest.json"} <= {
        path.name for path in folder.iterdir()
    }
    again = shell("study", file, "--json")
    assert again.code == 0
    told = json.loads(again.out)
    assert set(told["policies"]) == {"fcfs", "edf"} and told["claim"][0]["rival"] == "fcfs"
    assert "report ->" not in shell("study", file, "--quiet").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "grid.main.loads=[0.0]"), "greater than 0"),
        (("--set", "grid.mian.loads=[1.0]"), "main"),
        (("--set", 'policies=["ecf"]'), "did you mean"),
        (("--set", "reqests=3"), "did you mean 'requests'"),
    ],
)
def test_mistakes_are_one_sentence(shell: Shell, file: str, words: tuple[str, ...], says: str) -> None:
    done = shell("study", file, *words)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err


def test_files_that_are_no_study(shell: Shell, tmp_path: Path) -> None:
    assert shell("study", "absent.toml").code == 2
    (tmp_path / "broken.toml").write_text("name = ")
    assert "not valid TOML" in shell("study", "broken.toml").err
    (tmp_path / "empty.toml").write_text("")
    assert "lacks the key 'name'" in shell("study", "empty.toml").err


def test_a_study_folder_is_not_a_comparison(shell: Shell, file: str) -> None:
    assert shell("study", file, "--quiet").code == 0
    done = shell("report", "runs/study-tiny")
    assert done.code != 0 and "is a study" in done.err and "Traceback" not in done.err


def test_a_comparison_shows_each_policy_in_the_bracket(shell: Shell, tmp_path: Path) -> None:
    small(tmp_path)
    done = shell("compare", "small.toml", "--bracket", "30", "--workers", "1")
    assert done.code == 0, done.err
    assert "best schedule found" in done.out and "of the bound" in done.out
    facts = json.loads((tmp_path / "runs" / "small-lab" / "manifest.json").read_text())["bracket"]
    assert set(facts["hits"]) == {"fcfs", "edf+f+eft"}
    for hits in facts["hits"].values():
        assert all(mine <= most for mine, most in zip(hits, facts["bound"], strict=True))
    assert all(f <= b <= t for f, b, t in zip(facts["found"], facts["bound"], facts["total"], strict=True))
    assert "Place in the bracket" in (tmp_path / "runs" / "small-lab" / "report.html").read_text()


def test_a_bracket_needs_open_arrivals_and_requests(shell: Shell, tmp_path: Path) -> None:
    small(tmp_path)
    assert shell("compare", "small.toml", "--bracket", "0").code == 2
    closed = 'tenant.gold.arrivals={process="closed_loop", clients=2, think_s=0.01}'
    done = shell("compare", "small.toml", "--bracket", "10", "--set", closed)
    assert done.code == 2 and "closed-loop" in done.err
