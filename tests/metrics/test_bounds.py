"""Clairvoyant bounds: hand-worked values, proofs by weak duality, what must be monotone, errors."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError
from eunomia.inference.kernel.setup import GRACE_S as ENGINE_GRACE_S
from eunomia.metrics.bounds import Bound, BoundOptions, attainment_bound, hit_bound
from eunomia.metrics.bounds.formulate import cut, formulate
from eunomia.metrics.bounds.instance import build_instance
from eunomia.metrics.bounds.program import Builder, Program
from eunomia.metrics.bounds.solver import solve
from eunomia.metrics.bounds.windows import GRACE_S, cut_points, overlaps
from tests.metrics.tiny import Tiny, tiny

inf = math.inf


def bound(case: Tiny, weight: list[float] | None = None, **options: object) -> Bound:
    return hit_bound(
        case.request_table, case.table, case.platform, BoundOptions(**options),  # type: ignore[arg-type]
        weight=None if weight is None else np.array(weight),
    )  # fmt: skip


# --- hand-worked ------------------------------------------------------------------------------------


def test_one_accelerator_serves_as_many_as_fit() -> None:
    # three requests of 1 s, all due at 2 s
    found = bound(tiny([[[1.0]]], [(0, 0.0, 2.0)] * 3, [0]))
    assert (found.value, found.share, found.status) == (2.0, 2 / 3, "Optimal")
    assert found.proven == pytest.approx(2.0, abs=1e-6)
    assert found.objective == pytest.approx(2.0, abs=1e-6)
    assert found.violation < 1e-6


def test_half_a_request_does_not_count() -> None:
    # 1.5 s for two requests of 1 s: the relaxation serves one and a half
    case = tiny([[[1.0]]], [(0, 0.0, 1.5)] * 2, [0])
    found = bound(case, tight=False)
    assert found.proven == pytest.approx(1.5, abs=1e-6)
    assert found.value == 1.0
    assert bound(case).proven == pytest.approx(1.0, abs=1e-5)


def test_the_order_of_layers_counts_where_the_case_is_small() -> None:
    # 2 s and 2 s of work within 4 s of one accelerator, but the second request comes at 1 s and must end at 3 s
    case = tiny([[[2.0]]], [(0, 0.0, 4.0), (0, 1.0, 2.0)], [0])
    assert (bound(case, tight=False).value, bound(case).value) == (2.0, 1.0)


def test_bytes_move_while_their_layer_runs() -> None:
    # the first request alone may use the first two seconds, both share the third: 1 s of work each, of which only the
    # second's moves bytes, all of its window's; the first's 2 bytes have no work beside them before its last second
    rows, asks = [[[1.0], [1.0]], [[1.0]]], [[[0.0], [1.0]], [[1.0]]]
    case = tiny(rows, [(0, 0.0, 3.0), (1, 2.0, 1.0)], [0, 0], asks, bandwidth=1.0, contention="max_min")
    assert bound(case).value == 2.0
    late = replace(case, requests=[(0, 1.0, 2.0), (1, 2.0, 1.0)])
    assert bound(late, tight=False).value == 2.0
    assert bound(late, segments=2, tight=True).value == bound(late).value == 1.0


@pytest.mark.parametrize(("contention", "value"), [("proportional", 1), ("max_min", 1), ("roofline", 1), ("none", 2),
                                                   ("moca_literal", 2)])  # fmt: skip
def test_bandwidth_is_shared_where_the_mode_shares_it(contention: str, value: int) -> None:
    # two layers of 1 s side by side, each asking for all of B, both due after 1.5 s: 1.5 of 2 bytes can move
    case = tiny([[[1.0]]], [(0, 0.0, 1.5)] * 2, [0, 0], [[[1.0]]], bandwidth=1.0, contention=contention)
    assert bound(case).value == value
    assert bound(case, bandwidth_bytes_s=2.0).value == 2
    assert bound(case, contention="none").value == 2


@pytest.mark.parametrize(
    "options", [{}, {"merge": 0.1}, {"count_bytes": "least"}, {"segments": 8}, {"intervals": 3}]
)
def test_layers_of_unlike_types_are_not_summed(options: dict[str, object]) -> None:
    # each layer takes 1 s on its own type and 4 s on the other: 2 s in all, where summed rows would ask for 5 s
    case = tiny([[[1.0, 4.0], [4.0, 1.0]]], [(0, 0.0, 2.0)], [0, 1])
    assert bound(case, **options).value == 1.0


def test_merged_layers_count_for_the_least_that_each_allows() -> None:
    # 1 s each on the better type, 2 s in all; a group that took means would ask for 2.1 s
    case = tiny([[[1.0, 1.1], [1.1, 1.0]]], [(0, 0.0, 2.0)], [0, 1])
    assert bound(case, merge=0.3).value == 1.0


def test_a_request_that_cannot_be_served_even_alone_is_lost() -> None:
    found = bound(tiny([[[1.0, 4.0], [4.0, 1.0]]], [(0, 0.0, 1.99)], [0, 1]))
    assert (found.value, found.lost, found.status) == (0.0, 1, "Trivial")


@pytest.mark.parametrize(("type_of", "value"), [([0, 0], 1.0), ([0], 0.0)])
def test_branches_may_run_side_by_side(type_of: list[int], value: float) -> None:
    # two independent layers of 1 s, due after 1 s: two accelerators do it, one does not
    case = tiny([[[1.0], [1.0]]], [(0, 0.0, 1.0)], type_of, edges=[[]])
    assert bound(case).value == value


def test_the_grace_of_the_engine_is_granted() -> None:
    assert GRACE_S == ENGINE_GRACE_S
    assert bound(tiny([[[1.0]]], [(0, 0.0, 1.0 - 0.9e-9)], [0])).value == 1.0
    assert bound(tiny([[[1.0]]], [(0, 0.0, 1.0 - 2e-9)], [0])).value == 0.0


def test_segments_see_the_pipeline() -> None:
    # first layer on type 0 alone, second on type 1 alone, 1 s each; three requests due at 3 s. Type 1 idles in the
    # first second and type 0 is useless in the last: two requests. Without segments 3 s of each type look enough.
    case = tiny([[[1.0, inf], [inf, 1.0]]], [(0, 0.0, 3.0)] * 3, [0, 1])
    assert bound(case, tight=False).value == 3.0
    assert bound(case, segments=2, tight=False).value == 2.0
    assert bound(case, segments=8, tight=False).value == 2.0
    assert bound(case).value == 2.0


def test_bytes_move_within_the_window_even_in_a_long_interval() -> None:
    # one interval of 10 s; the request asks for 2 s of all bandwidth and has a window of 1.5 s for its 1 s of work
    case = tiny([[[1.0]], [[1.0]]], [(0, 0.0, 1.5), (1, 0.0, 10.0)], [0, 0], [[[2.0]], [[0.0]]], bandwidth=1.0,
                contention="proportional")  # fmt: skip
    assert bound(case, intervals=1).value == 1.0
    assert bound(case, intervals=1, contention="none").value == 2.0


def test_weights_choose_the_precious_request() -> None:
    # room for one of two requests
    case = tiny([[[1.0]]], [(0, 0.0, 1.0)] * 2, [0])
    assert bound(case, [5.0, 2.0]).value == 5.0
    assert bound(case, [0.25, 0.5]).value == pytest.approx(0.5, abs=1e-5)
    assert bound(case, [0.25, 0.5]).share == pytest.approx(2 / 3, abs=1e-5)


def test_requests_without_deadline_are_free_unless_the_run_is_cut_off() -> None:
    case = tiny([[[1.0]]], [(0, 0.0, inf)] * 3, [0])
    assert (bound(case).value, bound(case).free) == (3.0, 3)
    assert bound(case, horizon_s=2.0).value == 2.0


def test_no_requests() -> None:
    empty = bound(tiny([[[1.0]]], [], [0]))
    assert (empty.value, empty.share, empty.status) == (0.0, 1.0, "Trivial")


# --- tenants ----------------------------------------------------------------------------------------


def attained(target: float, window: float = 3.0) -> Bound:
    # two pairs of two requests of 1 s, one accelerator
    requests = [(m, 0.0, window) for m in (0, 1, 0, 1)]
    case = tiny([[[1.0]], [[1.0]]], requests, [0], slo=(target, target))
    return attainment_bound(case.request_table, case.table, case.platform)


def test_as_many_pairs_as_their_hits_fit() -> None:
    assert attained(1.0).value == 1.0  # 3 s: one pair's two requests, and one of the other
    assert attained(0.5).value == 2.0
    assert attained(0.51).value == 1.0  # asks for two of two
    assert attained(1.0, window=4.0).value == 2.0
    assert attained(1.0, window=0.5).value == 0.0
    assert attained(0.0, window=0.5).value == 2.0


def test_pairs_without_objective_do_not_count() -> None:
    case = tiny([[[1.0]]], [(0, 0.0, 2.0)], [0])
    found = attainment_bound(case.request_table, case.table, case.platform)
    assert (found.value, found.share) == (0.0, 1.0)


# --- proofs -----------------------------------------------------------------------------------------


def small_program() -> Program:
    # max 3 x + 2 y, x + y <= 4, x + 3 y <= 6, x - y >= -1, x <= 3, y <= 5: optimum 11 at (3, 1)
    build = Builder()
    xy = build.columns(np.array([3.0, 5.0]), np.array([3.0, 2.0]))
    rows = build.rows(np.array([-inf, -inf, -1.0]), np.array([4.0, 6.0, inf]))
    for row, values in zip(rows, ([1.0, 1.0], [1.0, 3.0], [1.0, -1.0]), strict=True):
        build.put(np.full(2, row), xy, np.array(values))
    return build.program()


def test_optimal_multipliers_prove_the_optimum() -> None:
    program, solution = small_program(), solve(small_program())
    assert solution.value == pytest.approx(11.0)
    assert program.proven(solution.multipliers) == pytest.approx(11.0, abs=1e-6)
    assert program.proven(np.array([2.0, 0.0, 0.0])) == pytest.approx(11.0)  # by hand: 2 * 4 + (3 - 2) * 3
    assert program.proven(np.zeros(3)) == pytest.approx(3 * 3 + 2 * 5)
    assert program.violation(np.array([3.0, 1.0])) == 0.0
    assert program.violation(np.array([3.0, 2.0])) == pytest.approx(3.0)  # 9 where 6 are allowed


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_any_multipliers_prove_a_bound(multipliers: list[float]) -> None:
    assert small_program().proven(np.array(multipliers)) >= 11.0


def test_multipliers_that_prove_nothing_are_left_out() -> None:
    assert small_program().proven(np.array([-1.0, np.nan, 3.0])) == small_program().proven(np.zeros(3))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-4, 0.1]))
def test_wrong_multipliers_weaken_a_bound_and_never_break_it(seed: int, size: float) -> None:
    case = tiny([[[1.0, 2.0]]], [(0, 0.3 * k, 2.0) for k in range(6)], [0, 1], [[[0.7, 0.5]]], bandwidth=0.8,
                contention="proportional")  # fmt: skip
    instance = build_instance(case.request_table, case.table, case.platform, BoundOptions())
    program = formulate(instance, cut(instance, None), 1.0).build.program()
    solution = solve(program)
    noise = np.random.default_rng(seed).normal(0.0, size, len(solution.multipliers))
    assert program.proven(solution.multipliers + noise) >= solution.value - 1e-9
    assert program.proven(solution.multipliers) == pytest.approx(solution.value, abs=1e-6)


def test_a_bound_that_ran_out_of_time_is_still_one() -> None:
    case = tiny([[[1.0]]], [(0, 0.1 * k, 1.5) for k in range(40)], [0])
    hurried = bound(case, time_limit_s=1e-9)
    assert hurried.status in ("Optimal", "Time limit reached")
    assert bound(case).value <= hurried.value <= 40


# --- windows ----------------------------------------------------------------------------------------


def test_overlaps_by_hand() -> None:
    window, interval, length = overlaps(
        np.array([0.0, 1.5]), np.array([2.0, 3.0]), np.array([0.0, 1.0, 2.0, 3.0])
    )
    assert list(zip(window, interval, length, strict=True)) == [(0, 0, 1), (0, 1, 1), (1, 1, 0.5), (1, 2, 1)]


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 20)), min_size=1, max_size=20),
    st.sampled_from([None, 0, 1, 7]),
)
def test_intervals_cover_every_window(windows: list[tuple[float, float]], intervals: int | None) -> None:
    start = np.array([a for a, _ in windows])
    end = start + np.array([w for _, w in windows])
    points = cut_points(start, end, intervals)
    assert (np.diff(points) > 0.0).all()
    window, _, length = overlaps(start, end, points)
    assert np.bincount(window, length, len(start)) == pytest.approx(end - start)


# --- monotone ---------------------------------------------------------------------------------------


@st.composite
def crowds(draw: st.DrawFn, count: int, most_layers: int) -> Tiny:
    """Requests of two models on two types."""
    time_s = st.floats(0.2, 2.0)
    demand = st.floats(0.0, 1.0).map(lambda x: 0.0 if x < 1e-3 else x)  # layers alike to 1e-300 form no group
    rows = [
        [[draw(time_s), draw(time_s)] for _ in range(draw(st.integers(1, most_layers)))] for _ in range(2)
    ]
    asks = [[[draw(demand) for _ in row] for row in model] for model in rows]
    requests = [
        (draw(st.integers(0, 1)), draw(st.floats(0.0, 4.0)), draw(st.floats(0.5, 6.0))) for _ in range(count)
    ]
    return tiny(rows, requests, [0, 1], asks, bandwidth=draw(st.floats(0.2, 1.5)), contention="proportional")


# A dozen requests under the linear program, and a few under the integer one, which takes 100 times as long for each
# request more.
LINEAR = st.tuples(crowds(12, 3), st.just(False))
INTEGER = st.tuples(crowds(4, 2), st.none())


def proven(case: tuple[Tiny, bool | None], **options: object) -> float:
    return bound(case[0], tight=case[1], **options).proven


@settings(max_examples=25, deadline=None)
@given(LINEAR | INTEGER, st.floats(1.0, 3.0), st.integers(0, 1))
def test_more_hardware_never_lowers_the_bound(
    case: tuple[Tiny, bool | None], factor: float, kind: int
) -> None:
    plain, (crowd, tight) = proven(case), case
    assert proven((replace(crowd, bandwidth=crowd.bandwidth * factor), tight)) >= plain - 1e-6
    assert proven((replace(crowd, type_of=[*crowd.type_of, kind]), tight)) >= plain - 1e-6


@settings(max_examples=25, deadline=None)
@given(LINEAR | INTEGER)
def test_what_is_said_to_loosen_never_tightens(case: tuple[Tiny, bool | None]) -> None:
    plain = proven(case)
    assert proven(case, merge=0.3) >= plain - 1e-4
    assert proven(case, count_bytes="least") >= plain - 1e-4
    assert proven(case, intervals=4) >= proven(case, intervals=8) - 1e-4
    assert proven(case, contention="none") >= plain - 1e-4
    assert proven(case, segments=4) <= plain + 1e-4


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"segments": -1}, "segments is -1"),
        ({"merge": -0.1}, "merge is -0.1"),
        ({"horizon_s": 0.0}, "horizon_s is 0.0"),
        ({"time_limit_s": -1.0}, "time_limit_s is -1.0"),
        ({"intervals": -3}, "intervals is -3"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        bound(tiny([[[1.0]]], [(0, 0.0, 2.0)], [0]), **options)


def test_unknown_names_and_weights() -> None:
    case = tiny([[[1.0]]], [(0, 0.0, 2.0)], [0])
    with pytest.raises(UnknownNameError, match="max_mim"):
        bound(case, contention="max_mim")
    with pytest.raises(UnknownNameError, match="bytes"):
        bound(case, count_bytes="all")
    with pytest.raises(ConfigError, match="weights must be 1"):
        bound(case, [1.0, 2.0])
    with pytest.raises(ConfigError, match="weights"):
        bound(case, [-1.0])


def test_a_missing_solver_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ConfigError, match=r"eunomia\[lp\]"):
        bound(tiny([[[1.0]]], [(0, 0.0, 2.0)] * 3, [0]))


def test_a_program_without_solution_is_an_error() -> None:
    build = Builder()
    x = build.columns(np.ones(1), 1.0)
    build.put(build.rows(np.array([2.0]), np.array([3.0])), x, 1.0)
    with pytest.raises(EunomiaError, match="Infeasible"):
        solve(build.program())
