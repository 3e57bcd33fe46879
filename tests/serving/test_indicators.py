"""The server's running indicators: by hand, and against lists that keep everything."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.dispatch.indicators import Indicator, Past
from eunomia.workload.tenant import Slo
from tests.serving.live import GOLD, SIDE, ask, running

IMAGE: dict[str, Any] = {
    "name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.0] * (3 * SIDE * SIDE),
}  # fmt: skip
# What left, at which second, after how long, in time or not, dropped or not.
LEFT = [
    (1.0, 4.0, True, False), (2.0, 1.0, False, False), (3.0, 9.0, False, True), (4.0, 3.0, True, False),
    (6.0, 2.0, True, False),
]  # fmt: skip


def after(slo: Slo | None, left: list[tuple[float, float, bool, bool]]) -> Indicator:
    indicator = Indicator(slo)
    for now_s, response_s, hit, dropped in left:
        indicator.observe(now_s, response_s, hit=hit, dropped=dropped)
    return indicator


@pytest.mark.parametrize(
    ("slo", "sli", "gap", "count"),
    [
        (None, 3 / 5, 0.0, 5),
        (Slo(0.9), 3 / 5, 0.3, 5),
        (Slo(0.9, window_requests=3), 2 / 3, 0.9 - 2 / 3, 3),
        (Slo(0.1, "drop_rate"), 1 / 5, 0.1, 5),
        (Slo(0.1, "drop_rate", window_requests=2), 0.0, -0.1, 2),
        (Slo(2.0, "latency_mean"), 2.5, 0.25, 4),  # (4 + 1 + 3 + 2) / 4: who was dropped has no response
        (Slo(2.0, "latency_mean", window_requests=2), 2.5, 0.25, 2),
        (Slo(2.0, "latency_percentile", percentile=50.0), 2.0, 0.0, 4),
        (Slo(2.0, "latency_percentile", percentile=51.0), 3.0, 0.5, 4),
        (Slo(2.0, "latency_percentile", percentile=0.1), 1.0, -0.5, 4),
        (Slo(1.0, "throughput"), 4 / 6, 1 / 3, 4),  # six seconds have passed of a window of ten
        (Slo(1.0, "throughput", window_s=5.0), 3 / 5, 0.4, 3),  # from 1 s on, 1 s itself excluded
    ],
)
def test_each_kind_by_hand(slo: Slo | None, sli: float, gap: float, count: int) -> None:
    found = after(slo, LEFT)
    assert (found.sli, found.gap, found.count) == (pytest.approx(sli), pytest.approx(gap), count)


def test_nobody_yet_is_no_miss() -> None:
    for kind in ("hit_rate", "drop_rate", "latency_mean", "latency_percentile", "throughput"):
        empty = after(Slo(0.5, kind), [])  # type: ignore[arg-type]
        empty.refresh(100.0)
        assert math.isnan(empty.sli) and empty.gap == 0.0 and empty.count == 0


def test_throughput_falls_while_nobody_leaves() -> None:
    found = after(Slo(1.0, "throughput"), LEFT)
    for now_s, sli in ((10.0, 4 / 10), (11.5, 3 / 10), (14.0, 1 / 10)):
        found.refresh(now_s)
        assert found.sli == sli
    found.refresh(16.0)
    assert math.isnan(found.sli)


WAYS = [(True, False), (False, False), (False, True)]  # in time, late, dropped


def in_ledger(at_s: float, response_s: float, hit: bool, dropped: bool) -> Past:
    """As its line has it."""
    return at_s, response_s, "hopeless" if dropped else "hit" if hit else "late"


def of_client() -> Past:
    """Moves no indicator."""
    return 0.0, 1.0, "bad_input"


@given(
    st.lists(
        st.tuples(st.floats(0.0, 50.0), st.sampled_from(WAYS)).map(lambda f: (f[0], *f[1])), max_size=40
    ),
    st.integers(1, 9),
    st.floats(1.0, 100.0),
)
def test_windows_slide_as_lists_do(
    left: list[tuple[float, bool, bool]], window: int, percentile: float
) -> None:
    facts = [(float(n), *row) for n, row in enumerate(left)]
    hits = [float(hit) for _, _, hit, _ in facts][-window:]
    seconds = [response_s for _, response_s, _, dropped in facts if not dropped][-window:]
    expected = {
        "hit_rate": fmean(hits) if hits else math.nan,
        "latency_mean": fmean(seconds) if seconds else math.nan,
        "latency_percentile": min(
            (s for s in seconds if sum(t <= s for t in seconds) >= percentile / 100.0 * len(seconds)),
            default=math.nan,
        ),
    }
    for kind, sli in expected.items():
        slo = Slo(0.5, kind, percentile=percentile, window_requests=window)  # type: ignore[arg-type]
        found = after(slo, facts)
        assert found.sli == pytest.approx(sli, abs=1e-9, nan_ok=True)
        again = Indicator(slo)
        again.recall([line for fact in facts for line in (of_client(), in_ledger(*fact))])
        assert again.sli == pytest.approx(sli, abs=1e-9, nan_ok=True) and again.count == found.count


def test_a_server_that_starts_again_knows_how_its_tenants_fared(tmp_path: Path) -> None:
    """As it was, whoever had been let down began anew with every start."""
    for begun, count in ((0, 1), (1, 2)):
        with running(tmp_path, ledger_dir=tmp_path / "ledger") as server:
            before = [indicator.count for indicator in server.pool.dispatcher.indicators]
            assert before == [begun] * begun, "it is seen before its next request"
            assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [IMAGE]})[0] == 200
            (indicator,) = server.pool.dispatcher.indicators
            assert (indicator.count, indicator.sli) == (count, 1.0), begun
