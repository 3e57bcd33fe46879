"""Packaging: the list of parts, and what `make test` does about PyTorch."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest

from checks import pythons
from checks.parts_list import bill_of_materials
from tests import children

ROOT = Path(__file__).resolve().parents[1]


def test_the_list_of_parts_names_every_locked_package_with_its_hashes() -> None:
    lock = ROOT / "requirements" / "core.txt"
    parts = json.loads(bill_of_materials(lock))
    assert parts["bomFormat"] == "CycloneDX" and parts["metadata"]["component"]["name"] == "eunomia"
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line]
    assert len(parts["components"]) == len(lines)
    by_name = {part["name"]: part for part in parts["components"]}
    assert {"numpy", "numba", "pyarrow", "pydantic", "onnx"} <= set(by_name)
    assert all(part["hashes"] and len(part["hashes"][0]["content"]) == 64 for part in by_name.values())
    assert bill_of_materials(lock) == bill_of_materials(lock)


@pytest.mark.skipif(platform.system() != "Linux", reason="elsewhere the default wheel is small")
@pytest.mark.parametrize("has_it", [True, False])
def test_cuda_is_never_fetched_unasked(tmp_path: Path, has_it: bool) -> None:
    """An index with the CPU build, and one without: only that build is asked for; without it, what to do is said."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    python = environment / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{"exit 0" if has_it else "echo No match >&2; exit 1"}\n'
    )
    python.chmod(0o755)
    stamp = environment / ".test"
    stamp.touch()
    done = children.run([make, "-C", ROOT, "-o", stamp, f"VENV={environment}", environment / ".torch"])
    assert done.returncode == 0, done.stderr
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.endswith("+cpu") and " torch==" in asked
    assert (environment / ".torch").exists() is has_it
    assert ("docs/dependencies.md#locks" in done.stdout) is not has_it


@pytest.mark.parametrize("target", ["test", "lint"])
def test_an_error_of_types_is_printed_once(tmp_path: Path, target: str) -> None:
    """Behind what the tests print, which run whatever is found: tools are stand-ins, and mypy fails at once."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    (tmp_path / "bin").mkdir()
    for tool in ("python", "ruff", "codespell", "lint-imports", "mypy"):
        program = tmp_path / "bin" / tool
        fails = "echo 'a.py:1: error: wrong'; exit 1" if tool == "mypy" else 'echo "ran $2"'
        program.write_text(f"#!/bin/sh\n{fails}\n")
        program.chmod(0o755)
    for stamp in (".python", ".core", ".test", ".torch", ".system"):
        (tmp_path / stamp).touch()
    done = children.run([make, "-C", ROOT, f"VENV={tmp_path}", target])
    assert done.returncode != 0
    assert done.stdout.count("error: wrong") == 1
    assert "ran pytest" not in done.stdout.rpartition("error: wrong")[2]
    assert ("ran pytest" in done.stdout) is (target == "test")


def test_the_newest_python_that_starts_is_taken_of_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shim on the path that does not start, three of pyenv's, one of uv's of the wrong version; no 3.13."""

    def interpreter(folder: Path, name: str, says: str) -> str:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{says}\n")
        (folder / name).chmod(0o755)
        return str(folder / name)

    versions, uv = tmp_path / "pyenv" / "versions", tmp_path / "data" / "uv" / "python"
    interpreter(tmp_path / "bin", "python3.12", "echo pyenv: python3.12: command not found >&2; exit 127")
    first = interpreter(versions / "3.11.4" / "bin", "python3.11", "echo 3 11")
    interpreter(versions / "3.12.9" / "bin", "python3.12", "echo 3 12")
    newest = interpreter(versions / "3.12.10" / "bin", "python3.12", "echo 3 12")
    interpreter(uv / "cpython-3.13.1-linux-x86_64-gnu" / "bin", "python3.13", "echo 3 9")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    found = pythons.interpreters()
    assert found == {11: first, 12: newest}
    (sentence,) = pythons.missing(found)
    assert sentence.startswith("Python 3.13 is not here: not tried; `pyenv install 3.13` or")
