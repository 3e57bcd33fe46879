"""Slurm: the fair-share factors of its documentation, priorities by hand, and backfill against a count by seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.slurm.allocator import Slurm
from eunomia.cluster.policies.slurm.fair_share import ShareTree, classic, fair_tree
from eunomia.cluster.policies.slurm.plan import ALL, EASY, NONE, plan, profiles
from eunomia.cluster.policies.slurm.usage import DecayedUsage
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError
from tests.cluster.policies.peer_views import check_legal, view_of

END_S = 400
ORDER_ONLY = {"age": 0.0, "fair_share": 0.0, "job_size": 0.0, "partition": 0.0, "qos": 0.0}

# --- fair share


def documented() -> tuple[ShareTree, np.ndarray]:
    """The example of Slurm's page on classic fair share: accounts A (B, C) and D (E, F), five users."""
    users = ("A/B/1", "A/C/2", "A/C/3", "D/E/4", "D/F/5")
    shares = {"A": 40.0, "D": 60.0, "A/B": 30.0, "A/C": 10.0, "D/E": 25.0, "D/F": 35.0}
    return ShareTree.of(users, shares), np.array([0.2, 0.25, 0.0, 0.25, 0.0])


def test_classic_factors_are_those_of_slurms_documentation() -> None:
    tree, used = documented()
    parts = np.append(used, 0.3)  # the example gives parts of the machine; user 6 has the rest of the usage
    whole = ShareTree.of(("A/B/1", "A/C/2", "A/C/3", "D/E/4", "D/F/5", "rest"), {
        "A": 40.0, "D": 60.0, "A/B": 30.0, "A/C": 10.0, "D/E": 25.0, "D/F": 35.0, "rest": 0.0})  # fmt: skip
    expected = [0.408479, 0.022097, 0.125, 0.5, 0.749154]
    assert classic(whole, parts)[:5] == pytest.approx(expected, abs=1e-4)  # the page rounds usage to 4 digits
    assert classic(whole, 7.0 * parts)[:5] == pytest.approx(classic(whole, parts)[:5])
    assert classic(tree, np.zeros(5)).tolist() == [1.0] * 5


def test_a_user_who_used_its_share_has_one_half_and_dampening_stretches() -> None:
    tree = ShareTree.of(("a", "b"), {"a": 3.0})
    assert classic(tree, np.array([3.0, 1.0])).tolist() == [0.5, 0.5]
    assert classic(tree, np.array([3.0, 1.0]), dampening=2.0) == pytest.approx([2**-0.5] * 2)


def test_fair_tree_ranks_all_of_a_better_account_first() -> None:
    """D used 25 of 70 with 60 of 100 shares, so E and F come first; in A, C used 25 of 45 with 10 of 40 shares."""
    tree, used = documented()
    assert fair_tree(tree, used).tolist() == [0.6, 0.2, 0.4, 0.8, 1.0]


def test_fair_tree_ties() -> None:
    """Level fair shares: user u 1/3 over 1/3 = account a's and b's; their children are merged and share ranks."""
    tree = ShareTree.of(("u", "a/x", "a/y", "b/z"), {})
    assert fair_tree(tree, np.array([2.0, 1.0, 1.0, 2.0])).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert fair_tree(tree, np.array([2.0, 2.0, 0.0, 2.0])).tolist() == [1.0, 0.5, 1.0, 0.75]
    assert fair_tree(tree, np.array([4.0, 1.0, 1.0, 0.0])).tolist() == [0.25, 0.75, 0.75, 1.0]


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6), st.lists(st.integers(1, 9), min_size=3, max_size=3)
)
def test_siblings_keep_their_order_down_to_their_users(used: list[int], shares: list[int]) -> None:
    users = ("a/1", "a/2", "b/1", "b/2", "c/1", "c/2")
    tree = ShareTree.of(users, dict(zip("abc", map(float, shares), strict=True)))
    factor = fair_tree(tree, np.array(used, float))
    total = max(sum(used), 1)
    per = [used[2 * i] + used[2 * i + 1] for i in range(3)]
    level = [np.inf if u == 0 else (shares[i] / sum(shares)) / (u / total) for i, u in enumerate(per)]
    for i in range(3):
        for k in range(3):
            if level[i] > level[k] * (1 + 1e-9):
                assert factor[2 * i : 2 * i + 2].min() > factor[2 * k : 2 * k + 2].max()
    assert factor.max() == 1.0 and factor.min() > 0.0


