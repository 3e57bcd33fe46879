"""Nodes for a log's jobs: the least rent that a full search finds, bounds that hold, wrong questions in a sentence."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.config.cluster_plan import ClusterPlanConfig, cluster_plan_from
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.study.cluster import nodes_replay, nodes_search
from eunomia.study.cluster.nodes import plan_nodes
from eunomia.study.cluster.nodes_bound import least_jct_mean_s
from eunomia.study.cluster.nodes_replay import Replays
from eunomia.study.cluster.nodes_result import Left, Looked
from eunomia.study.cluster.nodes_search import MOST, Counts, Market, Search, sets_within
from tests.cluster import status_quo_logs as logs
from tests.shared_data import shared


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 jobs, 1 to 4 devices each, of unlike length."""
    path, rng = tmp_path_factory.mktemp("log") / "log.csv", np.random.default_rng(5)
    at = np.floor(np.cumsum(rng.exponential(120.0, 60)))
    rows = [f"{at[n]:g},{rng.choice([1, 2, 4])},{rng.integers(300, 7200)},t{n % 3}" for n in range(60)]
    path.write_text("\n".join(["submit,gpus,duration,tenant", *rows]) + "\n")
    return path


def question(log: Path, **changes: Any) -> ClusterPlanConfig:
    nodes = [
        {"type": "large", "devices": 4, "speed": 2.0, "most": 4, "rent_per_h": 9.0},
        {"type": "small", "devices": 4, "speed": 1.0, "most": 6, "rent_per_h": 4.0},
    ]
    given = {"name": "nodes", "log": str(log), "node": nodes, "promise": {"jct_mean_s": 3600.0},
             "reference": "small", "policies": ["backfill", "srtf"]}  # fmt: skip
    return cluster_plan_from({**given, **changes})


def test_it_finds_what_trying_everything_finds(log: Path) -> None:
    found = plan_nodes(question(log))
    assert found.counts is not None and found.refuted, "else the bound is not tested"
    replays = Replays(question(log), None)
    sets = list(itertools.product(range(5), range(7)))[1:]
    cheaper = [counts for counts in sets if found.rent(counts) < found.rent(found.counts)]
    assert found.looked == Looked(len(sets), True, sum(bool(replays.refuted(counts)) for counts in sets))
    assert not any(replays.refuted(counts) == "" and replays.replay(counts).kept for counts in cheaper)
    assert replays.replay(found.counts).kept
    assert found.sentences()[0].startswith(f"{found.label(found.counts)} under ")
    assert found.carried >= 1.0 and found.answer()["rent"] == found.rent(found.counts)
    verdicts = [row["verdict"] for row in found.rows()]
    assert verdicts.count("answer") == 1


class Beside:
    """Workers that note their waves; tasks go through pickle, as between processes."""

    waves: ClassVar[list[int]] = []

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
        self.waves.append(len(tasks))
        assert 1 <= len(tasks) <= self.count
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))) for task in tasks]


def test_the_answer_does_not_depend_on_the_number_of_processes(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle processes replay what may be asked for next; what nobody asks for changes nothing, failures included."""
    monkeypatch.setattr(nodes_replay, "Workers", Beside)
    monkeypatch.setattr(nodes_replay, "SLOW_S", 0.0)
    asked = question(log, jobs=12, promise={"wait_mean_s": 60.0})
    alone = plan_nodes(asked)
    for workers in (2, 5):
        Beside.waves.clear()
        together = plan_nodes(asked, workers=workers)
        assert together.answer() == alone.answer() and together.remarks == alone.remarks
        assert max(Beside.waves) == workers


def test_a_replay_that_nobody_asks_for_may_fail(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise EunomiaError("no such nodes")

    replays = Replays(question(log, jobs=30), None, 2)
    known = replays.bench.attempt(((1, 1), "srtf", 1.0))
    monkeypatch.setattr(replays.bench, "replay", fail)
    replays._known[(1, 1), "srtf", 1.0] = known
    failed = replays.bench.attempt(((1, 1), "backfill", 1.0))
    replays._known[(1, 1), "backfill", 1.0] = failed
    assert replays.replay((1, 1), policies=("srtf",)).policy == "srtf"
    with pytest.raises(EunomiaError, match="no such nodes"):
        replays.replay((1, 1), policies=("backfill",))


AWKWARD = """
from eunomia.core.errors import EunomiaError
from eunomia.contract.allocation import Needs

class Awkward(EunomiaError):
    def __init__(self, what, where):
        super().__init__(f"no {what} in {where}")

class Policy:
    needs = Needs()

    def reset(self, seed):
        pass

    def allocate(self, view):
        raise Awkward("shares", "the file")
"""


def test_an_error_from_another_process_keeps_its_text(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two real processes and an error whose class takes two arguments: before, unpickling it was a TypeError."""
    (tmp_path / "awkward.py").write_text(AWKWARD)
    policy = f"{tmp_path / 'awkward.py'}:Policy"
    monkeypatch.setattr(nodes_replay, "SLOW_S", 0.0)
    with Replays(question(log, jobs=5, policies=["srtf", policy]), None, 2) as replays:
        assert replays.replay((1, 1), policies=("srtf",)).policy == "srtf"
        assert replays._workers is not None
        with pytest.raises(EunomiaError, match="no shares in the file"):
            replays.replay((1, 1), policies=(policy,))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), machines=st.integers(1, 4))
