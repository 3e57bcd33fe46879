"""Signals to the command: Ctrl-C, a kill, a closed pipe, and signals that its parent has it ignore."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import children
from tests.cli.scenarios import small
from tests.cli.shell import Shell
from tests.patience import PATIENCE_S, until

ASKED = """
from pathlib import Path

def first(view):
    Path(__file__).with_name("asked").touch()
    return [view.assign(0, int(view.idle[0]))]
"""


HOLDS = """
import time
from pathlib import Path

def first(view):
    if len(list(Path("grid/.cells").glob("*.json"))) >= 3 and not Path("go").exists():
        time.sleep(3600.0)
    return [view.assign(0, int(view.idle[0]))]
"""


def finished_cells() -> int:
    return len(list(Path("grid/.cells").glob("*.json")))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_sweep_goes_on(shell: Shell, sent: signal.Signals) -> None:
    Path("mine.py").write_text(
        HOLDS
    )  # each run waits once three are finished, so that the signal finds some at work
    path = small(Path.cwd())
    over = ["--over", f"seed={list(range(8))}", "-p", "mine.py:first", "--seeds", "1"]
    words = children.eunomia("sweep", path, *over, "--out", "grid", "--workers", "2")
    with children.started(words, stderr=subprocess.PIPE) as process:
        until(lambda: finished_cells() >= 3, process)
        if sent == signal.SIGINT:
            children.interrupt(process)
        else:
            process.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors
    if sent == signal.SIGINT:
        assert process.returncode == 130 and "of 8 cells" in errors and "to go on" in errors
    assert 3 <= finished_cells() < 8
    Path("go").touch()
    done = shell("sweep", path, *over, "--out", "grid", "-q")
    assert done.code == 0 and pq.read_table("grid/sweep.parquet").num_rows == 8


@pytest.mark.parametrize("verb", ["run", "compare"])
def test_ctrl_c_is_one_line(tmp_path: Path, verb: str) -> None:
    (tmp_path / "mine.py").write_text(ASKED)
    words = children.eunomia(verb, small(tmp_path), "-p", "mine.py:first", "--set", "duration_s=2000.0")
    with children.started(words, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        until((tmp_path / "asked").exists, process)
        children.interrupt(process)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "Traceback" not in errors
    assert errors.strip().startswith("eunomia: ") and len(errors.strip().splitlines()) == 1, errors


def test_a_command_that_its_parent_protects_from_ctrl_c_runs_to_its_end(tmp_path: Path) -> None:
    """As under ``nohup`` and in the background of a shell: what is ignored stays ignored."""
    (tmp_path / "mine.py").write_text(ASKED)
    words = children.eunomia("compare", small(tmp_path), "-p", "mine.py:first", "--seeds", "4", "--json")
    with children.started(
        words, cwd=tmp_path, ignoring=[signal.SIGINT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until((tmp_path / "asked").exists, process)
        children.interrupt(process)
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert json.loads(out)["policies"]["first"]["metrics"]["hit_rate"]["seeds"] == 4


def test_a_closed_pipe_ends_quietly() -> None:
    words = " ".join(children.eunomia("models")) + " | head -1"
    done = children.run(["bash", "-o", "pipefail", "-c", words])
    assert done.stdout and "Traceback" not in done.stderr and "Exception" not in done.stderr
