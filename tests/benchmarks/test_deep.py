"""Every learner of the page on deep learning can be begun: its changes and its training file fit together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.inference import deep
from benchmarks.inference.contest import FILES
from benchmarks.inference.deep import LEARNERS, OTHER, file_of, of_rules, played, with_kept_rows, with_limits
from benchmarks.table import Measured, Options, Table, table
from eunomia.config.training import load_training


@pytest.mark.parametrize(("part", "name"), [(part, name) for part in LEARNERS for name in LEARNERS[part]])
def test_the_training_of_a_learner_can_be_read(part: str, name: str) -> None:
    config = load_training(FILES / f"{file_of(part, name)}.toml", LEARNERS[part][name])
    assert (config.algorithm is None) == (of_rules(name) or name.startswith("CMA-ES"))
    assert config.algorithm is not None or config.base == "edf+f+eft+g1"
    assert played(config, name) % config.requests == 0 < played(config, name)


def rows_of(*rows: tuple[str, float]) -> Table:
    return table("mixed", "learner; test|.1p", rows)


def test_rows_of_others_stay_where_rules_do_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(
        rows_of(("CMA-ES, linear", 0.96), ("edf+f", 0.92)), measured=Measured("c", "abc", "2026-11-24", "m")
    )
    monkeypatch.setattr(deep, "stored", lambda name: {"mixed": old})
    alone = Options(given={"learners": "TD3"})
    found = with_kept_rows(rows_of(("TD3, LSTM", 0.94), ("edf+f", 0.92)), alone)
    assert found.rows == (("CMA-ES, linear", 0.96), ("TD3, LSTM", 0.94), ("edf+f", 0.92))
    assert found.notes == ("Rows kept: CMA-ES, linear; commit abc, 2026-11-24.",)
    other = with_kept_rows(
        rows_of(("TD3, LSTM", 0.94), ("edf+f", 0.93)), alone
    )  # another program: not the same traces
    assert len(other.rows) == 2 and other.notes == (OTHER,)
    assert with_kept_rows(rows_of(("edf+f", 0.92)), Options()).rows == (("edf+f", 0.92),)


def test_curves_stay_where_the_rules_of_the_other_table_do_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    old = table("mixed, curves", "learner; 0%|.1p", [("CMA-ES, linear", 0.93)])
    monkeypatch.setattr(deep, "stored", lambda name: {"mixed, curves": old})
    new = table("mixed, curves", "learner; 0%|.1p", [("TD3, LSTM", 0.92)])
    alone = Options(given={"learners": "TD3"})
    assert with_kept_rows(new, alone, True).rows == (("CMA-ES, linear", 0.93), ("TD3, LSTM", 0.92))
    left = with_kept_rows(new, alone, False)
    assert left.rows == (("TD3, LSTM", 0.92),) and left.notes == (OTHER,)


def test_share_of_the_gap_and_time_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "limits": table("limits", "part; evaluations; found; bound", [("mixed", 10, 0.98, 1.0)]),
        "decision": table("decision", "policy; median, us", [("linear", 15.0)]),
    }
    monkeypatch.setattr(deep, "stored", lambda name: known)
    one = rows_of(("CMA-ES, linear", 0.96), ("edf+f", 0.93), ("edf+f+eft+g1", 0.94))
    rows = with_limits(one, "mixed").rows
    assert rows[0][2] == pytest.approx(0.5) and rows[0][3] == 15.0  # (0.96 - 0.94) / (0.98 - 0.94)
    assert rows[1][2:] == rows[2][2:] == (None, None)
