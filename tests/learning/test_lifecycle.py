"""From a training file to a served policy, through the command line."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import eunomia
from eunomia.cli.main import app, status
from eunomia.config.training import load_training
from eunomia.core.errors import ConfigError, RecordError, UnknownNameError
from eunomia.learning.load import load_policy
from eunomia.learning.objectives import value
from eunomia.study.learning.scenarios import Later, ScenarioSampler
from eunomia.study.learning.training import best_heuristic
from tests import children
from tests.patience import PATIENCE_S, until

SCENARIO = """
name = "tiny"
duration_s = 0.05
[platform]
accelerators = [{ type = "simba", count = 1 }, { type = "eyeriss", count = 1 }]
dram_bandwidth_gb_s = 8.0
[engine]
late = "drop"
[[tenant]]
name = "a"
arrivals = { process = "poisson", rate_per_s = 900.0 }
models = [{ model = "kws-res8", deadline_factor = 3.0 }, { model = "yolo-lite", deadline_factor = 3.0 }]
"""
TRAINING = """
name = "tiny-policy"
scenarios = ["tiny.toml"]
base = "edf+f+eft+g0.9"
validation = 3
[vary]
platform.dram_bandwidth_gb_s = [6.0, 12.0]
[[stage]]
generations = 3
population = 4
episodes = 2
validate_every = 1
[[stage]]
stage = "hidden"
units = 2
generations = 1
population = 4
episodes = 2
diagonal = true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("learned")
    (place / "tiny.toml").write_text(SCENARIO)
    (place / "train.toml").write_text(TRAINING)
    return place


@pytest.fixture(scope="module")
def card(folder: Path) -> Path:
    done = CliRunner().invoke(
        app, ["train", str(folder / "train.toml"), "--out", str(folder / "run"), "--workers", "1"]
    )
    assert done.exit_code == 0, done.output
    return folder / "run" / "tiny-policy.json"


def test_training_writes_a_policy_with_its_card(card: Path) -> None:
    facts = json.loads(card.read_text())
    assert facts["trained_on"] == ["kws-res8", "yolo-lite"] and facts["generations"] == [3, 1]
    assert facts["validation"]["kept_heuristic"] == (
        facts["validation"]["gain"] <= facts["validation"]["error"]
    )
    assert facts["contention"] == ["proportional"] and facts["bandwidth_bytes_s"] == [6e9, 12e9]
    assert load_policy(card).name == "tiny-policy"


def test_a_finished_training_is_found_again(card: Path, folder: Path) -> None:
    before = (folder / "run" / "stage-0" / "training.safetensors").read_bytes()
    again = CliRunner().invoke(
        app, ["train", str(folder / "train.toml"), "--out", str(folder / "run"), "--json"]
    )
    assert again.exit_code == 0 and json.loads(again.stdout)["policy"] == "tiny-policy"
    assert (folder / "run" / "stage-0" / "training.safetensors").read_bytes() == before


def test_training_from_python_goes_on_where_the_command_stopped(card: Path, folder: Path) -> None:
    before = (folder / "run" / "stage-0" / "training.safetensors").read_bytes()
    told: list[str] = []
    outcome = eunomia.train(folder / "train.toml", out=folder / "run", tell=lambda name, _: told.append(name))
    assert (folder / "run" / "stage-0" / "training.safetensors").read_bytes() == before and not told
    assert outcome.name in outcome.summary() and f"policy -> {card}" in outcome.summary()
    assert len(repr(outcome).splitlines()) <= 9
    rows = outcome.rows()
    assert [(row["stage"], row["iteration"]) for row in rows] == [(0, 1.0), (0, 2.0), (0, 3.0), (1, 1.0)]
    best = float(outcome.trained[0].values.mean())
    assert best >= max(row["validation"] for row in rows if row["stage"] == 0)
    assert len(outcome.to_pandas()) == len(rows)
    assert len(outcome.plot().lines) == 2


def test_settings_that_cannot_be_trained_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="give a training file"):
        eunomia.train()
    with pytest.raises(ConfigError, match="need a training file"):
        eunomia.train(load_training(folder / "train.toml"), ["seed=3"])


def test_evaluate_compares_on_common_traces(card: Path, folder: Path) -> None:
    command = [
        "evaluate",
        str(card),
        str(folder / "tiny.toml"),
        "-p",
        "edf",
        "-p",
        "edf+f+eft+g0.9",
        "--seeds",
        "2",
    ]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0 and "guards: decisions" in shown.stdout
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [line["policy"] for line in facts["lines"]] == ["tiny-policy", "edf", "edf+f+eft+g0.9"]
    ours, edf = facts["lines"][:2]
    assert edf["gain"] == pytest.approx(ours["hit_rate"] - edf["hit_rate"])
    assert facts["guards"]["decisions"] > 0 and facts["guards"]["invalid"] == 0


