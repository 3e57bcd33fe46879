"""The help of the program lists the verbs by door, and shells complete them."""

from __future__ import annotations

import pytest
import typer

from eunomia.cli.doors import DOOR_OF, DOORS
from eunomia.cli.main import app
from tests.cli.shell import Shell

ASKED = {
    "bash": {"COMP_WORDS": "{line}", "COMP_CWORD": "{last}"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "{line}"},
    "fish": {"_TYPER_COMPLETE_ARGS": "{line}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def test_every_verb_stands_behind_one_door() -> None:
    verbs = typer.main.get_command(app).list_commands(None)  # type: ignore[attr-defined]
    assert verbs == list(DOOR_OF) and len(verbs) == sum(map(len, DOORS.values()))


def test_the_help_shows_each_door_once_and_its_verbs_below(shell: Shell) -> None:
    text = shell("--help").out
    places = [text.index(f"─ {door} ─") for door in DOORS]
    assert places == sorted(places)
    for (door, verbs), low, high in zip(DOORS.items(), places, [*places[1:], len(text)], strict=True):
        listed = [
            line.split()[1]
            for line in text[low:high].splitlines()
            if line.startswith("│ ") and line[2] != " "
        ]
        assert tuple(listed) == verbs, door


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("line", "found"), [("eunomia co", ["compare", "costs"]), ("eunomia new sc", ["scenario"])]
)
def test_shells_complete_verbs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, line: str, found: list[str]
) -> None:
    monkeypatch.setenv("_EUNOMIA_COMPLETE", f"complete_{name}")
    for key, value in ASKED[name].items():
        monkeypatch.setenv(key, value.format(line=line, last=len(line.split()) - 1))
    done = shell()
    assert done.code == 0 and not done.err
    assert [word for word in ("compare", "costs", "cluster", "scenario") if word in done.out] == found