def test_shares_of_nobody_are_refused() -> None:
    with pytest.raises(ConfigError, match="'z', which no user's path contains"):
        ShareTree.of(("a/x",), {"z": 1.0})
    with pytest.raises(ConfigError, match="shares of 'a' are -1"):
        ShareTree.of(("a/x",), {"a": -1.0})


# --- usage


def one_job(left: float = 1e6, key: int = 0) -> ClusterView:
    return view_of(Cluster.of({"gpu": 2}), [[1.0]], [left], holdings=[(0, 0, 1)], key=[key])


def test_usage_halves_in_a_half_life_and_tends_to_rate_times_h_over_ln_2() -> None:
    usage = DecayedUsage(1, half_life_s=100.0)
    usage.watch(one_job(), np.array([[1]]), np.ones(1))
    usage.advance(1e5, {0})
    assert usage.value[0] == pytest.approx(100.0 / np.log(2.0))
    usage.watch(one_job(), np.array([[0]]), np.ones(1))
    before = usage.value[0]
    usage.advance(1e5 + 100.0, {0})
    assert usage.value[0] == pytest.approx(before / 2.0)


def test_slurms_periodic_decay_tends_to_ours() -> None:
    """U_H = current period + D * last period + ..., with 5-minute periods and a half-life of 7 days."""
    period_s, half_life_s = 300.0, 7 * 86_400.0
    usage = DecayedUsage(1, half_life_s)
    usage.watch(one_job(), np.array([[2]]), np.ones(1))
    usage.advance(3 * half_life_s, {0})
    stepped = 0.0
    for _ in range(int(3 * half_life_s / period_s)):
        stepped = stepped * 2.0 ** (-period_s / half_life_s) + 2.0 * period_s
    assert usage.value[0] == pytest.approx(stepped, rel=1e-3)


def test_a_job_that_ended_unseen_is_charged_for_what_it_had_left() -> None:
    usage = DecayedUsage(1, half_life_s=0.0)
    usage.watch(one_job(left=30.0), np.array([[1]]), np.ones(1))
    usage.advance(1000.0, {7})
    assert usage.value.tolist() == [30.0]


# --- priority