def test_no_schedule_beats_the_bound(seed: int, machines: int) -> None:
    """First come, first served and shortest first on equal machines, jobs of one device each."""
    rng = np.random.default_rng(seed)
    arrival_s, run_s = np.sort(rng.integers(0, 50, 12)).astype(float), rng.integers(1, 30, 12).astype(float)
    bound = least_jct_mean_s(arrival_s, run_s, run_s, float(machines))
    for key in (lambda n: n, lambda n: run_s[n]):
        free, waiting, done, now = [0.0] * machines, list(range(12)), 0.0, 0.0
        while waiting:
            now = max(now, min(free), min(arrival_s[n] for n in waiting))
            ready = [n for n in waiting if arrival_s[n] <= now]
            job = min(ready, key=key)
            waiting.remove(job)
            free[free.index(min(free))] = now + run_s[job]
            done += now + run_s[job] - arrival_s[job]
        assert bound <= done / 12 + 1e-9
    one = np.array([0.0, 1.0, 2.0]), np.array([4.0, 1.0, 1.0])
    assert least_jct_mean_s(*one, one[1], 1.0) == pytest.approx((6 + 1 + 1) / 3)  # by hand


@st.composite
def markets(draw: st.DrawFn) -> tuple[Market, Callable[[Counts], bool]]:
    """A small catalogue, and promises that more nodes never break: every one of some demands is met."""
    types = draw(st.integers(1, 4))
    spans = [sorted(draw(st.tuples(st.integers(0, 4), st.integers(1, 4)))) for _ in range(types)]
    rents = draw(st.lists(st.integers(0, 9), min_size=types, max_size=types))
    gives = draw(st.lists(st.integers(1, 9), min_size=types, max_size=types))
    shares = st.lists(st.integers(0, 9), min_size=types, max_size=types)
    demands = draw(st.lists(st.tuples(shares, st.integers(0, 40)), min_size=1, max_size=3))
    market = Market(
        least=tuple(low for low, _ in spans),
        most=tuple(max(high, 1) for _, high in spans),
        rents=tuple(map(float, rents)),
        gives=tuple(map(float, gives)),
        rent=draw(st.sampled_from([np.inf, 20.0, 60.0])),
        nodes=draw(st.sampled_from([np.inf, 3, 7])),
        capacity=draw(st.sampled_from([0.0, 10.0])),
    )

    def keeps(counts: Counts) -> bool:
        return np.dot(counts, gives) >= market.capacity and all(
            np.dot(counts, share) >= asked for share, asked in demands
        )

    return market, keeps


@settings(max_examples=400, deadline=None)
@given(drawn=markets(), grows=st.booleans())
def test_the_search_finds_the_least_of_all(
    drawn: tuple[Market, Callable[[Counts], bool]], grows: bool
) -> None:
    """The slow twin looks at every set; without growth nothing may be concluded from another set."""
    market, keeps = drawn
    tried: list[Counts] = []

    def noted(counts: Counts) -> bool:
        tried.append(counts)
        return keeps(counts)

    found = Search(
        market, noted, lambda sets: sets @ np.array(market.gives) >= market.capacity, grows, 10_000
    ).run()
    spans = [range(low, high + 1) for low, high in zip(market.least, market.most, strict=True)]
    every = [counts for counts in itertools.product(*spans) if market.allows(counts)]
    least = min((market.rent_of(counts) for counts in every if keeps(counts)), default=None)
    assert found.left == 0 and found.whole
    assert (None if found.answer is None else market.rent_of(found.answer)) == least
    assert found.answer is None or keeps(found.answer)
    assert len(tried) <= len(every) + 6 * len(spans), "it tries no more than trying all"


