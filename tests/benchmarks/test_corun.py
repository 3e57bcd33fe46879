"""The measured co-runs of twelve networks: what is asked is never known, and halves are told apart by hand."""

from __future__ import annotations

import pytest

from benchmarks.corun import DATA, NAMES, _halves, splits
from eunomia.sharing.corun.design import Block
from eunomia.sharing.interference.table import noise_floor, read_co_runs


def test_nothing_that_is_asked_is_known() -> None:
    found = splits(read_co_runs(DATA, "cpu_slowdown"))
    assert len(found["network"]) == len(NAMES) + 1 == 12
    for seen, asked in found["network"]:
        (target,) = {row.target for row in asked}
        assert not any(target in (row.target, *row.neighbours) for row in seen)
    for seen, asked in found["degree"]:
        assert {len(row.neighbours) for row in seen} == {1} and {len(row.neighbours) for row in asked} == {2}
    for seen, asked in found["kind"]:
        assert {row.kind for row in seen} == {"own core"} and {row.kind for row in asked} == {"same core"}


def test_everything_was_measured_twice() -> None:
    rows = read_co_runs(DATA)
    assert {row.kind for row in rows} == {"own core", "same core"}
    assert {len(row.neighbours) for row in rows} == {1, 2}
    assert noise_floor(rows) is not None


def test_halves_by_hand() -> None:
    alone, slow, slower = (Block(n > 0, 10, 1.0 + n, 1.0 + 0.5 * n, 0.0) for n in (0, 1, 3))
    found = _halves([alone, slow, slow, alone, alone, slower, slower, alone], 0.1)
    assert found == [pytest.approx((2.0, 1.5)), pytest.approx((4.0, 2.5))]
    assert _halves([alone, slow], 0.1) == [pytest.approx((2.0, 1.5))]