def test_priority_by_hand() -> None:
    """Two users of equal shares, one has used all; ages 1 and 2 days of 4; 2 and 1 of 8 devices, all on one node."""
    view = view_of(
        Cluster.of({"gpu": 8}), [[1.0]] * 2, [10.0] * 2, now_s=172_800.0, scale=[2, 1], tenant=[0, 1],
        arrival_s=[0.0, 86_400.0], traits={"qos_factor": [0.5, np.nan], "nice": [7.0, 0.0]},
    )  # fmt: skip
    policy = Slurm(1000, 10_000, 100, 50, 400, max_age_s=4 * 86_400.0, half_life_s=0.0)
    policy.priority(view)
    policy._usage.value[:] = [5.0, 0.0]
    assert policy.priority(view).tolist() == [500 + 5000 + 62 + 200 - 7, 250 + 10_000 + 56]
    assert Slurm(**ORDER_ONLY | {"job_size": 8.0}, favor_small=True).priority(view).tolist() == [3 - 7, 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tree": "fairtree"}, "tree is 'fairtree'; choose one of: fair_tree, classic"),
        ({"backfill": "lax"}, "backfill is 'lax'; choose one of: slurm, easy, conservative, none"),
        ({"age": -1.0}, "age is -1.0; it must be a finite number, at least 0"),
        ({"max_age_s": 0.0}, "max_age_s is 0.0; it must be a finite number, above 0"),
        ({"default_limit_s": float("nan")}, "default_limit_s is nan"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Slurm(**wrong)  # type: ignore[arg-type]


# --- the plan


def by_seconds(
    free: int, running: list[tuple[int, int]], jobs: list[tuple[int, int]], how: int
) -> list[int | None]:
    """Starts of jobs (length, count) in order, by counting free devices second by second."""
    seconds = np.full(END_S, free)
    for end, count in running:
        seconds[end:] += count
    starts: list[int | None] = []
    reserved = False
    for length, count in jobs:
        fits = [t for t in range(END_S - length) if seconds[t : t + length].min() >= count]
        start = fits[0] if fits else None
        if start is not None and start > 0 and how == EASY:
            start, reserved = (None, True) if reserved else (start, True)
        if start is not None and start > 0 and how == NONE:
            return starts + [None] * (len(jobs) - len(starts))
        if start is not None:
            seconds[start : start + length] -= count
        starts.append(start)
    return starts


def planned(
    free: int, running: list[tuple[int, int]], jobs: list[tuple[int, int]], how: int
) -> list[float | None]:
    table = np.array(running, np.int64).reshape(-1, 2)
    profile = profiles(
        0.0,
        np.array([free]),
        np.zeros(len(table), np.int64),
        table[:, 0].astype(float),
        table[:, 1],
        len(jobs),
    )
    length, count = np.array(jobs, np.int64).T
    start = np.full(len(jobs), np.inf)
    limit = length.astype(float)[:, None]
    kind = plan(np.ascontiguousarray(count), limit, np.ones_like(limit), profile, how, np.inf, start)
    return [float(s) if k >= 0 else None for k, s in zip(kind, start, strict=True)]


clusters = st.tuples(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=5),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=8),
)


@given(clusters, st.sampled_from([NONE, EASY, ALL]))
@settings(deadline=None)
def test_the_plan_is_that_of_counting_seconds(case: tuple, how: int) -> None:  # type: ignore[type-arg]
    assert planned(*case, how) == by_seconds(*case, how)


@given(clusters)
@settings(deadline=None)
def test_nobody_behind_delays_a_reservation(case: tuple) -> None:  # type: ignore[type-arg]
    """Everybody reserved: a start depends on those ahead alone. EASY: so does that of the first that waits."""
    free, running, jobs = case
    starts = planned(free, running, jobs, ALL)
    for n in range(1, len(jobs)):
        assert planned(free, running, jobs[:n], ALL) == starts[:n]
    easy = planned(free, running, jobs, EASY)
    head = next((n for n, s in enumerate(starts) if s is not None and s > 0), None)
    if head is not None:
        assert easy[: head + 1] == starts[: head + 1]


# --- whole runs


@dataclass
class Watched(Slurm):
    """Notes the first and the last reservation of every job, and who was the first that waited."""

    promised: dict[int, float] = field(default_factory=dict)
    heads: dict[int, float] = field(default_factory=dict)

    def allocate(self, view: ClusterView) -> Allocation:
        answer = super().allocate(view)
        assert answer.devices is not None
        check_legal(view, answer)
        if self.backfill == "conservative":
            for key, at in zip(view.key.tolist(), self._start.of(view.key).tolist(), strict=True):
                if np.isfinite(at):
                    self.promised.setdefault(key, at)
        return answer

    def _planned(self, view, order, limit_s, profile):  # type: ignore[no-untyped-def]
        kind, start = super()._planned(view, order, limit_s, profile)
        reserved = np.flatnonzero((kind >= 0) & (start > view.now_s))
        if len(reserved):
            self.heads.setdefault(int(view.key[order[reserved[0]]]), float(start[reserved[0]]))
        return kind, start