@settings(max_examples=200, deadline=None)
@given(drawn=markets(), grows=st.booleans(), tries=st.integers(1, 8))
def test_what_is_left_open_is_counted(
    drawn: tuple[Market, Callable[[Counts], bool]], grows: bool, tries: int
) -> None:
    """Cheaper than the answer, open to the bound, and no failure says anything about them."""
    market, keeps = drawn
    failed: list[Counts] = []

    def noted(counts: Counts) -> bool:
        failed.extend([] if keeps(counts) else [counts])
        return keeps(counts)

    gives = np.array(market.gives)
    found = Search(market, noted, lambda sets: sets @ gives >= market.capacity, grows, tries).run()
    roof = np.inf if found.answer is None else market.rent_of(found.answer)
    spans = [range(low, high + 1) for low, high in zip(market.least, market.most, strict=True)]
    still = [
        counts
        for counts in itertools.product(*spans)
        if market.allows(counts) and market.rent_of(counts) < roof and counts @ gives >= market.capacity
        if not any(np.less_equal(counts, one).all() if grows else counts == one for one in failed)
    ]
    assert found.looked <= tries and found.left == len(still)


def test_many_sets_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 110 nodes of each of three types are 1.4 million sets; slices keep the same ones."""
    market = Market((0,) * 3, (110,) * 3, (3.0, 2.0, 5.0), (2.0, 1.0, 3.0))
    tracemalloc.start()
    try:
        sets, whole = sets_within(market, np.inf)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert len(sets) == MOST and not whole
    assert (sets @ np.array(market.gives)).min() >= 460.0, "those that give most are kept"
    monkeypatch.setattr(nodes_search, "SLICE", 10**9)
    assert np.array_equal(sets_within(market, np.inf)[0], sets)
    huge = Market((0,) * 3, (10_000,) * 3, (3.0, 2.0, 5.0), (2.0, 1.0, 3.0))
    with pytest.raises(ConfigError, match=r"makes 100,020,001 sets of 2 types alone, .* lower most of a"):
        sets_within(huge, np.inf)
    few = sum(3 * a + 2 * b + 5 * c <= 30 for a in range(11) for b in range(16) for c in range(7)) - 1
    assert len(sets_within(huge, 30.0)[0]) == few, "a bound on the rent leaves few"


def test_ten_types_need_few_tries() -> None:
    """6e10 sets, of which a promise asks for speed: what is found is within 2 % of a linear program's least."""
    rng = np.random.default_rng(3)
    gives = np.round(rng.uniform(1.0, 9.0, 10), 1)
    market = Market((0,) * 10, (11,) * 10, tuple(gives * rng.uniform(0.8, 1.3, 10)), tuple(gives))
    search = Search(
        market, lambda counts: float(np.dot(counts, gives)) >= 170.0, lambda x: np.ones(len(x), bool)
    )
    search.run()
    assert search.answer is not None and search.looked <= 300
    spent, left = 0.0, 170.0
    for at in np.argsort(np.divide(market.rents, gives)):
        taken = min(left, 11 * gives[at])
        spent, left = spent + taken * market.rents[at] / gives[at], left - taken
    assert spent <= market.rent_of(search.answer) <= 1.02 * spent


def test_utilisation_is_tried_set_by_set(log: Path) -> None:
    """More nodes are idle for longer: the least that keeps both promises is not on the edge of anything."""
    config = question(log, promise={"busy": 0.75, "jct_mean_s": 12_000.0})
    found, replays = plan_nodes(config), Replays(config, None)
    assert found.counts is not None
    for counts in itertools.product(range(5), range(7)):
        if sum(counts) and found.rent(counts) < found.rent(found.counts):
            assert not replays.keeps(counts)
    assert not replays.replay((4, 6)).kept


