"""Policies judged in the twin and put into a running server: nothing is lost, anything can be taken back."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.cli.main import status
from eunomia.contract.guard import Guarded
from eunomia.core.errors import ConfigError, OutputError
from eunomia.inference.policies import load_policy
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.checkpoint import Checkpoint, save
from eunomia.serving.dispatch.shelf import DEPTH, Placed, PolicyShelf, stamped
from eunomia.study.serving.promotion import Replayed, _decide, interval, judge, write_served
from eunomia.study.serving.twin import twin_of
from tests.patience import until
from tests.serving.live import ADMIN, GOLD
from tests.serving.process import Process, process, write_server

POLICY = "/v2/eunomia/policy"


@pytest.fixture
def eunomia(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, with the administrator's key in the environment: exit status, output, errors."""
    monkeypatch.setenv("ADMIN_KEY", ADMIN)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["eunomia", *map(str, words)])
        code = status()
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def card(folder: Path, name: str = "mine") -> Path:
    return save(Checkpoint(name, base_weights("edf+f+eft")), folder / name)


def traffic(policy: str = "fcfs", count: int = 400, load: float = 1.2) -> dict[str, Any]:
    """A recording of two tenants on one device; one is in a hurry, the other sends long requests."""
    rng = np.random.default_rng(0)
    cost_s = {"short": 0.005, "long": 0.02}
    at_s = np.cumsum(rng.exponential(0.0125 / load, count))
    model = rng.choice(["short", "long"], count)
    rows = [[float(t), f"t-{m}", m, 0.03 if m == "short" else 0.4, 1, "late", 1.0, 0.5, 0.0, 0.0]
            for t, m in zip(at_s, model, strict=True)]  # fmt: skip
    slo = {"target": 0.6, "kind": "hit_rate", "percentile": 95.0, "window_s": 10.0, "window_requests": 100}
    return {
        "format": 3, "policy": policy, "lease_s": 0.05, "late": "last", "max_batch": 1, "devices": ["a"],
        "networks": {name: [[s / 2], [s / 2]] for name, s in cost_s.items()},
        "pairs": [{"tenant": f"t-{m}", "model": m, "weight": 1.0, "priority": 1.0, "slo": slo} for m in cost_s],
        "turn_s": 0.0, "spread": 0.0, "requests": rows,
    }  # fmt: skip


# --- the gate ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("new, old, passed, says", [
    ((0.9, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), True, "SLO attainment is equal"),
    ((0.9, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), True, "its hit rate is 10.00% higher"),
    ((0.8, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), False, "cannot tell it from 'old'"),
    ((0.80001, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), True, "its hit rate is 0.001% higher"),
    ((0.79999, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), False, "loses 0.001%"),
    ((0.79, [-0.1, 0.1]), (0.8, [-0.1, 0.1]), False, "loses 1.00%"),
    ((0.9, [0.1, -0.1]), (0.8, [-0.1, 0.1]), False, "misses 1 of the SLOs"),
    ((0.77, [-0.1, -0.1]), (0.8, [-0.1, 0.1]), True, "SLO attainment is 100%"),
    ((0.7, [-0.1, -0.1]), (0.8, [-0.1, 0.1]), False, "loses 10.0%"),
    ((0.9, []), (0.8, []), True, "is equal"),
])  # fmt: skip
def test_the_gate(new: Any, old: Any, passed: bool, says: str) -> None:
    verdict, equal, why = _decide(
        Replayed("new", new[0], np.array(new[1])), Replayed("old", old[0], np.array(old[1])), 0.05
    )
    assert verdict == passed and says in why and equal == ("cannot tell" in why)


