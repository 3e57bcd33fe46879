"""``eunomia twin predict``: it says when it is far from what was recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from eunomia.cli import twin
from eunomia.cli.main import app
from eunomia.cli.twin import _ms, off_by
from eunomia.core.errors import ConfigError
from eunomia.study.serving.twin_predict import Prediction
from tests.serving.test_replay import waiting_clients

RESPONSE_S = 0.2  # of a network whose two blocks take so long, with nobody else there


def recording(folder: Path, response_s: float = RESPONSE_S, policy: str = "edf+f", count: int = 25) -> str:
    """Requests of one tenant, far apart; the server says how long they took."""
    outcome = "hit" if response_s < 0.5 else "late"
    content = {
        "format": 3, "policy": policy, "late": "last", "devices": ["a"], "networks": {"m": [[0.1], [0.1]]},
        "pairs": [{"tenant": "gold", "model": "m", "weight": 1.0, "priority": 1.0, "slo": None}],
        "turn_s": 0.0, "spread": 0.0,
        "requests": [[float(n), "gold", "m", 0.5, 1, outcome, response_s, 1, 0.0, 0.0] for n in range(count)],
    }  # fmt: skip
    path = folder / "twin.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_close_prediction_is_not_remarked_upon(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["twin", "predict", recording(tmp_path)])
    assert done.exit_code == 0 and "100.0% 200 ms" in done.stdout and "note" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--json"], ["-p", "fcfs"]])
def test_a_far_prediction_is_called_off_in_one_sentence_with_figures(tmp_path: Path, more: list[str]) -> None:
    done = CliRunner().invoke(app, ["twin", "predict", recording(tmp_path, 0.6), *more])
    assert done.exit_code == 0 and done.stderr.count("\n") == 1
    assert "off for 1 of 1 pairs under edf+f, which served them" in done.stderr
    assert (
        "gold, m (25 requests): hits 0.0% recorded, 100.0% predicted; p95 600 ms recorded, 200 ms predicted"
        in done.stderr
    )


def test_a_policy_that_only_the_server_has_is_not_compared(tmp_path: Path) -> None:
    path = recording(tmp_path, 0.6, policy="no-such-card.json")
    done = CliRunner().invoke(app, ["twin", "predict", path, "-p", "fcfs"])
    assert done.exit_code == 0 and done.stderr == ""


@pytest.mark.parametrize("hits, p95_s, far", [
    ((0.9, 0.8), (1.0, 1.0), False), ((0.915, 0.8), (1.09, 1.0), False), ((0.93, 0.8), (1.0, 1.0), True),
    ((0.9, 0.8), (1.0, 1.11), True), ((0.9, 0.8), (0.89, 1.0), True), ((0.9, np.nan), (1.0, np.nan), False),
])  # fmt: skip
def test_two_points_and_a_tenth_are_far(
    hits: tuple[float, float], p95_s: tuple[float, float], far: bool
) -> None:
    server = Prediction("measured", np.array([0.9, 0.8]), np.array([1.0, 1.0]), 0.85)
    told = Prediction("edf", np.array(hits), np.array(p95_s), 0.85)
    assert bool(off_by(server, told, ["a, m", "b, m"], [20, 20])) == far
    assert not off_by(server, told, ["a, m", "b, m"], [19, 19])


def test_pairs_with_few_requests_are_not_looked_at() -> None:
    server = Prediction("measured", np.array([0.9, 0.8]), np.array([1.0, 1.0]), 0.85)
    told = Prediction("edf", np.array([0.8, 0.0]), np.array([1.0, 1.0]), 0.85)
    says = off_by(server, told, ["a, m", "b, m"], [20, 19])
    assert (
        "off for 1 of 1 pairs with 20 requests or more" in says and "a, m (20 requests): hits 90.0%" in says
    )


def test_a_few_requests_call_nothing_off(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["twin", "predict", recording(tmp_path, 0.6, count=19)])
    assert done.exit_code == 0 and done.stderr == ""


@pytest.mark.parametrize("time_s, says", [
    (1.03, "1030 ms"), (0.2, "200 ms"), (0.01234, "12.3 ms"), (0.00012345, "0.123 ms"), (12.3456, "12346 ms"),
    (0.09996, "100 ms"), (float("nan"), "-"),
])  # fmt: skip
def test_times_have_no_exponents(time_s: float, says: str) -> None:
    assert _ms(time_s) == says


def test_the_last_seconds_alone_and_clients_that_wait_are_said(tmp_path: Path) -> None:
    path = tmp_path / "seventh.json"
    path.write_text(json.dumps(waiting_clients(0.5)))
    whole = CliRunner().invoke(app, ["twin", "predict", str(path)])
    assert whole.exit_code == 0 and "before they send again, here as well: of-m, m" in whole.stderr
    assert "over 40 recorded requests" in whole.stdout
    part = CliRunner().invoke(app, ["twin", "predict", str(path), "--last", "12"])
    assert part.exit_code == 0 and "the last 24 of 40 requests are replayed" in part.stderr
    for wrong in ("nan", "-1"):
        done = CliRunner().invoke(app, ["twin", "predict", str(path), "--last", wrong])
        assert done.exit_code != 0 and "Traceback" not in done.output


def test_a_policy_that_fails_is_not_taken_for_its_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunomia.study.serving.apart.is_own", lambda policy: False)  # a process takes seconds
    (tmp_path / "pol.py").write_text("def boom(view):\n    raise ValueError('no')\n")
    path = tmp_path / "seventh.json"
    path.write_text(json.dumps(waiting_clients(0.5)))
    done = CliRunner().invoke(app, ["twin", "predict", str(path), "-p", f"{tmp_path}/pol.py:boom"])
    assert done.exit_code == 0 and "boom: the fallback decided" in done.stderr


def test_requests_of_unknown_networks_are_counted(tmp_path: Path) -> None:
    path = Path(recording(tmp_path))
    content = json.loads(path.read_text())
    content["requests"] += [[1.0, "gold", "gone", 0.5, 1, "hit", 0.1, 1, 0.0, 0.0]] * 3
    path.write_text(json.dumps(content))
    done = CliRunner().invoke(app, ["twin", "predict", str(path)])
    assert done.exit_code == 0 and done.stderr.count("\n") == 1
    assert "requests left out" in done.stderr and "'gone' (3)" in done.stderr
    assert "over 25 recorded requests" in done.stdout


def test_a_policy_that_never_answers_ends_with_a_sentence_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, the command hung without a word, and Ctrl-C did nothing: compiled code keeps the lock, as here."""
    text = (
        "import ctypes, sys\n\ndef endless(view):\n    ctypes.PyDLL(None).sleep(40)\n    sys.exit('woke')\n"
    )
    (tmp_path / "pol.py").write_text(text)
    monkeypatch.setattr("eunomia.study.serving.apart.MOST_S", 0.3)
    own = f"{tmp_path}/pol.py:endless"
    done = CliRunner().invoke(app, ["twin", "predict", recording(tmp_path), "-p", own, "-p", "edf+f"])
    assert [line.split()[0] for line in done.stdout.splitlines()][:3] == ["policy", "measured", "edf+f"]
    assert isinstance(done.exception, ConfigError) and str(done.exception) == (
        f"policy '{own}' has not answered within 0.3 s, after 0 answers in the replay; it must return a list of "
        "starts, which may be empty"
    )


