"""Request tables: their rules, and how streams are merged into one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.workload.arrivals import Diurnal, Periodic, Poisson, Replay, bursty
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.deadlines import (
    IsolatedFactor,
    NoDeadline,
    Qos,
    QosIsolated,
    Window,
    Within,
    calibrate_alpha,
    named_deadline,
)
from eunomia.workload.generate import generate, stream_rng
from eunomia.workload.paced import AuroraStreams, MocaStreams
from eunomia.workload.requests import RequestTable
from eunomia.workload.stream import Draw, PriorityLevels, Stream
from eunomia.workload.tenant import Agreement, Slo

A, B = Agreement("cam", "resnet50", priority=3.0), Agreement("cam", "vgg16")
PINNED = [585025682, 182142765, 568492129]
ISO = {"resnet50": 0.004, "vgg16": 0.016}


class Stuck(MocaStreams):
    """Paced arrivals whose gaps are all 0."""

    def __init__(self) -> None:
        super().__init__(1.0)

    def mean_gap_s(self, chance, iso_s) -> float:
        return 0.0


def stream(*agreements: Agreement, arrivals=None, name: str = "", **more) -> Stream:
    draws = tuple(Draw(agreement) for agreement in agreements or (A,))
    return Stream(draws, arrivals or Poisson(50.0), name=name, **more)


def table(**columns) -> RequestTable:
    base = {"pair": [0, 1, 0], "arrival_s": [0.0, 1.0, 2.0], "relative_deadline_s": [math.inf, 1.0, 1.0]}
    return RequestTable((A, B), **{key: np.array(value) for key, value in (base | columns).items()})


def test_defaults_come_from_the_agreements():
    made = table()
    assert made.priority.tolist() == [3.0, 1.0, 3.0]
    assert made.after.tolist() == [-1, -1, -1] and not made.deferrable.any()
    assert made.deadline_s.tolist() == [math.inf, 2.0, 3.0]
    assert made.counts().tolist() == [2, 1] and len(made) == 3


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"pair": [0, 2, 0]}, "request 1 has pair 2, but there are 2 agreements"),
        ({"pair": [-1, 1, 0]}, "request 0 has pair -1"),
        ({"arrival_s": [0.0, -1.0, 2.0]}, "request 1 arrives at -1.0 s"),
        ({"arrival_s": [0.0, math.nan, 2.0]}, "request 1 arrives at nan s"),
        ({"arrival_s": [0.0, 1.0, math.inf]}, "request 2 arrives at inf s"),
        ({"arrival_s": [0.0, 2.0, 1.0]}, r"not sorted by arrival: row 2 \(1.0 s\)"),
        ({"arrival_s": [0.0, 2.0]}, "column arrival_s has 2 rows, pair has 3"),
        (
            {"relative_deadline_s": [1.0, 0.0, 1.0]},
            "request 1 has its deadline 0.0 s after its arrival, in the past",
        ),
        ({"relative_deadline_s": [1.0, 1.0, math.nan]}, "request 2 has its deadline nan"),
        ({"priority": [1.0, math.inf, 1.0]}, "request 1 has priority inf"),
        ({"after": [-1, 0, -1]}, "must stand behind the open-loop rows"),
        ({"after": [-1, 0, 0]}, "at most one other"),
        ({"after": [-1, 2, 1]}, "must stand behind it"),
    ],
)
def test_broken_columns_are_refused(columns, words):
    with pytest.raises(ConfigError, match=words):
        table(**columns)


def test_closed_rows_hold_think_times_in_any_order():
    made = table(arrival_s=[5.0, 1.0, 0.5], after=[-1, 0, 1])
    assert np.isnan(made.deadline_s[1:]).all() and made.after.tolist() == [-1, 0, 1]


# --- streams -> table


arrival_processes = st.sampled_from(
    [
        Poisson(20.0),
        bursty(20.0),
        Diurnal(20.0, 0.5, 5.0),
        Periodic(0.1, 0.3),
        Replay(np.array([0.0, 0.0, 0.4, 2.0]), loop=True),
        ClosedLoop(3, 0.3),
        ClosedLoop(2, 0.0, requests_per_client=4),
        MocaStreams(1.0, jitter_s=0.0),
        AuroraStreams(0.85, limit=30),
    ]
)


@st.composite
def mixes(draw):
    streams = []
    for k in range(draw(st.integers(1, 4))):
        pair = [Agreement(f"t{k % 2}", model) for model in ("resnet50", "vgg16")]
        window = draw(st.sampled_from([None, Window(1.0, 3.0)]))
        streams.append(
            stream(
                *pair[: draw(st.integers(1, 2))],
                arrivals=draw(arrival_processes),
                name=str(k),
                window=window,
                mix=draw(st.sampled_from(["requests", "work"])),
            )
        )
    return streams


@given(mixes(), st.floats(0.05, 6.0), st.integers(0, 2**40))
def test_any_mix_gives_a_legal_table_and_the_same_one_again(streams, duration_s, seed):
    made = generate(streams, duration_s, seed, iso_best_s=ISO)  # its constructor checks order and chains
    opened = made.after < 0
    assert (np.diff(made.arrival_s[opened]) >= 0.0).all()
    assert (made.arrival_s < duration_s).all()
    assert made.equals(generate(streams, duration_s, seed, iso_best_s=ISO))
    last = np.flatnonzero(~opened)
    assert (made.after[last] < last).all() and (made.pair[last] < len(made.agreements)).all()


@given(mixes(), st.integers(0, 1000))
def test_another_tenant_does_not_change_the_others(streams, seed):
    alone = generate(streams, 3.0, seed, iso_best_s=ISO)
    new = stream(Agreement("new", "resnet50"), arrivals=bursty(30.0))
    both = generate([new, *streams], 3.0, seed, iso_best_s=ISO)
    mine = np.array([agreement.tenant != "new" for agreement in both.agreements])[both.pair]
    assert np.array_equal(both.arrival_s[mine], alone.arrival_s)
    assert np.array_equal(both.relative_deadline_s[mine], alone.relative_deadline_s)
    names = [(a.tenant, a.model) for a in both.agreements]
    assert [names[p] for p in both.pair[mine]] == [
        (alone.agreements[p].tenant, alone.agreements[p].model) for p in alone.pair
    ]


def test_seeds_and_streams_differ():
    first = generate([stream(name="a"), stream(name="b")], 5.0, 1)
    assert not first.equals(generate([stream(name="a"), stream(name="b")], 5.0, 2))
    one = generate([stream(name="a")], 5.0, 1).arrival_s
    other = generate([stream(name="b")], 5.0, 1).arrival_s
    assert not np.array_equal(one, other)


def test_random_streams_do_not_depend_on_the_process():
    # a fixed value: a change of hashing or generator would silently change all published runs
    assert stream_rng(7, "gold", "", "arrivals").integers(0, 10**9, 3).tolist() == PINNED


def test_ties_keep_the_order_of_the_streams():
    clock = Periodic(0.5)
    made = generate([stream(B, arrivals=clock, name="b"), stream(A, arrivals=clock, name="a")], 1.0)
    assert made.agreements == (B, A) and made.pair.tolist() == [0, 1, 0, 1]


def test_draw_weights_are_shares_of_requests_or_of_work():
    draws = (Draw(A, 3.0), Draw(B, 1.0))
    by_requests = generate([Stream(draws, Poisson(1000.0))], 60.0).counts()
    assert by_requests[0] / by_requests.sum() == pytest.approx(0.75, abs=0.01)
    equal = (Draw(A), Draw(B))
    by_work = generate([Stream(equal, Poisson(1000.0), mix="work")], 60.0, iso_best_s=ISO).counts()
    assert by_work[0] / by_work.sum() == pytest.approx(0.8, abs=0.01)  # 1/4 : 1/16
    assert by_work[0] * 0.004 == pytest.approx(by_work[1] * 0.016, rel=0.05)


def test_deferrable_requests_have_their_window_as_deadline():
    made = generate([stream(window=Window(2.0, 6.0)), stream(B, name="now")], 200.0, 3)
    late = made.deferrable
    assert np.array_equal(late, made.pair == 0)
    assert made.relative_deadline_s[late].min() >= 2.0 and made.relative_deadline_s[late].max() <= 6.0
    assert made.relative_deadline_s[late].mean() == pytest.approx(4.0, abs=0.1)
    assert np.isinf(made.relative_deadline_s[~late]).all()
    fixed = generate([stream(window=Window.fixed(2.5))], 5.0)
    assert set(fixed.relative_deadline_s) == {2.5}


def test_priorities_can_be_drawn():
    levels = PriorityLevels((0.0, 9.0), (1.0, 3.0))
    made = generate([stream(arrivals=Poisson(1000.0), priorities=levels)], 20.0)
    assert set(made.priority) == {0.0, 9.0} and (made.priority == 9.0).mean() == pytest.approx(0.75, abs=0.02)


def test_closed_loop_rows_stand_behind_and_point_to_their_client():
    made = generate(
        [stream(B, arrivals=Poisson(30.0)), stream(arrivals=ClosedLoop(4, 0.5), name="clients")], 3.0, 5
    )
    closed = np.flatnonzero(made.after >= 0)
    assert closed[0] == (made.after < 0).sum()
    assert (made.pair[made.after[closed]] == made.agreements.index(A)).all()


def test_too_many_requests_are_refused_before_they_are_drawn():
    with pytest.raises(ConfigError, match="about 1e\\+12 requests in 1000 s, but at most 20000000"):
        generate([stream(arrivals=Poisson(1e9))], 1000.0)
    with pytest.raises(ConfigError, match="at most 100 are allowed"):
        generate([stream(arrivals=ClosedLoop(10, 0.1))], 100.0, max_requests=100)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: generate([stream()], 0.0), "duration_s is 0.0"),
        (lambda: generate([stream()], 1.0, -1), "seed is -1"),
        (lambda: generate([stream(), stream()], 1.0), "two streams named ''"),
        (
            lambda: generate([stream(), stream(Agreement("cam", "resnet50"), name="b")], 1.0),
            "two different agreements",
        ),
        (lambda: generate([stream(mix="work")], 1.0), "needs the isolated time of model 'resnet50'"),
        (lambda: generate([stream(arrivals=MocaStreams(1.0))], 1.0), "needs the isolated time"),
        (
            lambda: generate([stream(mix="work")], 1.0, iso_best_s={"resnet50": 0.0}),
            "isolated time of model 'resnet50' is 0",
        ),
        (lambda: generate([stream(arrivals=Stuck())], 1.0, iso_best_s=ISO), "never advance"),
        (lambda: Stream((), Poisson(1.0)), "no models"),
        (lambda: stream(A, Agreement("other", "vgg16")), "cam, other"),
        (lambda: stream(A, A), "draws model 'resnet50' twice"),
        (lambda: stream(mix="rows"), "choose one of: requests, work"),
        (lambda: Draw(A, 0.0), "draw weight of model 'resnet50' is 0.0"),
        (lambda: PriorityLevels((1.0,), (1.0, 2.0)), "1 priority levels but 2 weights"),
        (lambda: PriorityLevels((1.0,), (0.0,)), "at least one positive weight"),
    ],
)
def test_impossible_streams_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_no_stream_gives_an_empty_table():
    assert len(generate([], 1.0)) == 0


# --- deadlines


def test_deadline_rules_by_hand():
    assert NoDeadline().relative_s("x", None) == math.inf
    assert Within(40.0).relative_s("x", None) == 0.04
    assert Qos("h", "moca").relative_s("resnet50", None) == pytest.approx(0.8 * 0.050)
    assert Qos("l", "moca").relative_s("yolov2", None) == pytest.approx(1.2 * 0.0167)
    assert Qos("h", "aurora").relative_s("resnet50", None) == pytest.approx(0.83 * 0.025)
    assert QosIsolated("h", 5.0).relative_s("x", 0.010) == pytest.approx(0.8 * 5.0 * 0.010)
    assert IsolatedFactor(2.2).relative_s("x", 0.010) == pytest.approx(0.022)


def test_deadlines_by_name():
    assert named_deadline("qos_m") == Qos("m", "moca")
    assert named_deadline("qos_l", "aurora", alpha=3.0) == QosIsolated("l", 3.0, "aurora")
    assert named_deadline("none") == NoDeadline()
    with pytest.raises(UnknownNameError, match="did you mean 'qos_h'"):
        named_deadline("qos-h")
    with pytest.raises(UnknownNameError, match="unknown deadline table 'mocha'"):
        named_deadline("qos_h", "mocha")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Qos("m", "moca").relative_s("bert-base", None), "no base deadline in the moca table"),
        (lambda: IsolatedFactor(2.0).relative_s("x", None), "needs its isolated time"),
        (lambda: Within(0.0), "deadline_ms is 0.0"),
        (lambda: Window(3.0, 2.0), "below shortest_s"),
        (lambda: Qos("x", "moca"), "unknown QoS level 'x'"),  # type: ignore[arg-type]
    ],
)
def test_impossible_deadlines_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_alpha_is_the_smallest_that_reaches_the_target():
    def hits(alpha: float) -> float:
        return 1.0 - 1.0 / alpha  # reaches 0.75 at 4

    assert calibrate_alpha(hits, 0.75) == pytest.approx(4.0, rel=1e-6)
    assert calibrate_alpha(hits, 0.0) == 1.0
    with pytest.raises(ConfigError, match="lower the load"):
        calibrate_alpha(hits, 0.9999)


def test_slo_of_an_agreement_survives():
    promised = Agreement("cam", "resnet50", Slo(0.9))
    assert generate([stream(promised)], 1.0).agreements == (promised,)
