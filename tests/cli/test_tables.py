"""The table of a comparison: paired gains, and notes on what is no finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import ConfigError
from eunomia.learning.loop import Progress
from tests.cli.scenarios import small
from tests.cli.shell import Shell

BUSY = ["--set", "load=1.3"]


def test_the_gain_over_the_baseline_is_shown_with_its_paired_interval(shell: Shell) -> None:
    path = small(Path.cwd())
    call = ["compare", path, "-p", "edf", "-p", "sjf", "--seeds", "3", "-q", "--out", "out", *BUSY]
    found = json.loads(shell(*call, "--json").out)
    assert found["baseline"] == "edf"
    gain = found["policies"]["sjf"]["gain_over_baseline"]["hit_rate"]
    means = [found["policies"][name]["metrics"]["hit_rate"]["mean"] for name in ("sjf", "edf")]
    assert gain["seeds"] == 3 and gain["mean"] == pytest.approx(means[0] - means[1])
    shown = shell(*call).out.splitlines()
    assert "gain" in shown[1] and any("paired by seed (n = 3)" in line for line in shown)
    half = 50.0 * (gain["high"] - gain["low"])
    assert f"{100.0 * gain['mean']:+.1f} ±{half:.1f}" in next(
        line for line in shown if line.startswith("sjf")
    )


def test_policies_that_late_last_makes_equal_are_said_to_be(shell: Shell) -> None:
    call = ["compare", small(Path.cwd()), "-p", "edf", "-p", "edf+f", "-p", "edf+f+eft", "-q", *BUSY]
    said = [line for line in shell(*call).out.splitlines() if line.startswith("note: ")]
    assert len(said) == 1 and "edf and edf+f are the same" in said[0] and "engine.late=run" in said[0]
    told = shell(*call, "--set", "engine.late=run", "--out", "run").out
    assert "note: " not in told
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.startswith("edf")}
    assert rows["edf"] != rows["edf+f"]


def test_a_trace_that_all_seeds_replay_alike_is_named(shell: Shell) -> None:
    Path("door.csv").write_text("arrival_s,tenant\n" + "".join(f"{0.005 * n},a\n" for n in range(200)))
    arrivals = 'tenant.bulk.arrivals={trace="canonical", path="door.csv"%s}'
    call = ["compare", small(Path.cwd()), "-q", "--set"]
    assert "note: " not in shell(*call, arrivals % "", "--out", "one").out
    for number, change in enumerate((', window="start"', ", speedup=10.0")):
        out = shell(*call, arrivals % change, "--out", f"two{number}").out
        assert "note: every seed replays the same arrivals for bulk" in out


def test_an_output_that_cannot_be_made_comes_with_advice(shell: Shell) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("this system has no /proc")
    done = shell("compare", small(Path.cwd()), "--out", "/proc/x/y")
    assert done.code == 1 and "choose another directory" in done.err


def test_a_wrong_suffix_is_one_sentence_and_names_come_once(shell: Shell) -> None:
    err = shell("run", small(Path.cwd()), "-p", "edf+eftt").err
    assert err.startswith("eunomia: unknown suffix 'eftt' in policy 'edf+eftt'; did you mean 'eft'?")
    err = shell("run", small(Path.cwd()), "-p", "edff").err
    assert (
        "unknown policy 'edff'; did you mean 'edf', 'edf+f+eft' or 'heft'? `eunomia policies` lists them all"
        in err
    )


def test_progress_of_a_training_begins_at_once_and_is_never_wrapped(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(training: object, folder: object, twin: object, crew: object, tell: Any, *_: object) -> None:
        entry = {"iteration": 2, "mean": 0.9312, "best": 1.0, "sigma": 0.28, "validation": 1.0, "gain": 0.0}
        tell("a stage with a name that is much longer than any of ours", Progress(entry, 12, 3600.0))
        raise ConfigError("no further")

    monkeypatch.setattr("eunomia.study.learning.train.start", started)
    scenario = small(Path.cwd())
    Path("tr.toml").write_text(f'name = "mine"\nscenarios = ["{scenario}"]\n[[stage]]\nstage = "linear"\n')
    lines = shell("train", "tr.toml").err.splitlines()
    assert lines[0] == "note: training 'mine' in runs/train-mine; a line follows each iteration"
    assert lines[1].endswith(" left") and lines[-1] == "eunomia: no further"