def test_a_card_is_a_policy_for_every_command(card: Path, folder: Path) -> None:
    run = CliRunner().invoke(
        app, ["run", str(folder / "tiny.toml"), "-p", str(card), "--out", str(folder / "r"), "--json"]
    )
    assert run.exit_code == 0 and json.loads(run.stdout)["policy"] == "tiny-policy"
    shown = CliRunner().invoke(app, ["policies", "show", str(card)])
    assert shown.exit_code == 0 and "features version 2" in shown.stdout
    exported = CliRunner().invoke(app, ["export", str(card), str(folder / "x.onnx")])
    assert exported.exit_code == 0 and (folder / "x.onnx").stat().st_size > 0


GRADIENT = """
name = "tiny-gradient"
scenarios = ["tiny.toml"]
requests = 8
validation = 2
[algorithm]
iterations = 2
episodes = 1
units = 8
"""


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ddpg", {"clone_steps": 3, "clone_episodes": 1, "updates": 2}),
        (
            "td3",
            {"clone_steps": 3, "clone_episodes": 1, "updates": 2, "period_layers": 0.5, "imitation": 0.0},
        ),
        ("ppo", {"epochs": 1}),
        ("sac", {"batch": 4}),
        ("bdq", {"batch": 4, "shared": False}),
    ],
)
def test_every_algorithm_trains_from_a_file_to_a_policy(
    name: str, more: dict[str, float], folder: Path
) -> None:
    pytest.importorskip("torch")
    lines = [f"{key} = {str(value).lower()}" for key, value in more.items()]
    (folder / f"{name}.toml").write_text(GRADIENT + "\n".join([f'name = "{name}"', *lines]))
    command = ["train", str(folder / f"{name}.toml"), "--out", str(folder / name)]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    card = json.loads((folder / name / "tiny-gradient.json").read_text())
    assert card["validation"]["gain"] == facts["gain"] and card["iterations"] == 2
    assert card["training"]["algorithm"]["name"] == name and card["trained_on"] == ["kws-res8", "yolo-lite"]
    policy = load_policy(folder / name / "tiny-gradient.json")
    made = ScenarioSampler(load_training(folder / f"{name}.toml")).validation()
    values = [value(policy, episode, {"hit_rate": 1.0}) for episode in made]
    assert np.mean(values) - facts["heuristic_value"] == pytest.approx(facts["gain"])
    path = str(folder / name / "tiny-gradient.json")
    judged = CliRunner().invoke(
        app, ["evaluate", path, str(folder / "tiny.toml"), "-p", "edf", "--seeds", "1"]
    )
    assert judged.exit_code == 0 and "guards: " in judged.stdout, judged.output
    exported = CliRunner().invoke(app, ["export", path, str(folder / "no.onnx")])
    assert isinstance(exported.exception, RecordError) and not (folder / "no.onnx").exists()
    again = CliRunner().invoke(app, [*command, "--json"])  # finished: found, not trained again
    assert json.loads(again.stdout)["cpu_s"] == facts["cpu_s"]


def test_an_algorithm_stands_in_place_of_stages(folder: Path) -> None:
    for change, complaint in (
        ("algorithm.name=dqn", "ddpg"),
        ("algorithm.updates=0", "updates"),
        ("algorithm.clip=1", "clip"),
        ("base=edf+f+eft+g0.9", None),
    ):
        (folder / "gradient.toml").write_text(GRADIENT + 'name = "ddpg"\n')
        if complaint is None:
            assert load_training(folder / "gradient.toml", (change,)).algorithm is not None
            continue
        with pytest.raises(ConfigError, match=complaint):
            load_training(folder / "gradient.toml", (change,))
    (folder / "both.toml").write_text(GRADIENT + 'name = "ddpg"\n[[stage]]\nstage = "linear"\n')
    with pytest.raises(ConfigError, match="in place of stages"):
        load_training(folder / "both.toml")


def test_wrong_names_and_files_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownNameError, match="learned policy 'nobody'"):
        load_policy("nobody")
    for arguments, complaint in (
        (["policies", "show"], "eunomia policies show POLICY"),
        (["evaluate", "missing.json", str(folder / "tiny.toml")], "cannot read missing.json"),
        (["train", str(folder / "train.toml"), "--set", "objective={hits=1.0}"], "unknown objective 'hits'"),
        (["train", str(folder / "train.toml"), "--set", "targets=[0.9, 0.5]"], "give the least first"),
        (["train", str(folder / "train.toml"), "--set", "base=edf+pref"], "not f, a placement"),
        (["train", str(folder / "train.toml"), "--set", "bass=1"], "unknown key 'bass'"),
    ):
        monkeypatch.setattr("sys.argv", ["eunomia", *arguments])
        assert status() != 0
        assert complaint in capsys.readouterr().err, arguments