@st.composite
def limited_jobs(draw: st.DrawFn) -> ClusterProblem:
    jobs = []
    for n in range(draw(st.integers(2, 12))):
        run_s = draw(st.integers(1, 40))
        jobs.append(
            TrainingJob(
                str(n), "m", float(run_s), draw(st.sampled_from([1, 1, 2, 3, 4])), float(draw(st.integers(0, 60))),
                tenant=draw(st.sampled_from("xyz")),
                traits={"time_limit_s": float(run_s + draw(st.sampled_from([0, 0, 5, 30])))},
            )
        )  # fmt: skip
    table = ThroughputTable(tuple(("m", s) for s in (1, 2, 3, 4)), ("gpu",), np.ones((4, 1)))
    return build_problem(jobs, Cluster.of({"gpu": 4}), table)


@given(limited_jobs(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_kept_reservations_hold_for_everybody_under_any_priorities(p: ClusterProblem, fair: bool) -> None:
    policy = Watched(backfill="conservative", **({} if fair else ORDER_ONLY))
    ledger = simulate_cluster(p, policy, SimulationOptions()).ledger
    for key, at in policy.promised.items():
        assert ledger.first_start_s[key] <= at + 1e-6
    assert not np.isnan(ledger.finish_s).any()


@given(limited_jobs())
@settings(max_examples=60, deadline=None)
def test_easy_starts_the_head_by_its_reservation(p: ClusterProblem) -> None:
    """First come, first served: once first, always first, until it runs."""
    policy = Watched(backfill="easy", **ORDER_ONLY)
    ledger = simulate_cluster(p, policy, SimulationOptions()).ledger
    for key, at in policy.heads.items():
        assert ledger.first_start_s[key] <= at + 1e-6


def test_a_typed_gang_waits_for_its_type_and_others_fill_the_rest() -> None:
    """Job 0 wants 2 a100 of which one is held until its limit at 50 s; job 1 (10 s) fits before, job 2 (60 s) not."""
    cluster = Cluster.of({"a100": 2, "v100": 1})
    view = view_of(
        cluster, [[1.0, 0.0]] * 4, [30.0, 20.0, 5.0, 40.0], scale=[1, 2, 1, 1], holdings=[(0, 0, 1)],
        arrival_s=[0.0, 0.0, 1.0, 1.0], traits={"time_limit_s": [50.0, 20.0, 10.0, 60.0]},
    )  # fmt: skip
    answer = Slurm(backfill="easy", **ORDER_ONLY).allocate(view)
    assert answer.devices is not None and answer.devices[:, 0].tolist() == [1, 0, 1, 0]
    assert answer.devices[:, 1].tolist() == [0, 0, 0, 0]


def test_the_user_who_used_less_goes_first_and_half_lives_forgive() -> None:
    """One device. x ran for 1000 s; then a job of y overtakes one of x that came before it."""
    jobs = [
        TrainingJob("x0", "m", 1000.0, tenant="x"),
        TrainingJob("x1", "m", 10.0, arrival_s=1.0, tenant="x"),
        TrainingJob("y0", "m", 10.0, arrival_s=2.0, tenant="y"),
    ]
    table = ThroughputTable((("m", 1),), ("gpu",), np.ones((1, 1)))
    p = build_problem(jobs, Cluster.of({"gpu": 1}), table)
    for tree in ("fair_tree", "classic"):
        starts = simulate_cluster(p, Slurm(tree=tree), SimulationOptions()).ledger.first_start_s  # type: ignore[arg-type]
        assert starts.tolist() == [0.0, 1010.0, 1000.0]
    starts = simulate_cluster(p, Slurm(**ORDER_ONLY), SimulationOptions()).ledger.first_start_s
    assert starts.tolist() == [0.0, 1000.0, 1010.0]
