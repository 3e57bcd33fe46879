"""``eunomia policies`` shows every policy once, in its group, after the ten to begin with."""

import json
from pathlib import Path

from typer.testing import CliRunner

from eunomia import demo_scenario
from eunomia.cli.main import app
from eunomia.study.inference.groups import GROUPS, RULES, START_HERE, grouped, ungrouped
from eunomia.study.inference.policy import policy_words, resolve_policy
from eunomia.study.inference.words import rehearsed_notes

ROOT = Path(__file__).resolve().parents[2]


def test_every_policy_stands_in_one_group() -> None:
    known = policy_words()
    groups = grouped(known)
    assert next(iter(groups)) == "Start here" and len(groups["Start here"]) == 10
    named = [name for title, group in groups.items() if title != "Start here" for name in group]
    assert sorted(named) == sorted(known) and all(groups.values())
    assert {name for names in GROUPS.values() for name in names} <= set(known)
    assert {"edf", "met", "pressure"} <= set(groups[RULES])


def test_the_ten_to_begin_with_can_be_run() -> None:
    for name, words in START_HERE.items():
        assert callable(resolve_policy(name)) and len(words) < 90


def test_a_newcomer_is_listed_without_another_line() -> None:
    assert grouped({"mine": "Least laxity.\nMore."})[RULES] == {"mine": "Least laxity."}


def test_a_group_stands_for_its_policies_each_once() -> None:
    named = ungrouped(["prema", "published", "edf"])
    assert named == ["prema", *(name for name in GROUPS["Published"] if name != "prema"), "edf"]
    for name in ungrouped(["published+tuned"]):
        assert name.endswith("+tuned") and callable(resolve_policy(name))


def test_the_command_prints_groups_and_json_keeps_its_content() -> None:
    shown = CliRunner().invoke(app, ["policies"]).stdout
    titles = ["Start here", "Rules", "Tenants' SLOs", "Published", "Search", "Learned"]
    assert [line.strip() for line in shown.splitlines() if line.strip() in titles] == titles
    assert shown.splitlines()[1].startswith("eunomia ")
    assert json.loads(CliRunner().invoke(app, ["policies", "--json"]).stdout) == policy_words()


def test_what_a_rehearsal_chose_stands_under_the_table() -> None:
    answers: dict[tuple[str, int], dict[str, object]] = {
        ("eunomia", 0): {"rehearsed": "eunomia"},
        ("eunomia", 1): {"rehearsed": "edf+f"},
        ("eunomia", 2): {"rehearsed": "edf+f"},
        ("edf", 0): {"rehearsed": None},
        ("old", 0): {},
    }
    told = rehearsed_notes(["edf", "eunomia", "old"], answers)
    ran = "edf+f on 2 of 3 seeds, eunomia on 1 of 3 seeds"
    assert told == [f"eunomia ran as {ran}: chosen by a rehearsal before each run"]


def test_the_demo_and_the_small_study_name_the_learned_policy() -> None:
    assert "eunomia" in demo_scenario().compare.policies
    for name in ("examples/mixed_npu.toml", "examples/azure_two_tenants.toml", "studies/relmas_small.toml"):
        assert '"eunomia"]' in (ROOT / name).read_text()