def test_pairs_stand_in_order_of_names_and_those_without_a_deadline_are_named(tmp_path: Path) -> None:
    """As it was, columns came in order of the first requests, and 100 % without a word where nothing can be late."""
    path = Path(recording(tmp_path))
    content = json.loads(path.read_text())
    content["pairs"] += [content["pairs"][0] | {"tenant": tenant} for tenant in ("zinc", "bronze")]
    content["requests"] += [[30.0 + n, "bronze", "m", None, 1, "hit", 0.2, 1, 0.0, 0.0] for n in range(3)]
    content["requests"] += [[40.0, "gold", "m", None, 1, "hit", 0.2, 1, 0.0, 0.0]]
    path.write_text(json.dumps(content))
    done = CliRunner().invoke(app, ["twin", "predict", str(path)])
    heads, did = (" ".join(line.split()) for line in done.stdout.splitlines()[:2])
    assert heads == "policy all bronze, m gold, m zinc, m"
    assert did == "measured 100.0% 100.0% 200 ms 100.0% 200 ms -"
    said = "note: requests without a deadline, of which any answer is a hit, also in 'all': bronze, m\n"
    assert done.stderr == said
    told = json.loads(CliRunner().invoke(app, ["twin", "predict", str(path), "--json"]).stdout)
    assert list(told[0]["pairs"]) == ["bronze, m", "gold, m", "zinc, m"]


def test_many_pairs_are_rows_and_many_policies_several_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was, headings of one line were cut to ``fair...``, figures to ``100...``."""
    monkeypatch.setattr(twin, "stdout", lambda: Console(width=80, highlight=False, file=sys.stdout))
    names = [f"tenant-{n:02}, network" for n in range(23)]
    policies = ["recorded", "fair_edf", "edf+f", "triage", "gap_first"]
    rows = [Prediction(name, np.full(23, 1.0), np.full(23, 1.03), 0.5) for name in policies]
    twin._print_table(rows, names, 100)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["tenant,", "network", *policies[:3]]
    assert lines[1].split() == ["all", *["50.0%"] * 3]
    assert lines[2] == "tenant-00, network" + "  100.0% 1030 ms" * 3 and lines[25] == ""
    assert lines[26].split() == ["tenant,", "network", "recorded", "triage", "gap_first"]
    assert max(map(len, lines[:-1])) <= 80 and len(lines) == 2 * 25 + 2
    assert twin._parts([90, 20, 30, 30], 80) == [[0, 1, 2], [0, 1, 3]]  # too wide all the same
