"""A package that ``eunomia new policy`` writes passes its own test as written, and its name is a policy."""

from __future__ import annotations

import io
import os
import tomllib
from pathlib import Path

import pytest

from tests import children
from tests.cli.shell import Shell

BY_NAME = """
import sys
from eunomia.study.inference.conformance import check_policy
for name in sys.argv[1:]:
    check_policy(name)
"""


def test_the_package_passes_its_test_and_its_name_works_once_installed(shell: Shell, tmp_path: Path) -> None:
    done = shell("new", "policy", "steady_hand")
    assert done.code == 0, done.err
    written = tmp_path / "steady_hand"
    assert sorted(str(p.relative_to(written)) for p in written.rglob("*") if p.is_file()) == [
        "pyproject.toml",
        "steady_hand/__init__.py",
        "tests/test_contract.py",
    ]
    for text in (written / "steady_hand" / "__init__.py", written / "tests" / "test_contract.py"):
        compile(text.read_text(), str(text), "exec")
        assert "NAME" not in text.read_text()
    told = children.run(children.python("-m", "pytest", "-q", "-p", "no:cacheprovider"), cwd=written)
    assert told.returncode == 0 and "2 passed" in told.stdout, told.stdout + told.stderr

    project = tomllib.loads((written / "pyproject.toml").read_text())["project"]
    info = (
        tmp_path / "site" / "eunomia_steady_hand-0.1.0.dist-info"
    )  # what an installer makes of pyproject.toml
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    entries = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
        for group, table in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(entries)
    path = os.pathsep.join(map(str, (info.parent, written, children.ROOT)))
    names = ("steady_hand", "steady_hand(hopeless_last=false)")
    told = children.run(children.python("-c", BY_NAME, *names), cwd=tmp_path, env={"PYTHONPATH": path})
    assert told.returncode == 0, told.stderr


def test_a_folder_of_ones_own_choice(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert shell("new", "policy", "steady_hand", "--into", "empty").code == 0
    assert (tmp_path / "empty" / "steady_hand" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my-policy", "cannot be called 'my-policy'; take letters, digits and underscores"),
        ("9lives", "cannot be called '9lives'"),
        ("class", "cannot be called 'class'"),
        ("straße", "cannot be called 'straße'"),
        ("a/b", "cannot be called 'a/b'"),
        ("edf", "there is a policy 'edf' already"),
        ("eunomia", "there is a policy 'eunomia' already"),
        ("numpy", "there is a Python module 'numpy' already"),
    ],
)
def test_a_name_that_cannot_be_is_one_sentence(name: str, says: str, shell: Shell, tmp_path: Path) -> None:
    done = shell("new", "policy", name)
    assert done.code == 2 and says in done.err and len(done.err.splitlines()) == 1
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_taken_is_left_alone(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for words in (["mine"], ["other", "--into", "mine"], ["file"]):
        done = shell("new", "policy", *words)
        assert done.code == 1 and "exists already; choose another name" in done.err
        assert len(done.err.splitlines()) == 1
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "mine"]


# --- dataflows


def test_a_dataflow_passes_its_test_and_its_name_works_once_installed(shell: Shell, tmp_path: Path) -> None:
    done = shell("new", "dataflow", "steady_rows")
    assert done.code == 0, done.err
    written = tmp_path / "steady_rows"
    assert "NAME" not in "".join(p.read_text() for p in written.rglob("*.*"))
    info = tmp_path / "site" / "eunomia_steady_rows-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: eunomia-steady-rows\nVersion: 0.1.0\n")
    named = tomllib.loads((written / "pyproject.toml").read_text())["project"]["entry-points"]
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in t.items()) for group, t in named.items())
    )
    path = os.pathsep.join(map(str, (info.parent, written, children.ROOT)))
    code = (
        "import runpy; from eunomia.hardware.types import cost_of, load_type; from eunomia.workload import zoo\n"
        "kind = load_type('systolic').with_(dataflow='steady_rows')\n"
        "assert cost_of(zoo.load('kws-res8').layers[0], kind).latency_s > 0\n"
        "tests = runpy.run_path('tests/test_contract.py')\n"
        "ran = [test() for name, test in tests.items() if name.startswith('test_')]; assert len(ran) == 2\n"
    )
    told = children.run(children.python("-c", code), cwd=written, env={"PYTHONPATH": path})
    assert told.returncode == 0, told.stderr
    taken = shell("new", "dataflow", "systolic_output")
    assert taken.code == 2 and "there is a dataflow 'systolic_output' already" in taken.err


# --- scenarios


def test_a_scenario_from_flags_is_one_that_runs(shell: Shell, tmp_path: Path) -> None:
    flags = (
        "--tenant",
        "gate:squeezenet:20:50:0.9",
        "--tenant",
        "desk:kws-res8:10:30:0.5",
        "--duration-s",
        "0.2",
    )
    done = shell("new", "scenario", "lobby", *flags, "--platform", "npu-mix")
    assert done.code == 0, done.err
    assert shell("scenario", "check", "lobby.toml").out.startswith("lobby.toml: 2 tenants, 2 networks")
    again = shell("new", "scenario", "lobby")
    assert again.code == 1 and "'lobby.toml' exists already" in again.err


def test_a_scenario_without_flags_has_an_example_of_each(shell: Shell, tmp_path: Path) -> None:
    assert shell("new", "scenario", "first", "--into", "here.toml").code == 0
    scenario = tomllib.loads((tmp_path / "here.toml").read_text())
    assert [tenant["name"] for tenant in scenario["tenant"]] == ["camera", "reader"]


def test_a_scenario_asks_at_a_terminal(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "gate\nsqueezenet\n20\n50\n0.9\ny\ndesk\nkws-res8\n10\n30\n0.5\nn\nnpu-mix\n"
    typed = io.StringIO(answers)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert shell("new", "scenario", "lobby").code == 0
    scenario = tomllib.loads((tmp_path / "lobby.toml").read_text())
    assert [tenant["name"] for tenant in scenario["tenant"]] == ["gate", "desk"]
    assert scenario["tenant"][1]["models"][0]["deadline_ms"] == 10.0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tenant", "gate"], "--tenant gate: write NAME:NETWORK:DEADLINE_MS:RATE_PER_S:HIT_RATE"),
        (["--tenant", "gate:squeezenett:20:50:0.9"], "did you mean 'squeezenet'"),
        (["--tenant", "gate:squeezenet:20:50:90"], "90"),
        (["--platform", "npu-mx"], "did you mean 'npu-mix'"),
    ],
)
def test_a_scenario_that_cannot_be_is_one_sentence(
    flags: list[str], says: str, shell: Shell, tmp_path: Path
) -> None:
    done = shell("new", "scenario", "lobby", *flags)
    assert done.code == 2 and says in done.err and len(done.err.splitlines()) == 1
    assert not any(tmp_path.iterdir())
