"""The doctor: each finding from files and packages as they are, and a remedy for whatever is not as it should be."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

import numba
import pytest
from packaging.requirements import Requirement

from eunomia.cli import checkup
from eunomia.cli.kept_code import kept_loops
from eunomia.inference.simulate import simulate_problem
from tests.cli.shell import Shell
from tests.inference.policies.test_contract import busy_case


def test_nothing_is_at_fault_where_the_tests_run(shell: Shell) -> None:
    plain, told = shell("doctor"), shell("doctor", "--json")
    assert plain.code == told.code == 0, plain.out
    found = json.loads(told.out)
    assert found["ok"] and plain.out.endswith("nothing is at fault\n")
    for each in found["findings"]:
        assert each["value"] in plain.out and bool(each["remedy"]) == (each["state"] != "ok"), each
    assert {
        "eunomia",
        "python",
        "numba",
        "learn",
        "cores",
        "open files",
        "shared memory",
        "machine code",
    } <= {each["what"] for each in found["findings"]}


def test_a_library_that_is_missing_or_old_is_a_fault(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setattr(checkup, "version", lambda name: "0.4.9" if name == "rich" else "99")
    done = shell("doctor")
    assert done.code == 1 and "2 faults found" in done.out
    assert "pip install --force-reinstall 'safetensors>=" in done.out and "pip install 'rich>=" in done.out


def test_an_extra_that_is_missing_is_a_remark() -> None:
    found = checkup._optional("mine", [("numpy", "1"), ("no-such-library", "2")])
    assert (found.state, found.value) == ("note", "without no-such-library")
    assert found.remedy == "pip install 'eunomia[mine]'"
    assert checkup._optional("mine", [("numpy", "99")]).state == "fault"


def test_requirements_are_read_as_the_reference_reads_them() -> None:
    lines = requires("eunomia")
    assert lines and len(lines) > 40
    for line in lines:
        found, wanted = checkup.REQUIREMENT.match(line), Requirement(line)
        least = [each.version for each in wanted.specifier if each.operator == ">="]
        assert found is not None and found["name"] == wanted.name and [found["least"]] == (least or [None])
        extra = found["extra"]
        assert wanted.marker is None or not extra or not wanted.marker.evaluate({"extra": ""}), line
        assert bool(extra) == ("extra ==" in line)


@pytest.mark.parametrize(("has", "least", "old"), [
    ("2.13.0+cpu", "2.6", False), ("2.5.1", "2.6", True), ("2.10", "2.9", False), ("2", "2.0", True),
    ("0.61.0", "0.61", False), ("1.0rc1", "1.0", False),
])  # fmt: skip
def test_versions_are_compared_by_number(has: str, least: str, old: bool) -> None:
    assert checkup._older(has, least) == old


@pytest.mark.parametrize(
    ("files", "own", "cores"),
    [
        ({}, "0::/\n", None),
        ({"cpu.max": "max 100000"}, "0::/\n", None),
        ({"cpu.max": "150000 100000"}, "0::/\n", 1.5),
        ({"box/cpu.max": "200000 100000", "box/in/cpu.max": "max 100000"}, "0::/box/in\n", 2.0),
        ({"box/cpu.max": "400000 100000", "box/in/cpu.max": "50000 100000"}, "0::/box/in\n", 0.5),
        ({"other/cpu.max": "50000 100000"}, "0::/box\n", None),
        (
            {"cpu/pod/cpu.cfs_quota_us": "250000", "cpu/pod/cpu.cfs_period_us": "100000"},
            "5:memory:/pod\n4:cpu,cpuacct:/pod\n",
            2.5,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/gone\n", None),
        ({"cpu/cpu.cfs_quota_us": "70000", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/gone\n", 0.7),
    ],
)
def test_the_least_quota_around_a_process_counts(
    files: dict[str, str], own: str, cores: float | None, tmp_path: Path
) -> None:
    root = tmp_path / "groups"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    (tmp_path / "own").write_text(own)
    assert checkup.quota_cores(root, tmp_path / "own") == cores
    assert checkup.quota_cores(root, tmp_path / "none") is None


def test_a_quota_below_the_cores_comes_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "quota_cores", lambda: 0.4)
    (found,) = checkup.processor()
    assert found.state == "note" and "--workers 1" in found.remedy and "0.4" in found.value


def test_a_folder_that_cannot_be_written_is_a_fault(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    done = shell("doctor")
    assert done.code == 1 and "set TMPDIR" in done.out and "No such file" in done.out


def test_machine_code_is_counted_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = busy_case(2)
    simulate_problem(case.problem(), "edf", case.options)
    folder, loops = kept_loops()
    assert loops >= 1 and folder.is_dir()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    empty, none = kept_loops()
    assert none == 0 and str(empty).startswith(str(tmp_path))
    assert checkup.machine_code().value.startswith("none yet in")


def test_too_little_shared_memory_is_named(tmp_path: Path) -> None:
    assert checkup.shared_memory(1, tmp_path).state == "ok"
    found = checkup.shared_memory(2**70, tmp_path)
    assert found.state == "note" and "--shm-size" in found.remedy and "arena_mib" in found.remedy
    assert "temporary folder" in checkup.shared_memory(1, tmp_path / "none").value
