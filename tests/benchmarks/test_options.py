"""What ``--set`` gives a benchmark: a word that it does not take ends it with a sentence, before it measures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.__main__ import main
from benchmarks.catalogue import BENCHMARKS, SETTINGS
from benchmarks.serving import fidelity
from benchmarks.slurm.bench import POLICIES, chosen
from benchmarks.table import Options, Table


@pytest.mark.parametrize("said", ["true", "1", "Yes", ""])
def test_fidelity_takes_yes_or_no_for_again(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other word was as good as no: the run took its time, and had measured half of what was asked for."""
    monkeypatch.setattr(fidelity, "Bench", None)  # it would keep this process to one core
    with pytest.raises(SystemExit, match=f"^--set again={said}: say again=yes or again=no$"):
        next(fidelity.measure(Options(quick=True, only=("all",), given={"again": said})))


def test_yes_and_no_are_what_they_say() -> None:
    assert [Options(given={"again": said}).says_yes("again") for said in ("yes", "no")] == [True, False]
    assert not Options().says_yes("again") and Options().says_yes("kills", "yes")


def test_schedulers_and_kills_are_known_words() -> None:
    assert chosen(Options()) == ([*POLICIES], True)
    assert chosen(Options(given={"schedulers": POLICIES[0], "kills": "no"})) == ([POLICIES[0]], False)
    with pytest.raises(SystemExit, match="^--set kills=maybe: say kills=yes or kills=no$"):
        chosen(Options(given={"kills": "maybe"}))
    with pytest.raises(SystemExit, match=f"^--set schedulers=lottery: known are {POLICIES[0]}, "):
        chosen(Options(given={"schedulers": f"lottery,{POLICIES[0]}"}))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["exam", "--set", "place=0-3"], "--set place: exam has no such setting; it has places, mapper"),
        (["exam", "--set", "places=0-3", "--set", "maper=x"], "--set maper: exam has no such setting"),
        (["engine", "--set", "places=0-3"], "--set places: engine has no such setting; it has none"),
    ],
)
def test_a_setting_that_nobody_reads_is_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was, the run took its hours, without it."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_the_settings_of_the_catalogue_are_those_that_modules_read() -> None:
    """By name; one that a module reads through another stands there in the other."""
    folder, read = Path(fidelity.__file__).parents[1], dict[str, set[str]]()
    for path in folder.glob("**/*.py"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(
            r'given(?:\.get\(|\[|\.pop\()"(\w+)"|"(\w+)" (?:not )?in options\.given|says_yes\("(\w+)"', text
        )
        names = {name for one in found for name in one if name}
        if 'names = options.seeds_or(5), ("power"' in text:
            names |= {"power", "makespan_price", "rounds"}
        if " Bench(" in text:
            names.add("resume")
        read[".".join(path.relative_to(folder).with_suffix("").parts)] = names
    for name, module in BENCHMARKS.items():
        assert read[module] <= set(SETTINGS.get(name, ())), name
    assert set().union(*SETTINGS.values()) - {"*"} == set().union(*read.values())
    assert set(SETTINGS) <= set(BENCHMARKS)


def test_a_part_that_no_benchmark_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, nothing was measured, without a word."""

    def measure(options: Options) -> Iterator[Table]:
        assert options.chosen(["raw", "added"]) == []
        yield from ()

    monkeypatch.setattr(command, "find", lambda name: measure)
    with pytest.raises(SystemExit, match="^--only added2: serving-path has the parts added, raw$"):
        main(["serving-path", "--quick", "--only", "added2"])
