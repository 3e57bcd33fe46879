"""``eunomia shares`` and ``eunomia profile`` as a shell sees them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell

ENCODER = Path(__file__).parents[2] / "examples" / "models" / "encoder.onnx"


def test_the_verb(shell: Shell) -> None:
    """Two seconds of ours and of somebody else's; what was delivered is the machine's affair, the form is ours."""
    short = ("--seconds", 1, "--window", 0.5, "--alone", 0.3, "--within", 1)
    done = shell("shares", "verify", "a=0.3", "b=0.7", *short, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["mode"] == "token" and len(found["windows"]) == 4
    assert sum(row["delivered"] for row in found["windows"]) == pytest.approx(2.0)
    loop = f"a=1:{sys.executable} -c 'n = 0\nwhile 1: n += sum(range(9999)) > 0; print(\"step\", n)'"
    theirs = shell("shares", "verify", loop, "--theirs", *short, "--count", r"step (\d+)")
    assert theirs.code == 0 and "somebody else's sharing" in theirs.out, theirs.err
    wrong = shell("shares", "verify", "a=0.7", "b=0.7")
    assert wrong.code == 2 and "requests add up to 1.4" in wrong.err
    both = shell("shares", "verify", "a=0.7", "--theirs", "--system")
    assert both.code == 2 and "exclude each other" in both.err


def test_the_simulation(shell: Shell) -> None:
    done = shell("shares", "simulate", "--seeds", 1, "--json")
    assert done.code == 0 and "round robin" in json.loads(done.out)["methods"], done.err


def test_slices_are_measured(shell: Shell) -> None:
    done = shell("shares", "slices", ENCODER, "--runs", 2, "--repeats", 1, "--json")
    assert done.code == 0 and {"one by one", "ungated", "4 ms"} <= set(json.loads(done.out)["methods"]), (
        done.err
    )
    wrong = shell("shares", "slices", "none.onnx", "--weights", "1,x")
    assert wrong.code == 2 and "numbers with commas" in wrong.err


def test_co_runs_are_measured(shell: Shell, tmp_path: Path) -> None:
    words = ("--place", "same core", "--block", 0.02, "--budget", 0.01, "--out", tmp_path / "o")
    done = shell("profile", "corun", "compute", *words, "--json")
    assert done.code == 0, done.err
    (case,) = json.loads(done.out)["cases"]
    assert case["target"] == "compute" and case["pairs"] == 2
    again = shell("profile", "corun", "compute", *words)
    assert again.code == 0 and "co-runs measured on this machine: 1 cases" in again.out, again.err
    wrong = shell("profile", "corun", "compute", "--place", "there")
    assert wrong.code == 2 and "unknown place 'there'" in wrong.err


@pytest.mark.parametrize(("words", "says"), [
    (["a=0.3:nosuchprogram", "b=0.5"], "there is no command 'nosuchprogram'; give its path"),
    (["a=0.3", "b=0.5", "--within", "7"], "within is 7; a part of the device from 0 to 1"),
    (["a=0.3:sleep 100", "--start", "0.3"], r"within 0.3 s \(--start\): client 'a' printed no line"),
    (["a=0.3:sh -c 'while echo step 1; do sleep 0.01; done'", "--start", "2", "--count", r"stepp (\d+)"],
     r"--count 'stepp \(\\d\+\)' finds no number in its lines, the last of which is 'step 1'"),
    (["a=0.3:false"], "a client keeps running and prints a line per iteration"),
])  # fmt: skip
def test_a_client_that_cannot_be_counted_is_one_sentence(shell: Shell, words: list[str], says: str) -> None:
    done = shell("shares", "verify", *words, "--seconds", 2, "--window", 1, "--alone", 0.5)
    assert done.code != 0 and re.search(says, " ".join(done.err.split())), done.err
