"""Objectives: when they are met and how far they are missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError
from eunomia.workload.tenant import HIGHER_IS_BETTER, Agreement, Slo


@pytest.mark.parametrize(
    "slo, sli, gap",
    [
        (Slo(0.9), 0.8, 0.1),
        (Slo(0.9), 0.95, -0.05),
        (Slo(0.1, "drop_rate"), 0.25, 0.15),
        (Slo(0.02, "latency_mean"), 0.03, 0.5),
        (Slo(0.02, "latency_percentile"), 0.01, -0.5),
        (Slo(50.0, "throughput"), 40.0, 0.2),
        (Slo(0.0, "latency_mean"), 0.01, 1.0),
        (Slo(0.0, "latency_mean"), 0.0, 0.0),
        (Slo(0.0, "throughput"), 3.0, 0.0),
    ],
)
def test_gap_by_hand(slo, sli, gap):
    assert slo.gap(sli) == pytest.approx(gap)
    assert slo.shortfall(sli) == pytest.approx(max(0.0, gap))


@given(
    st.sampled_from(["hit_rate", "latency_percentile", "latency_mean", "throughput", "drop_rate"]),
    st.floats(0.01, 1.0),
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
)
def test_a_better_indicator_never_has_a_larger_gap(kind, target, one, other):
    slo = Slo(target, kind)
    better, worse = (max(one, other), min(one, other)) if kind in HIGHER_IS_BETTER else sorted((one, other))
    assert slo.gap(better) <= slo.gap(worse)
    assert slo.gap(target) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"target": 0.9, "kind": "hitrate"}, "unknown SLI kind 'hitrate'"),
        ({"target": 1.5}, "target is 1.5; it must lie in 0..1"),
        ({"target": float("nan")}, "target is nan"),
        ({"target": -1.0, "kind": "throughput"}, "must not be negative"),
        ({"target": 0.1, "kind": "latency_percentile", "percentile": 0.0}, "percentile is 0.0"),
        ({"target": 0.9, "window_requests": 0}, "window is 0 requests"),
        ({"target": 0.9, "window_s": 0.0}, "window is 0.0 s"),
    ],
)
def test_impossible_objectives_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        Slo(**settings)


@pytest.mark.parametrize(
    ("tenant", "model", "message"),
    [
        ("a\x00b", "m", r"tenant 'a\\x00b' holds a control character"),
        ("a", "m\n", "model .* holds a control character"),
        ("a" * 201, "m", "has 201 letters; at most 200"),
    ],
)
def test_names_that_would_garble_reports_are_refused(tenant: str, model: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Agreement(tenant, model)
    assert Agreement("a" * 200, "modèle 模型").tenant == "a" * 200
