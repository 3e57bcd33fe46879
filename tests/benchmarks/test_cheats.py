"""What a cheat gains: honest twins are alike, copies count once, and shares hold a flood off."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.serving.cheats import CHEATS, in_time, sent, share_in_time


def test_copies_count_once_by_the_promise() -> None:
    rows = [(0.0, "small", 0.1, 0), (0.0, "small", 0.1, 0), (1.0, "large", 0.125, 1), (2.0, "small3", 0.1, 2)]
    assert share_in_time(rows, np.array([0.2, 0.1, 0.4, np.inf])) == pytest.approx(2 / 3)


def test_what_silver_sends_is_what_its_cheat_says() -> None:
    plain = sent("silver", "", 1.2, 0)
    assert sent("gold", "claims", 1.2, 0) != plain
    claimed, twice, names = (sent("silver", cheat, 1.2, 0) for cheat in ("claims", "copies", "names"))
    assert [(a, m, 4.0 * d, n) for a, m, d, n in claimed] == plain
    assert twice[::2] == twice[1::2] == plain
    assert [(a, m.rstrip("0123456789"), d, n) for a, m, d, n in names] == plain
    assert len({name for _, name, *_ in names}) == 8
    assert len(sent("silver", "flood", 1.2, 0)) == pytest.approx(3 * len(plain), rel=0.1)


def test_shares_hold_a_flood_off_and_deadlines_alone_do_not() -> None:
    assert set(CHEATS) == {"claims", "copies", "flood", "names"}
    fair = in_time("weighted_fair", "", 1.2, 0)[1] - in_time("weighted_fair", "flood", 1.2, 0)[1]
    blind = in_time("fcfs", "", 0.8, 0)[1] - in_time("fcfs", "flood", 0.8, 0)[1]
    assert fair < 0.01 < 0.5 < blind
