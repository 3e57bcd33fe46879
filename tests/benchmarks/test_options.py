"""What ``--set`` gives a benchmark: a word that it does not take ends it with a sentence, before it measures."""

from __future__ import annotations

import pytest

from benchmarks.serving import fidelity
from benchmarks.slurm.bench import POLICIES, chosen
from benchmarks.table import Options


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
