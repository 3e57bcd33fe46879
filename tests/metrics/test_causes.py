from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.metrics.causes import REASONS, miss_reason, miss_reasons, split, split_means_s, split_shares
from eunomia.metrics.columns import Requests
from tests.metrics.toy import many, request, requests

RUN = {"running_s": 4.0, "work_s": 2.5, "stretch_s": 1.0, "switch_s": 0.5}


def test_a_chain_splits_exactly() -> None:
    parts = split(requests(request("a", "m", 1.0, 9.0, 7.0, "hit", **RUN)), horizon_s=7.0)
    assert parts.queueing_s.tolist() == [2.0] and parts.service_s.tolist() == [2.5]
    assert parts.contention_s.tolist() == [1.0] and parts.switch_s.tolist() == [0.5]
    assert split_shares(parts)["queueing"] == pytest.approx(2 / 6)
    assert split_means_s(parts)["service"] == 2.5


def test_parallel_branches_share_the_running_time() -> None:
    both = {"running_s": 2.0, "work_s": 2.5, "stretch_s": 1.0, "switch_s": 0.5}  # 4 s of layers in 2 s
    parts = split(requests(request("a", "m", 0.0, 9.0, 3.0, "hit", **both)), horizon_s=3.0)
    assert parts.queueing_s[0] == 1.0 and parts.service_s[0] == 1.25 and parts.contention_s[0] == 0.5


def test_what_never_ran_was_queueing() -> None:
    rows = [request("a", "m", 1.0, 2.0, 4.0, "dropped"), request("a", "m", 1.0, 2.0, None, "unfinished")]
    assert split(requests(*rows), horizon_s=10.0).queueing_s.tolist() == [3.0, 9.0]


@given(st.integers(0, 1000))
def test_parts_add_up_to_the_time_in_the_system(seed: int) -> None:
    r = Requests.read(many(seed, 40))
    left = np.where(np.isnan(r.finish_s), 200.0, r.finish_s)
    parts = split(r, 200.0)
    np.testing.assert_allclose(parts.total_s, left - r.arrival_s, rtol=1e-12)
    assert all(
        (getattr(parts, f"{name}_s") >= 0.0).all() for name in ("queueing", "service", "contention", "switch")
    )
    assert sum(split_shares(parts).values()) == pytest.approx(1.0)


CASES = {
    "hit": (request("a", "m", 0.0, 5.0, 5.0, "hit"), None),
    "no deadline": (request("a", "m", 0.0, None, 50.0, "hit"), None),
    "less time than iso": (request("a", "m", 0.0, 0.9, 5.0, "late", isolated_s=1.0), "hopeless on arrival"),
    "less time than iso, late": (request("a", "m", 100.0, 100.9, 105.0, "late", isolated_s=1.0), "hopeless on arrival"),
    "hopeless and dropped": (request("a", "m", 0.0, 0.9, 0.0, "dropped", isolated_s=1.0), "hopeless on arrival"),
    "dropped before": (request("a", "m", 0.0, 5.0, 4.5, "dropped"), "dropped as hopeless"),
    "dropped at the deadline": (request("a", "m", 0.0, 5.0, 5.0, "dropped"), "dropped as expired"),
    # 6 s in the system: 3 queueing, 1 service (iso 1)
    "waited": (request("a", "m", 0.0, 5.0, 6.0, "late", running_s=3.0, work_s=1.0, stretch_s=2.0), "queueing"),
    "squeezed": (request("a", "m", 0.0, 5.0, 6.0, "late", running_s=5.0, work_s=1.0, stretch_s=4.0), "contention"),
    "slow type": (request("a", "m", 0.0, 5.0, 6.0, "late", running_s=5.0, work_s=5.0), "slow accelerator"),
    "switched": (request("a", "m", 0.0, 5.0, 6.0, "late", running_s=5.0, work_s=1.0, switch_s=4.0), "switching"),
    "overdue": (request("a", "m", 0.0, 5.0, None, "unfinished", running_s=1.0, work_s=1.0), "queueing"),
    # 0.5 s in the queue, then 1 s of service, which is what the model takes alone
    "waited, no slower": (request("a", "m", 0.0, 1.2, 1.5, "late", running_s=1.0, work_s=1.0), "queueing"),
    "unknown": (request("a", "m", 0.0, 500.0, None, "unfinished"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reasons_by_hand(name: str) -> None:
    row, reason = CASES[name]
    assert miss_reasons(requests(row), horizon_s=20.0) == ({reason: 1} if reason else {})


def test_holding_is_named_where_it_is_the_largest_part() -> None:
    row, _ = CASES["waited"]  # 3 s of queueing, 2 s of contention
    assert miss_reasons(requests(row), 20.0, held_s={0: 2.5}) == {"holding": 1}
    assert miss_reasons(requests(row), 20.0, held_s={0: 1.0}) == {"queueing": 1}
    assert miss_reasons(requests(row), 20.0, held_s={0: 1.4}) == {"contention": 1}  # 1.6, 2 and 1.4 s
    assert miss_reasons(requests(row), 20.0, held_s={7: 9.0}) == {"queueing": 1}  # of another request


def test_drops_can_be_judged_by_their_lost_time() -> None:
    row = request("a", "m", 0.0, 5.0, 4.5, "dropped", running_s=4.0, work_s=1.0, stretch_s=3.0)
    assert miss_reasons(requests(row), 20.0, drops="by cause") == {"contention": 1}


def test_reasons_are_sorted_and_count_every_miss() -> None:
    rows = [CASES[name][0] for name in ("hit", "waited", "squeezed", "squeezed", "dropped before")]
    found = miss_reasons(requests(*rows), 20.0)
    assert list(found.items()) == [("contention", 2), ("dropped as hopeless", 1), ("queueing", 1)]
    assert set(found) <= set(REASONS)
    assert miss_reason(requests(*rows), 20.0)[0] == -1