@pytest.mark.parametrize(
    "apart, equal", [([], True), ([7], True), ([7, 8, 9], True), (range(0, 400, 10), False)]
)
def test_a_gain_within_its_interval_is_no_gain(apart: Any, equal: bool) -> None:
    old, new = np.arange(400) % 4 > 0, np.arange(400) % 4 > 0
    old[list(apart)], new[list(apart)] = False, True
    facts = [
        Replayed(name, float(hit.mean()), np.zeros(1), hit) for name, hit in (("new", new), ("old", old))
    ]
    for allowed in (False, True):
        passed, same, why = _decide(facts[0], facts[1], 0.05, even_if_equal=allowed)
        assert same == equal and passed == (allowed or not equal)
        assert (
            not equal
            or ("fares differently" if not len(apart) else f"{len(apart)} of 400 requests fare") in why
        )


def test_the_interval_of_a_hand_worked_difference() -> None:
    hit = np.zeros(400, np.bool_)
    old, new = Replayed("old", 0.0, np.zeros(0), hit), Replayed("new", 0.0, np.zeros(0), hit.copy())
    new.hit[:20] = True  # one part of twenty is 1, the others 0: s = sqrt(1/20), over sqrt(20)
    assert interval(new, old) == pytest.approx(2.093 / 20)


def test_calm_traffic_does_not_speak_for_a_policy() -> None:
    calm = twin_of(traffic(load=0.02))
    verdict = judge(calm, "random", "fcfs")
    assert not verdict.passed and verdict.equal and "cannot tell it from 'fcfs'" in verdict.why
    assert judge(calm, "random", "fcfs", even_if_equal=True).passed
    busy = judge(twin_of(traffic()), "random", "edf+f", even_if_equal=True)
    assert not busy.passed and not busy.equal


def test_a_better_policy_passes_on_recorded_traffic_and_a_worse_one_does_not() -> None:
    twin = twin_of(traffic())
    assert judge(twin, "edf+f", "fcfs").passed
    back = judge(twin, "fcfs", "edf+f")
    assert not back.passed and back.serving.hit_rate > back.candidate.hit_rate + 0.1


# --- a server in its own process ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("promotion")


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[Process]:
    with process(write_server(folder, policy_dir=str(folder / "policies"))) as server:
        yield server


def test_a_card_takes_over_under_load_and_is_taken_back(
    live: Process, folder: Path, eunomia: Any, tmp_path: Path
) -> None:
    recording, mine = tmp_path / "twin.json", card(tmp_path)
    recording.write_text(json.dumps(traffic()))
    verdict = judge(twin_of(traffic()), str(mine), "fcfs")  # compiled before the load, which takes the cores
    assert verdict.passed
    with live.under_load() as seen:
        until(lambda: len(seen) >= 20)
        code, out, err = eunomia(
            "promote", live.url, mine, "--key-env", "ADMIN_KEY", "--recording", recording
        )
        back = f"eunomia promote {live.url} --rollback --key-env ADMIN_KEY"
        assert code == 0 and f"'mine' serves now; back with: {back}\n" in out, err
        before = len(seen)
        until(lambda: len(seen) >= before + 20)
        now = live.ask(POLICY)[1]
        assert now["policy"] == "mine" and now["now"]["by"] == "root" and now["now"]["evidence"]["passed"]
        assert set(now["files"]) == {"mine.json", "mine.safetensors"}
        code, out, _ = eunomia("promote", live.url, "--rollback", "--key-env", "ADMIN_KEY")
        assert code == 0 and "'fcfs' serves again in place of 'mine'" in out
    assert set(seen) == {200} and live.ask(POLICY)[1]["fallbacks"] == {}
    code, _, err = eunomia("promote", live.url, "--rollback", "--key-env", "ADMIN_KEY")
    assert code == 2 and "nothing to go back to" in err