def test_what_is_not_tried_is_said(log: Path) -> None:
    found = plan_nodes(question(log, tries=2, promise={"wait_mean_s": 60.0}))
    assert len(found.replays) <= 2
    assert "sets were not tried: raise tries" in found.sentences()[-1]
    assert found.counts is None and found.left.sets
    assert found.sentences()[0].startswith("none of the sets tried keeps the promises; nearest are ")
    assert found.sentences()[0].endswith("; raise tries")
    rest = replace(found, left=Left(0, False))  # all that were kept apart were tried, and there are more
    assert rest.sentences()[0].endswith("; lower most of a [[node]], or bounds.cost")
    assert "; further sets were not looked at: lower most" in rest.sentences()[-1]
    none = replace(found, left=Left(0, True)).sentences()
    assert (
        none[0].startswith("no nodes within the bounds keep the promises; nearest") and "tries" not in none[1]
    )
    refuted = replace(found, replays={}, refuted={(1, 0): "why"}, left=Left(0, False))
    assert refuted.sentences()[0].startswith(
        "none of the sets looked at can keep the promises, not even 1 large"
    )


def test_the_largest_of_a_type_is_tried_first(tmp_path: Path) -> None:
    """Promises that more nodes may break: six small ones keep them, and five tries from the cheapest up miss it."""
    path, rng = tmp_path / "few.csv", np.random.default_rng(5)
    at = np.floor(np.cumsum(rng.exponential(120.0, 12)))
    rows = [f"{at[n]:g},{rng.choice([1, 2, 4])},{rng.integers(300, 7200)},t{n % 3}" for n in range(12)]
    path.write_text("\n".join(["submit,gpus,duration,tenant", *rows]) + "\n")
    found = plan_nodes(question(path, promise={"busy": 0.2, "wait_mean_s": 60.0}, tries=5))
    assert found.counts == (0, 6) and found.left.sets


def test_replays_of_refuted_nodes_break_the_promise(log: Path) -> None:
    config = question(log, policies=["srtf", "least_attained_service"])
    found, replays = plan_nodes(config), Replays(config, None)
    for counts in list(found.refuted)[-2:]:
        if "asks for" not in found.refuted[counts]:
            assert not replays.replay(counts).kept


def test_philly_on_rented_nodes() -> None:
    """Microsoft's log, its first 60 jobs: nobody here made it."""
    nodes = [
        {"type": "p100", "devices": 8, "most": 40, "rent_per_h": 11.0},
        {"type": "v100", "devices": 8, "speed": 2.0, "most": 3, "rent_per_h": 24.0},
    ]
    asked = {"name": "philly", "log": str(shared("traces/philly_reduced.csv")), "jobs": 60, "node": nodes}
    found = plan_nodes(
        cluster_plan_from({**asked, "promise": {"wait_mean_s": 7200.0}, "policies": ["backfill"]})
    )
    assert found.counts is not None
    assert found.replays[found.counts].metrics["wait_mean_s"] <= 7200.0
    assert len(found.replays) < found.looked.within / 2


WRONG = [
    ({"promise": {"jct_mean": 5.0}}, "did you mean 'jct_mean_s'"),
    ({"promise": {"solve_median_s": 5.0}}, "unknown metric 'solve_median_s'"),
    ({"promise": {}}, "promise is empty; give for example"),
    ({"policies": ["srtff"]}, "unknown cluster policy 'srtff'"),
    ({"reference": "k80"}, "reference is 'k80', which has no speed"),
    ({"bounds": {"cost": 0.01}}, r"no set of nodes is within \[bounds\]"),
    ({"node": [{"type": "a", "least": 5, "most": 2}]}, "least is 5 and most is 2"),
    ({"node": [{"type": "a"}, {"type": "a"}]}, "two entries of .* are of one type"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said[:20] for _, said in WRONG])
def test_a_wrong_question_is_one_sentence(log: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(EunomiaError, match=said) as caught:
        plan_nodes(question(log, **changes))
    assert "\n" not in str(caught.value)


def test_no_nodes_is_an_answer_with_a_reason(log: Path) -> None:
    found = plan_nodes(question(log, promise={"jct_mean_s": 60.0}))
    assert found.counts is None
    assert "no nodes within the bounds can keep the promises" in found.sentences()[0]
    assert "is impossible there, whoever schedules" in found.sentences()[0]
    with pytest.raises(ConfigError, match="promise.jct_mean_s is -1.0; it must be greater than 0"):
        question(log, promise={"jct_mean_s": -1.0})


def test_a_log_of_slurm_is_read(tmp_path: Path) -> None:
    path = logs.sacct(tmp_path, trained := logs.jobs()[:40], np.array([job.arrival_s for job in trained]))
    config = question(path, speed={"a100": 2.0, "v100": 1.0}, promise={"jct_p95_s": 20_000.0})
    assert plan_nodes(config).counts is not None
