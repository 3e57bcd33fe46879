"""From scenarios to a rule and back into a run: files, gate, commands, and the evaluator with its bounds."""

import json
from pathlib import Path

import pytest

import eunomia
from eunomia.config.evolve import settings_of
from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.learning.distill.file import load_rules
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.evolve.rule import read_rule, write_rule
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.inference.run import SCENARIOS
from eunomia.study.learning import evolving, judging
from eunomia.study.learning.evaluation import measure_policy
from tests.cli.shell import Shell
from tests.study.test_distilling import SCENARIO, TRAINING

EDF = "order = -time_left\nplacement = eft\ngate = 0.9\n"
LIMIT_S = 250.0  # of a process that may have to compile first


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(evolving, "TESTS", 2)
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "t.toml").write_text(TRAINING)
    return tmp_path / "t.toml"


def test_the_command_searches_goes_on_and_writes_a_rule(
    training: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = Shell(monkeypatch, capsys), tmp_path / "found"
    small = ("--population", "8", "--episodes", "1", "--workers", "1", "--out", out)
    shown = run("evolve", training, "--generations", "1", *small)
    assert "evolve 1/1" in shown.err and "in the archive" in shown.err  # a line, through a pipe too
    assert "validation: " in shown.out and "order = " in shown.out
    told = json.loads(run("evolve", training, "--generations", "3", *small, "--json").out)
    path, archive = Path(told["path"]), json.loads(Path(told["archive"]).read_text())
    read = load_rules(path)
    assert write_rule(read) == told["rule"] and not read.edited and read.made["generations"] == 3
    assert told["kept_heuristic"] == (not told["gain"] > told["error"])
    assert told["fresh_traces"] == 2 and len(read.made["per_seed"]["rule"]) == 2
    assert isinstance(resolve_policy(str(path)), RulePolicy)
    assert archive and {"rule", "nodes", "training_advantage"} <= set(archive[0])
    assert "score of a waiting sub-job = order" in run("rules", path).out


def test_a_known_rule_is_kept_where_nothing_beats_it(training: Path, tmp_path: Path) -> None:
    settings = settings_of({"generations": 1, "population": 8, "episodes": 1})
    found = eunomia.evolve(training, tmp_path / "x", settings)
    if found.kept_heuristic:
        assert not any(found.gains) and found.gain <= found.error
    assert found.rules.made["heuristic"] == found.heuristic.name


def test_settings_out_of_bounds_are_one_sentence() -> None:
    with pytest.raises(ConfigError, match="population is 3; it must be at least 8"):
        settings_of({"population": 3})
    with pytest.raises(ConfigError, match="nodes is 41; it must be at most 40"):
        settings_of({"nodes": 41})


def test_the_evaluator_tells_what_runs_tell(
    training: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, rule = training.with_name("small.toml"), tmp_path / "edf.txt"
    rule.write_text(EDF)
    shown = Shell(monkeypatch, capsys)(
        "evolve", "--evaluate", rule, scenario, "--seeds", "3", "--seconds", str(LIMIT_S), "--json"
    )
    told = json.loads(shown.out)
    checked = SCENARIOS.checked(scenario, ())
    ours = measure_policy(RulePolicy(read_rule(EDF)), checked, [checked.seed + i for i in range(3)])
    assert told["hit_rate_by_seed"] == ours[0].tolist()
    assert told["figures"]["hit_rate"]["mean"] == pytest.approx(ours[0].mean())
    assert told["gain_by_seed"] == [0.0, 0.0, 0.0]  # it is the rule that it is compared with
    assert told["figures"]["slo_attainment"]["half_width"] >= 0.0
    assert told["nodes"] == 2 and told["rule"] == EDF


def test_no_process_starts_for_what_is_no_rule(training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging.subprocess, "run", lambda *a, **k: pytest.fail("a process was started"))
    scenario = training.with_name("small.toml")
    with pytest.raises(ConfigError, match="line 1, column 1: this is not allowed"):
        eunomia.evaluate_rule("__import__('os').getcwd()", scenario)
    with pytest.raises(UnknownNameError, match="did you mean 'work'"):
        eunomia.evaluate_rule("wrk", scenario)
    with pytest.raises(ConfigError, match="seeds is 1; give 2 to"):
        eunomia.evaluate_rule("work", scenario, seeds=1)
    with pytest.raises(ConfigError, match="seconds is 0"):
        eunomia.evaluate_rule("work", scenario, seconds=0.0)


def test_a_run_is_stopped_at_its_bounds(training: Path) -> None:
    scenario = training.with_name("small.toml")
    with pytest.raises(PolicyError, match="stopped after 0.05 s; give more --seconds"):
        eunomia.evaluate_rule("work", scenario, seconds=0.05)
    with pytest.raises(PolicyError, match="ended at their bounds .* 0.05 GB of memory"):
        eunomia.evaluate_rule("work", scenario, seconds=LIMIT_S, memory_gb=0.05)


def test_a_scenario_that_cannot_be_read_is_the_childs_complaint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        eunomia.evaluate_rule("work", tmp_path / "absent.toml", seconds=LIMIT_S)