def test_what_was_rehearsed_on_the_recording_serves(live: Process, eunomia: Any, tmp_path: Path) -> None:
    recording, short = tmp_path / "twin.json", tmp_path / "short.json"
    recording.write_text(json.dumps(traffic(count=900)))
    short.write_text(json.dumps(traffic(count=399)))
    wish, admin = "eunomia(promise=attainment,rehearse=300000)", ("--key-env", "ADMIN_KEY")
    code, out, err = eunomia("promote", live.url, wish, *admin, "--recording", recording)
    assert code == 0 and "note: rehearsed on the first half of the recording: '" in err, err
    chosen = err.split("recording: '")[1].split("' (")[0]
    assert live.ask(POLICY)[1]["policy"] == chosen and "rehearse=300000" not in chosen
    assert eunomia("promote", live.url, "--rollback", *admin)[0] == 0
    code, _, err = eunomia("promote", live.url, wish, *admin, "--recording", short)
    assert code == 1 and "the recording holds 399 requests; 400 are needed to rehearse" in err


def test_only_a_policy_that_does_not_pass_is_status_1(
    live: Process, eunomia: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLD_KEY", GOLD)
    recording, calm, damaged = tmp_path / "twin.json", tmp_path / "calm.json", card(tmp_path, "damaged")
    recording.write_text(json.dumps(traffic()))
    calm.write_text(json.dumps(traffic(load=0.02)))
    damaged.write_text("{}")
    admin, on = ("--key-env", "ADMIN_KEY"), ("--recording", recording)
    for words, expected, says in (
        (("random", *admin, *on, "--against", "edf+f"), 1, "'random' does not pass"),
        (("random", *admin, "--recording", calm, "--against", "fcfs"), 1, "put it in all the same: --even-if-equal"),
        (("random", *admin, "--recording", calm, "--against", "fcfs", "--even-if-equal", "--check"), 0, ""),
        (("edf", *on), 2, "`eunomia serve key` prints"), (("edf", *on, "--key-env", "GOLD_KEY"), 2, "administrator"),
        ((damaged, *admin, *on), 2, "not a checkpoint of"), (("none.json", *admin, *on), 2, "cannot read none.json"),
        (("no_such_rule", *admin, *on), 2, "no_such_rule"),
        (("edf", *admin, "--recording", damaged), 2, "no recording"),
    ):  # fmt: skip
        code, _, err = eunomia("promote", live.url, *words)
        assert code == expected and says in err, (words, err)
    assert live.ask(POLICY)[1]["policy"] == "fcfs"


def answering(**names: list[str]) -> Any:
    """In place of ``ask``: a server that serves fcfs, with the names of ``traffic`` but for ``names``."""
    known = {"devices": ["a"], "networks": ["short", "long"], "tenants": ["t-short", "t-long"]} | names
    devices, networks, tenants = ([{"name": name} for name in known[kind]] for kind in known)
    told = {"state": {"devices": devices}, "index": networks, "tenants": tenants}

    def ask(url: str, path: str, *more: Any, **_: Any) -> Any:
        noted = {"note": "compiled here"} if "PUT" in more else {}
        serves = {"policy": "fcfs", "now": {"source": "fcfs", "sha256": ""}, **noted}
        return told.get(path.rpartition("/")[2], serves)

    return ask


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, **names: list[str]) -> Path:
    """A recording of ``traffic``, and such a server to promote to."""
    monkeypatch.setattr("eunomia.cli.promote.ask", answering(**names))
    path = folder / "twin.json"
    path.write_text(json.dumps(traffic()))
    return path