def test_episodes_are_the_same_at_every_call_and_visit_all_settings(folder: Path) -> None:
    config = load_training(folder / "train.toml")
    one, other = ScenarioSampler(config), ScenarioSampler(config)
    for generation in (0, 5):
        pairs = zip(one.training(generation, 4), other.training(generation, 4), strict=True)
        assert all(a.problem.requests.equals(b.problem.requests) for a, b in pairs)
    bandwidths = {e.problem.bandwidth_bytes_s for e in one.training(0, 2)}
    assert bandwidths == {6e9, 12e9}
    assert one.validation() is one.validation()
    later, same = Later(one, 5).training(0, 4), one.training(5, 4)  # a later stage sees traces not yet seen
    assert all(a.problem.requests.equals(b.problem.requests) for a, b in zip(later, same, strict=True))
    assert Later(one, 5).validation() is one.validation()
    best = best_heuristic(one.validation(), {"hit_rate": 1.0}, tenants=False)
    assert best.values.shape == (3,)


def test_a_training_file_needs_scenarios(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('name = "x"\nscenarios = []\n')
    with pytest.raises(ConfigError, match="scenarios"):
        load_training(tmp_path / "t.toml")


def test_a_stage_of_expert_iteration_before_one_of_evolution(folder: Path) -> None:
    text = TRAINING.replace('"tiny-policy"', '"taught"').replace(
        "[[stage]]", '[[stage]]\ntrainer = "expert"\ngenerations = 1\nepisodes = 2\nshare = 0.5\n[[stage]]', 1
    )
    (folder / "taught.toml").write_text(text)
    done = CliRunner().invoke(
        app, ["train", str(folder / "taught.toml"), "--out", str(folder / "taught"), "--workers", "1"]
    )
    assert done.exit_code == 0, done.output
    facts = json.loads((folder / "taught" / "taught.json").read_text())
    assert facts["training"]["stage"][0]["trainer"] == "expert" and facts["generations"] == [1, 3, 1]
    (folder / "no.toml").write_text(
        text.replace('trainer = "expert"', 'trainer = "expert"\nstage = "pointer"')
    )
    with pytest.raises(ConfigError, match="pointer"):
        load_training(folder / "no.toml")


def interrupted(command: list[str], ready: Callable[[], bool]) -> tuple[int, str]:
    """Ctrl-C for a command, and for all its workers, as soon as it is ready: status and what it said."""
    with children.started(children.eunomia(*command), stderr=subprocess.PIPE) as process:
        until(ready, process)
        children.interrupt(process)
        said = process.communicate(timeout=PATIENCE_S)[1]
    return process.returncode, said


def test_ctrl_c_says_that_the_same_command_goes_on_and_it_does(folder: Path) -> None:
    where = folder / "stopped"
    state = where / "stage-0" / "training.safetensors"
    command = ["train", str(folder / "train.toml"), "--out", str(where), "--workers", "2", "--quiet"]
    long = ["--set", "stage.0.generations=100000"]
    for before in (0, 1):  # the second goes on from the first
        reached = generations(state)
        assert reached >= before
        code, said = interrupted([*command, *long], lambda reached=reached: generations(state) > reached)
        assert code == 130 and "Traceback" not in said and generations(state) > reached
        assert said.strip().splitlines()[-1] == (
            f"eunomia: stopped; what is finished is kept in {where}, run the same command again to go on"
        )


def test_ctrl_c_before_the_first_step_says_that_nothing_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eunomia.study.learning.train.start", stopped)
    words = ["eunomia", "train", str(folder / "train.toml"), "--out", str(folder / "soon")]
    monkeypatch.setattr(sys, "argv", words)
    assert status() == 130
    said = capsys.readouterr().err
    assert "nothing is kept, the same command begins anew" in " ".join(said.split())


def generations(state: Path) -> int:
    """Generations that a training has kept."""
    from safetensors import safe_open

    if not state.exists():
        return 0
    with safe_open(state, "numpy") as kept:
        return len(json.loads(kept.metadata()["notes"])["curve"])


@pytest.mark.parametrize("what", ["cut", "empty", "rubbish", "missing", "card cut", "card of nothing"])
def test_a_damaged_policy_is_one_sentence_when_it_is_shown(
    card: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, weights = tmp_path / card.name, tmp_path / card.with_suffix(".safetensors").name
    shutil.copy(card, copy)
    whole = card.with_suffix(".safetensors").read_bytes()
    content = {"cut": whole[: len(whole) // 2], "empty": b"", "rubbish": b"\xff" * 400}.get(what, whole)
    if what != "missing":
        weights.write_bytes(content)
    if what == "card cut":
        copy.write_bytes(card.read_bytes()[:200])
    if what == "card of nothing":
        copy.write_text("[]")
    for name in (copy, weights):
        monkeypatch.setattr("sys.argv", ["eunomia", "policies", "show", str(name)])
        assert status() == 1
        out, said = capsys.readouterr()
        assert out == "" and said.startswith("eunomia: ") and said.count("\n") == 1 and str(tmp_path) in said
