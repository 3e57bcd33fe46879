"""Compiled features against the plain twin, by hand, and in any order of rows."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.contract.view import View
from eunomia.learning.observation import table
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.pairs import Offer, describe_pair, finish_times
from eunomia.learning.observation.plain import observe as observe_plainly
from eunomia.learning.observation.plain import pair_features
from tests.inference.policies.views import job, make_view

TIMES = st.floats(0.01, 50.0)


def compiled(view: View) -> tuple[np.ndarray, np.ndarray, float]:
    """What the policy sees inside the event loop."""
    jobs, overall = np.full((len(view), len(table.JOB)), np.nan), np.full(len(table.GLOBAL), np.nan)
    layer_s = observe(view.ready, view.accelerators, view.system, jobs, overall, True, True)
    return jobs, overall, layer_s


@st.composite
def views(draw: st.DrawFn) -> View:
    """Requests with one or more waiting sub-jobs, promises of all sorts, busy and idle accelerators."""
    jobs = []
    for request in range(draw(st.integers(1, 8))):
        iso, arrival = draw(TIMES), draw(st.floats(0.0, 10.0))
        promise = draw(st.sampled_from([{}, {"slo": 0.8, "sli_count": 0}, {"slo": 0.9, "sli_count": 40}]))
        shared = {
            "request": request, "arrival_s": arrival, "iso_best_s": iso, "layers_total": draw(st.integers(1, 9)),
            "deadline_s": draw(st.one_of(st.just(np.inf), st.just(30.0), st.floats(arrival + 0.1, 90.0))),
            "weight": draw(st.sampled_from([0.5, 1.0, 3.0])), "gap": draw(st.floats(-1.0, 1.5)), **promise,
        }  # fmt: skip
        for _ in range(draw(st.integers(1, 2))):
            work = iso * draw(st.floats(0.1, 1.0))
            path = work * draw(st.floats(0.3, 1.0))
            jobs.append(job(**shared, work_best_s=work, path_best_s=path, sequence=len(jobs), bytes_left=draw(TIMES),
                            attained_s=draw(st.sampled_from([0.0, 1.0]))))  # fmt: skip
    lanes = draw(st.integers(1, 4))
    cost = [[draw(TIMES) for _ in range(lanes)] for _ in jobs]
    demand = [[draw(st.floats(0.0, 3.0)) for _ in range(lanes)] for _ in jobs]
    free = [draw(st.sampled_from([0.0, 0.0, 1.7])) for _ in range(lanes)]
    bandwidth, running = draw(st.sampled_from([2.0, np.inf])), draw(st.floats(0.0, 5.0))
    return make_view(None, jobs, cost, now_s=12.0, free_in_s=free, demand=demand, bandwidth=bandwidth,
                     running_demand=running)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(views())
def test_compiled_and_plain_features_agree(view: View) -> None:
    jobs, overall, _ = compiled(view)
    plain_jobs, plain_overall = observe_plainly(view)
    for column, name in enumerate(table.JOB):
        np.testing.assert_allclose(jobs[:, column], plain_jobs[:, column], rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(overall, plain_overall, rtol=1e-9, atol=1e-9)
    assert np.isfinite(jobs).all() and np.isfinite(overall).all()


@settings(max_examples=60, deadline=None)
@given(views(), st.randoms(use_true_random=False))
def test_rows_may_come_in_any_order(view: View, shuffle) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(view)))
    shuffle.shuffle(order)
    mixed = View(view.system, view.ready[order], view.accelerators, view.latency_s[order],
                 view.demand_bytes_s[order], view.energy_j[order])  # fmt: skip
    jobs, overall, layer_s = compiled(view)
    jobs_mixed, overall_mixed, layer_mixed_s = compiled(mixed)
    assert np.array_equal(jobs[order], jobs_mixed) and np.array_equal(overall, overall_mixed)
    assert layer_s == layer_mixed_s


@settings(max_examples=80, deadline=None)
@given(views(), st.floats(0.0, 4.0))
def test_pair_features_agree(view: View, running: float) -> None:
    _, _, layer_s = compiled(view)
    lanes, bandwidth = len(view.accelerators), float(view.system["bandwidth_bytes_s"])
    finish_s, free_s = np.empty(lanes), np.ascontiguousarray(view.accelerators["free_in_s"])
    for i in range(len(view)):
        expected = pair_features(view, i, running)
        least_s, soonest_s = finish_times(view.latency_s[i], free_s, max(1.0, running / bandwidth), finish_s)
        for s in range(lanes):
            found = np.full(len(table.PAIR), np.nan)
            offer = Offer(
                view.latency_s[i, s],
                finish_s[s],
                least_s,
                soonest_s,
                view.demand_bytes_s[i, s],
                running,
                layer_s,
            )
            describe_pair(view.ready[i], offer, view.accelerators[s]["last_request"], view.system, found)
            np.testing.assert_allclose(found, expected[s], rtol=1e-9, atol=1e-9)


def test_features_by_hand() -> None:
    # Two requests at t = 2, one accelerator of B = 4. A: arrived 0, due 12, 4 s and 8 bytes left of iso 5 in 5 layers;
    # B: arrived 1, due 22, 3 s and 2 bytes left of iso 3 in 3 layers. scale 4, layer 1.
    first = job(
        deadline_s=12.0, work_best_s=4.0, iso_best_s=5.0, layers_total=5, bytes_left=8.0, attained_s=1.0
    )
    second = job(
        arrival_s=1.0, deadline_s=22.0, work_best_s=3.0, iso_best_s=3.0, layers_total=3, bytes_left=2.0
    )
    view = make_view(None, [first, second], [[1.0], [1.0]], now_s=2.0, bandwidth=4.0, running_demand=6.0)
    jobs, overall, layer_s = compiled(view)
    a, b = (dict(zip(table.JOB, row, strict=True)) for row in jobs)
    assert layer_s == 1.0
    assert (a["time_left"], a["laxity"], a["work"], a["bytes"]) == (2.5, 1.5, 1.0, 0.5)
    assert a["laxity_ratio"] == pytest.approx(0.5 * 6.0 / 5.0)
    assert a["sjf_pressure"] == pytest.approx(3.0 / 6.0) and b["sjf_pressure"] == 0.0
    assert a["edf_pressure"] == 0.0 and b["edf_pressure"] == pytest.approx(4.0 / 17.0)
    assert b["edf_bytes_pressure"] == pytest.approx(2.0 / 17.0)
    assert (a["done"], b["done"], a["started"], b["started"]) == (pytest.approx(0.2), 0.0, 1.0, 0.0)
    assert a["intensity"] == pytest.approx(2.0 / 4.0)
    assert a["gap_deadline"] == -3.0 and a["gap"] == 0.0
    z = dict(zip(table.GLOBAL, overall, strict=True))
    assert (z["demand_share"], z["idle"], z["waiting"]) == (1.5, 1.0, 2.0)
    assert (z["backlog"], z["bytes_backlog"], z["crowded"]) == (7.0 / 4.0, 2.5 / 4.0, 0.0)


def test_promises_are_counted_in_requests_by_hand() -> None:
    # 40 requests in the window, 0.8 promised: 31 hits (one short), 32 (a miss breaks it), 34, 40; no promise.
    promise = {"slo": 0.8, "sli_count": 40, "iso_best_s": 4.0, "work_best_s": 2.0}
    rows = [job(gap=0.8 - hits / 40, request=n, **promise) for n, hits in enumerate((31, 32, 34, 40))]
    rows.append(job(request=4, iso_best_s=4.0, work_best_s=2.0))
    jobs, _, _ = compiled(make_view(None, rows, [[1.0]] * 5))
    x = {name: jobs[:, column] for column, name in enumerate(table.JOB)}
    np.testing.assert_allclose(x["owed"], [np.log(2.0), 0.0, 0.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(x["spare"], [0.0, 0.0, np.log(3.0), np.log(9.0), 0.0], atol=1e-12)
    assert x["close"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert x["sinks"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert x["thin"].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    half = -np.log(2.0)
    np.testing.assert_allclose(x["needy_size"], [half, half, 0.0, 0.0, 0.0])
    assert x["whole"].tolist() == [0.0] * 5 and x["needy_whole"].tolist() == [0.0] * 5


def test_names_are_distinct_and_indices_fit() -> None:
    assert len(set(table.JOB)) == len(table.JOB) and table.JOB[table.NEEDY_SIZE] == "needy_size"
    assert table.PAIR[table.SWITCH] == "switch" and table.GLOBAL[table.CROWDED] == "crowded"
    assert table.START[: len(table.PAIR)] == table.PAIR