def test_what_the_server_notes_is_printed(
    eunomia: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, only a program that spoke HTTP saw it."""
    recording = recorded(tmp_path, monkeypatch)
    words = ("promote", "http://127.0.0.1:1", "edf+f", "--recording", recording)
    code, out, err = eunomia(*words)
    assert code == 0 and err.endswith("note: compiled here\n") and "'edf+f' serves now" in out
    assert json.loads(eunomia(*words, "--json")[1])["note"] == "compiled here"
    assert "compiled here" not in eunomia(*words, "--check")[2]


@pytest.mark.parametrize("names, says", [
    ({"devices": ["a", "gpu"]}, "no device 'gpu'"), ({"networks": ["short"]}, "network 'long'"),
    ({"devices": ["b"], "networks": [], "tenants": ["t-long"]},
     "device 'a'; network 'long', 'short'; tenant 't-short'; no device 'b'"),
    ({"tenants": ["t-short", "t-long", "quiet"], "networks": ["new", "short", "long"]}, ""),
])  # fmt: skip
def test_a_recording_of_another_server_is_named(
    names: Any, says: str, eunomia: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, it was judged without a word. What this server alone has may have been idle."""
    recording = recorded(tmp_path, monkeypatch, **names)
    code, _, err = eunomia(
        "promote", "http://127.0.0.1:1", "edf+f", "--recording", recording, "--check", "--even-if-equal"
    )
    said = f"note: the recording is of another server than this one: it has {says}; the verdict is for that server's"
    assert code == 0 and (err.startswith(said) if says else "another server" not in err)


def test_why_a_policy_does_not_pass_is_said_once(
    eunomia: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, twice: under the table, and as the error."""
    recording = recorded(tmp_path, monkeypatch)
    words = ("promote", "http://127.0.0.1:1", "fcfs", "--recording", recording, "--against", "edf+f")
    code, out, err = eunomia(*words)
    assert code == 1 and "it misses 1 of the SLOs" in err and "misses" not in out
    assert out.endswith("over 400 recorded requests\n")


def test_a_function_is_refused_before_it_is_imported(eunomia: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(view): return []\n")
    for policy in (f"{path}:f", path):
        code, _, err = eunomia("promote", "http://127.0.0.1:1", policy)
        assert code == 2 and "a function cannot be promoted: only registered names, checkpoints" in err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("source", ["mine.py:f", "mine.py", "cards/mine.json", "mine"])
def test_a_server_names_no_code_to_run_here(source: str, tmp_path: Path) -> None:
    answer = {"policy": "f", "now": {"source": source, "sha256": ""}, "files": {}}
    with pytest.raises(ConfigError, match="--against NAME"):
        write_served(answer, tmp_path)


def test_the_servers_own_traffic_judges(live: Process, folder: Path, eunomia: Any, tmp_path: Path) -> None:
    with live.under_load() as seen:
        until(lambda: len(seen) >= 230)
    code, out, err = eunomia(
        "promote", live.url, "edf+f", "--key-env", "ADMIN_KEY", "--json", "--even-if-equal"
    )
    assert code == 0, err
    facts = json.loads(out)
    assert facts["promoted"] and facts["requests"] >= 200 and facts["serving"]["policy"] == "fcfs"
    assert live.ask(POLICY)[1]["policy"] == "edf+f"
    recording = tmp_path / "twin.json"
    recording.write_text(json.dumps(traffic()))
    words = ("promote", live.url, "fcfs", "--key-env", "ADMIN_KEY", "--recording", recording)
    code, out, err = eunomia(*words)
    assert code == 1 and "'fcfs' does not pass" in err and live.ask(POLICY)[1]["policy"] == "edf+f"
    asked = ("promote", live.url, "edf", "--key-env", "ADMIN_KEY", "--recording", recording, "--check")
    assert [eunomia(*asked)[0], eunomia(*asked, "--even-if-equal")[0]] == [1, 0]
    assert live.ask(POLICY)[1]["policy"] == "edf+f"


def test_wrong_policies_are_refused_in_words(live: Process, tmp_path: Path) -> None:
    content = base64.b64encode(card(tmp_path, "other").read_bytes()).decode()
    for body, says in (
        ({}, "name must be"), ({"name": "no_such_rule"}, "no_such_rule"), ({"name": "edf", "more": 1}, "unknown key"),
        ({"name": "evil.py:f"}, "evil"), ({"name": "edf", "instead_of": "sjf"}, "judge against that one"),
        ({"name": "x.json", "files": {"x.json": "e30="}}, "not a checkpoint of"),
        ({"name": "../x.json", "files": {"../x.json": "e30="}}, "a policy has .json"),
        ({"name": "x.json", "files": {"x.json": "%"}}, "base64"),
        ({"name": "y.json", "files": {"x.json": "e30="}}, "not among"),
        ({"name": "other.json", "files": {"other.json": content}}, "cannot read"),
    ):  # fmt: skip
        code, answer = live.ask(POLICY, body, method="PUT")
        assert code in (400, 409) and says in answer["error"] and str(tmp_path.parent) not in answer["error"]
    assert live.ask(POLICY, {"name": "edf"}, GOLD, "PUT")[0] == 403
    assert live.ask(POLICY, {"name": "edf"}, None, "PUT")[0] == 401
    assert live.ask(f"{POLICY}/rollback", {}, GOLD, "POST")[0] == 403


def test_who_put_a_policy_in_stands_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fcfs = load_policy("fcfs")
    shelf = PolicyShelf(Guarded(fcfs, fcfs), Placed("fcfs", "fcfs"), tmp_path, remember=False)
    placed, policy = shelf.prepare("edf", {})
    shelf.place(stamped(placed, "root", {}), policy)
    shelf.take_back()
    assert [record.message for record in caplog.records] == [
        "policy 'edf' serves (put in by 'root')", "policy 'fcfs' serves (that of the server's file)",
    ]  # fmt: skip


def test_a_restarted_server_goes_on_with_what_was_put_in(tmp_path: Path) -> None:
    def fresh() -> PolicyShelf:
        fcfs = load_policy("fcfs")
        shelf = PolicyShelf(Guarded(fcfs, fcfs), Placed("fcfs", "fcfs"), tmp_path / "shelf", remember=True)
        shelf.resume()
        return shelf

    path, shelf = card(tmp_path), fresh()
    files = {p.name: p.read_bytes() for p in (path, path.with_suffix(".safetensors"))}
    for name, given in (("mine.json", files), ("edf+f", {})):
        placed, policy = shelf.prepare(name, given)
        shelf.place(stamped(placed, "root", {"passed": True}), policy)
    again = fresh()
    assert again.now.label == "edf+f" and [p.label for p in again.earlier] == ["mine", "fcfs"]
    assert again.take_back().label == "edf+f"
    third = fresh()
    assert third.now.label == "mine" and third.now.evidence == {"passed": True} and third.files() == files
    assert third._guard.policy.name == "mine"
    served = tmp_path / "shelf" / "served.json"
    kept = served.read_text()
    served.write_text("{")
    assert fresh().now.label == "fcfs"
    served.write_text(kept)
    assert fresh().now.label == "mine"
    next((tmp_path / "shelf").glob("*/mine.safetensors")).write_bytes(b"rubbish")
    assert fresh().now.label == "fcfs"  # what cannot be read does not serve


def test_what_cannot_be_written_down_does_not_serve(tmp_path: Path) -> None:
    fcfs, told = load_policy("fcfs"), list[str]()
    shelf = PolicyShelf(Guarded(fcfs, fcfs), Placed("fcfs", "fcfs"), tmp_path / "shelf", remember=True)
    shelf.on_change = told.append
    shelf.resume()
    placed, edf = shelf.prepare("edf", {})
    shelf.place(placed, edf)
    (tmp_path / "shelf").rename(tmp_path / "away")
    (tmp_path / "shelf").touch()
    with pytest.raises(OutputError, match=r"cannot write .*served.json"):
        shelf.place(*shelf.prepare("sjf", {}))
    with pytest.raises(OutputError, match=r"cannot write .*served.json"):
        shelf.take_back()
    assert shelf.now == placed and shelf._guard.policy is edf and told == ["edf"]
    assert [p.label for p in shelf.earlier] == ["fcfs"]
    with pytest.raises(
        OutputError, match=r"policy_dir cannot be used: cannot write .*a part of the path is a file"
    ):
        shelf.resume()
    (tmp_path / "shelf").unlink()
    assert shelf.take_back() == placed and shelf._guard.policy is fcfs


def test_the_shelf_keeps_the_lowest_and_the_latest(tmp_path: Path) -> None:
    fcfs = load_policy("fcfs")
    shelf = PolicyShelf(Guarded(fcfs, fcfs), Placed("lowest", "fcfs"), tmp_path, remember=False)
    for n in range(DEPTH + 5):
        shelf.place(Placed(f"p{n}", "fcfs"), fcfs)
    labels = [shelf.now.label, *(p.label for p in shelf.earlier)]
    assert labels == [*(f"p{n}" for n in range(DEPTH + 4, 5, -1)), "lowest"] and len(labels) == DEPTH


def test_a_server_says_why_it_did_not_change_its_policy(live: Process, folder: Path, tmp_path: Path) -> None:
    path = card(tmp_path)
    files = {
        p.name: base64.b64encode(p.read_bytes()).decode() for p in (path, path.with_suffix(".safetensors"))
    }
    assert live.ask(POLICY, {"name": "mine.json", "files": files}, method="PUT")[0] == 200
    place = folder / "policies"
    place.rename(folder / "away")
    place.touch()
    try:
        for where, body, method in ((POLICY, {"name": "sjf"}, "PUT"), (f"{POLICY}/rollback", {}, "POST")):
            code, answer = live.ask(where, body, method=method)
            assert code == 503 and "'mine' goes on serving: cannot write" in answer["error"]
        code, answer = live.ask(POLICY)
        assert code == 503 and "the files of 'mine' cannot be read" in answer["error"]
    finally:
        place.unlink()
        (folder / "away").rename(place)
    now = live.ask(POLICY)[1]
    assert now["policy"] == "mine" and now["now"]["label"] == "mine"
    assert live.ask(f"{POLICY}/rollback", {}, method="POST")[0] == 200


def test_a_server_process_remembers(live: Process, folder: Path, eunomia: Any, tmp_path: Path) -> None:
    assert live.ask(POLICY, {"name": "sjf+f"}, method="PUT")[0] == 200
    live.process.kill()
    live.process.wait()
    with process(folder / "server.toml") as server:
        assert server.ask(POLICY)[1]["policy"] == "sjf+f" and server.infer() == 200


# --- training on the twin ----------------------------------------------------------------------------


def test_a_training_on_a_recording(tmp_path: Path, eunomia: Any) -> None:
    recording = tmp_path / "twin.json"
    recording.write_text(json.dumps(traffic()))
    words = (
        "--set",
        "stage=[{generations=2,population=4,episodes=2}]",
        "--set",
        "validation=4",
        "--set",
        "requests=100",
    )
    code, out, err = eunomia(
        "train", "--twin", recording, "--out", tmp_path / "t", "--workers", 1, *words, "--json", "-q"
    )
    assert code == 0, err
    facts = json.loads(out)
    assert Path(facts["path"]).name == "twin.json"
    verdict = judge(twin_of(traffic()), str(facts["path"]), "fcfs")
    assert verdict.passed and verdict.candidate.name == "twin"


@pytest.mark.parametrize("words, says", [
    (("train",), "or --twin FILE"),
    (("train", "--twin", "nowhere.json"), "cannot read nowhere.json"),
    (("train", "--twin", "short.json"), "training needs 60"),
    (("train", "--twin", "twin.json", "--set", "vary={tenant=[1]}"), "varies load alone"),
    (("train", "scenario.toml", "--twin", "twin.json"), "episodes come from the recording alone"),
])  # fmt: skip
def test_slips_in_a_training_on_a_recording(
    words: tuple[str, ...], says: str, tmp_path: Path, eunomia: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twin.json").write_text(json.dumps(traffic()))
    Path("short.json").write_text(json.dumps(traffic(count=30)))
    Path("scenario.toml").write_text('name = "x"\nscenarios = ["y.toml"]\n')
    code, _, err = eunomia(*words)
    assert code != 0 and says in err
