"""From a card to a file of rules and back into a run: figures per seed, the commands, what cannot be."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import eunomia
from eunomia.cli.distill import DistillOptions, fit_of
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.distill.file import load_rules
from eunomia.learning.distill.fitting.fit import FitOptions
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.evolve import short
from eunomia.learning.evolve.short import ShortOptions
from eunomia.study.inference.policy import policy_name, resolve_policy
from eunomia.study.learning import distilling
from tests.cli.shell import Shell

SCENARIO = """
name = "small"
duration_s = 0.02
load = 1.2

[platform]
accelerators = [{ type = "simba", count = 1 }, { type = "eyeriss", count = 1 }]
dram_bandwidth_gb_s = 12.0

[engine]
late = "drop"

[[tenant]]
name = "a"
arrivals = { process = "poisson", rate_per_s = 100.0 }
models = [{ model = "kws-res8", deadline_factor = 3.0 }, { model = "squeezenet", deadline_factor = 3.0 }]
slo = { hit_rate = 0.8 }
"""
TRAINING = 'name = "t"\nscenarios = ["small.toml"]\nrequests = 30\nvalidation = 2\n'


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(distilling, "TESTS", 2)
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "t.toml").write_text(TRAINING)
    return tmp_path / "t.toml"


def test_from_a_card_to_rules(training: Path, tmp_path: Path) -> None:
    options = FitOptions(leaves=8, rounds=2, episodes=1, share=0.3, priorities=((1.0, 0.3, 1.0),))
    done = distilling.distil_policy("eunomia", training, tmp_path / "out.toml", options)
    read = load_rules(done.path)
    assert read.leaves <= 8 and not read.edited and read.made["teacher"] == "eunomia"
    assert set(read.made["fidelity"]) == {"order_top1", "order_tau", "place_top1", "start"}
    for name in ("heuristic", "teacher", "rules", "rules_attainment"):
        assert np.allclose(read.made["per_seed"][name], done.values[name], atol=1e-5)
    assert len(done.values["rules"]) == 2
    assert policy_name(str(done.path)) == "out"
    assert isinstance(resolve_policy(str(done.path)), RulePolicy)


def test_the_commands(
    training: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Shell(monkeypatch, capsys)
    out = tmp_path / "r.toml"
    shown = run(
        "distill", "eunomia", "--leaves", "6", "--out", out, "--on", training, "--rounds", "1", "--json"
    )
    assert json.loads(shown.out)["leaves"] <= 6
    text = run("rules", out).out
    assert "score of a waiting sub-job =" in text and " x " in text and "where" in text
    out.write_text(re.sub(r"(?m)^gate = .*$", "gate = 0.8", out.read_text()))
    assert json.loads(run("rules", out, "--json").out)["edited"]


def test_one_short_rule(
    training: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(short, "VALUED", 2)
    run, out = Shell(monkeypatch, capsys), tmp_path / "s.toml"
    told = run(
        "distill", "eunomia", "--nodes", "20", "--generations", "1", "--out", out, "--on", training
    ).out
    read = load_rules(out)
    assert 0 < read.nodes <= 20 and read.leaves == 0 and read.made["nodes"] == read.nodes and not read.edited
    assert f"{read.nodes} nodes" in told and "order = " in told and "agreement" not in told
    values = read.made["per_seed"]
    assert read.made["rules_gain"] == pytest.approx(
        np.mean(values["rules"]) - np.mean(values["heuristic"]), abs=1e-4
    )
    assert isinstance(resolve_policy(str(out)), RulePolicy)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--terms", "0"), "--terms belongs to trees; add --leaves 64, or leave it out"),
        (("--rounds", "1"), "--rounds belongs to trees; add --leaves 64"),
        (("--slope", "3"), "--slope belongs to trees; add --leaves 64"),
        (
            ("--leaves", "8", "--nodes", "20"),
            "--nodes belongs to one short rule; leave it out, or --leaves 8",
        ),
        (("--leaves", "8", "--generations", "2"), "--generations belongs to one short rule"),
    ],
)
def test_an_option_of_the_other_form_is_refused(
    given: tuple[str, ...],
    said: str,
    training: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Shell(monkeypatch, capsys)
    shown = run("distill", "eunomia", "--on", training, "--out", tmp_path / "x.toml", *given)
    assert shown.code == 2 and said in " ".join(shown.err.split())
    assert not (tmp_path / "x.toml").exists()


def test_options_that_nobody_gave_are_the_defaults_of_their_form() -> None:
    assert fit_of(DistillOptions()) == ShortOptions()
    assert fit_of(DistillOptions(leaves=64)) == FitOptions()
    assert fit_of(DistillOptions(leaves=8, terms=0, seed=3)) == FitOptions(leaves=8, terms=0, seed=3)
    assert fit_of(DistillOptions(nodes=20, generations=1)) == ShortOptions(20, 1)


def test_a_card_whose_training_is_elsewhere_needs_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="give --on TRAINING.toml"):
        distilling.distil_policy("eunomia", None, tmp_path / "x.toml", FitOptions())
    with pytest.raises(UnknownNameError, match="unknown learned policy 'eunomiaa'"):
        eunomia.distill("eunomiaa")
