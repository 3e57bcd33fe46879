"""From a training file to a served policy, through the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app, status
from eunomia.config.training import load_training
from eunomia.errors import ConfigError, UnknownNameError
from eunomia.experiment.learning import ScenarioSampler, best_heuristic
from eunomia.inference.learning.serving import load_policy

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
    best = best_heuristic(one.validation(), {"hit_rate": 1.0}, tenants=False)
    assert best.values.shape == (3,)


def test_a_training_file_needs_scenarios(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('name = "x"\nscenarios = []\n')
    with pytest.raises(ConfigError, match="scenarios"):
        load_training(tmp_path / "t.toml")
