"""Published sets: their figures, their pacing against its mean, and that the tables never mix."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.errors import UnknownNameError
from eunomia.workload.deadlines import AURORA, MOCA
from eunomia.workload.generate import generate
from eunomia.workload.paced import AuroraStreams, MocaStreams, dispatch, expected_dispatches
from eunomia.workload.sets import MOCA_PRIORITIES, SETS, workload_set
from eunomia.workload.tenant import Slo

ISO = {model: 0.002 + 0.001 * k for k, (model, _) in enumerate(SETS["aurora-mixed"].models)}


def test_moca_figures():
    light, heavy, mixed = (SETS[f"moca-{name}"] for name in ("light", "heavy", "mixed"))
    assert dict(light.models) == {"squeezenet": 30, "kws-res8": 21, "yolo-lite": 25}
    assert dict(heavy.models) == {"resnet50": 12, "alexnet": 18, "googlenet": 16, "yolov2": 18}
    assert mixed.models == light.models + heavy.models
    assert (light.cap, heavy.cap, mixed.cap) == (0.92, 1.42, 1.22)
    assert sum(MOCA_PRIORITIES.weights) == 108 and max(MOCA_PRIORITIES.levels) == 11
    assert isinstance(light.paced(), MocaStreams) and light.paced().streams == 4
    assert "MoCA" in light.source


def test_aurora_figures():
    light, heavy, mixed = (SETS[f"aurora-{name}"] for name in ("light", "heavy", "mixed"))
    assert mixed.models == light.models + heavy.models
    assert {weight for _, weight in mixed.models} == {1.0} and len(mixed.models) == 10
    assert {model for model, _ in mixed.models} == set(AURORA.base_ms)
    assert isinstance(light.paced(), AuroraStreams) and 0.75 <= light.cap <= 0.94
    assert "AuRORA" in light.source and light.priorities is None


@pytest.mark.parametrize("name", SETS)
def test_every_model_of_a_set_has_a_deadline_in_its_own_table(name):
    chosen = SETS[name]
    table = MOCA if name.startswith("moca") else AURORA
    for level in ("h", "m", "l"):
        for draw in chosen.draws("t", level):
            model = draw.agreement.model
            expected = table.base_ms[model] * table.multiplier[level] / 1e3
            assert draw.deadline.relative_s(model, None) == pytest.approx(expected)


def test_the_two_tables_differ():
    both = set(MOCA.base_ms) & set(AURORA.base_ms)
    assert {model for model in both if MOCA.base_ms[model] != AURORA.base_ms[model]} == {
        "resnet50", "alexnet", "googlenet", "kws-res8", "yolov2"
    }  # fmt: skip
    assert (MOCA.multiplier["h"], AURORA.multiplier["h"]) == (0.80, 0.83)


@pytest.mark.parametrize("name", SETS)
def test_a_set_runs_with_its_own_pacing(name):
    chosen = SETS[name]
    made = generate([chosen.stream("t", "h", Slo(0.9), limit=250)], 100.0, iso_best_s=ISO)
    assert len(made) == 250
    assert all(a.slo == Slo(0.9) for a in made.agreements)
    assert set(made.priority) <= set(chosen.priorities.levels if chosen.priorities else (1.0,))
    assert (made.arrival_s[:4] == 0.0).all() and made.arrival_s[4] > 0.0  # four streams start together


def test_draw_weights_and_priorities_are_met():
    made = generate([SETS["moca-mixed"].stream("t")], 200.0, iso_best_s=ISO)
    weights = np.array([weight for _, weight in SETS["moca-mixed"].models])
    np.testing.assert_allclose(made.counts() / len(made), weights / weights.sum(), atol=0.01)
    for level, weight in zip(MOCA_PRIORITIES.levels, MOCA_PRIORITIES.weights, strict=True):
        assert (made.priority == level).mean() == pytest.approx(weight / 108, abs=0.01)


def test_alpha_replaces_the_published_deadlines():
    draw = SETS["moca-light"].draws("t", "l", alpha=4.0)[0]
    assert draw.deadline.relative_s("squeezenet", 0.005) == pytest.approx(1.2 * 4.0 * 0.005)


@pytest.mark.parametrize("process", [MocaStreams(0.92, jitter_s=200e-6), AuroraStreams(0.85)])
def test_paced_rate_is_streams_over_the_mean_gap(process):
    chance, iso_s = np.array([0.5, 0.3, 0.2]), np.array([0.001, 0.004, 0.010])
    rng = np.random.default_rng(1)
    times, picks = dispatch(process, rng, rng, chance, iso_s, 500.0)
    assert len(times) == pytest.approx(expected_dispatches(process, chance, iso_s, 500.0), rel=0.02)
    np.testing.assert_allclose(np.bincount(picks) / len(picks), chance, atol=0.01)
    assert (np.diff(times) >= 0.0).all()


def test_moca_gap_follows_the_model_just_sent():
    iso_s = np.array([0.001, 0.1])
    gaps = MocaStreams(2.0).gaps_s(
        np.random.default_rng(2), np.array([0, 1] * 500), np.array([0.5, 0.5]), iso_s
    )
    jitter = np.array([2.0 * 0.001, 2.0 * 0.1] * 500) - gaps
    steps = np.unique((jitter / 45e-6).round(6))
    assert steps.tolist() == list(range(20))


def test_moca_gaps_never_run_backwards():
    process = MocaStreams(1.0)
    gaps = process.gaps_s(np.random.default_rng(3), np.zeros(5000, int), np.ones(1), np.array([1e-4]))
    assert gaps.min() == 0.0 and gaps.max() == pytest.approx(1e-4)
    assert process.mean_gap_s(np.ones(1), np.array([1e-4])) == pytest.approx(gaps.mean(), rel=0.1)


def test_aurora_gap_is_the_mean_isolated_time_times_cap_and_jitter():
    chance, iso_s = np.array([0.5, 0.5]), np.array([0.002, 0.004])
    gaps = AuroraStreams(0.8).gaps_s(np.random.default_rng(4), np.zeros(5000, int), chance, iso_s)
    assert np.unique((gaps / 0.003).round(6)).tolist() == pytest.approx([0.8 + 0.01 * k for k in range(41)])


def test_an_unknown_set_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'moca-light'"):
        workload_set("mocalight")
