"""The page of conformance says what its tests said."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.serving.conformance import outcomes, verdict
from tests.serving import fuzz_targets as fuzz

TESTS = """
import pytest

def test_one_thing(record_property):
    record_property("answers", "200 5")

@pytest.mark.parametrize("kind", ["a door"])
def test_another(kind):
    assert not kind, "open to a tenant"

def test_a_third():
    pytest.skip("no key")
"""


def test_every_test_is_a_row_and_a_failure_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    passed, failed, skipped = outcomes((str(path),), "suite")
    assert passed == ["one thing", "", "200 5", True] and skipped[-1] == "not run"
    assert failed[:2] == ["another", "a door"] and "open to a tenant" in str(failed[2]) and failed[3] is False
    assert verdict([passed, skipped]) == ["Nothing failed."]
    (fault,) = verdict([passed, failed])
    assert fault.startswith("Not as promised: another, a door: ")
    assert verdict([])[0].startswith("Not as promised")


def test_what_is_neither_read_nor_refused_in_words_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz.twin(b"{}")
    monkeypatch.setattr("json.loads", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fuzz.twin(b"{}")
