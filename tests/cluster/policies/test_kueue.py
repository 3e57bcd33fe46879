"""Kueue: the examples of its documentation, preemption by hand, and quotas as properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.kueue.allocator import Kueue
from eunomia.cluster.policies.kueue.book import Book
from eunomia.cluster.policies.kueue.model import ClusterQueue, QueueSetup, Quota
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.allocation import ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import ConfigError, UnknownNameError
from tests.cluster.policies.peer_views import check_legal, view_of
from tests.cluster.small import job, problem

A, B = ClusterQueue("tenant 0", {"gpu": Quota(9)}, "ab"), ClusterQueue("tenant 1", {"gpu": Quota(12)}, "ab")


def gpus(count: int, jobs: Sequence[tuple[int, int]], **more: object) -> ClusterView:
    """Jobs (tenant, devices) on one flavor; ``held``: rows that run."""
    held = more.pop("held", [])
    return view_of(
        Cluster.of({"gpu": count}), [[1.0]] * len(jobs), [100.0] * len(jobs), scale=[n for _, n in jobs],
        tenant=[t for t, _ in jobs], holdings=[(m, 0, jobs[m][1]) for m in held],  # type: ignore[attr-defined]
        arrival_s=more.pop("arrival_s", list(range(len(jobs)))), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def run(view: ClusterView, *queues: ClusterQueue, policy: Kueue | None = None, **setup: object) -> list[int]:
    """Devices of every job."""
    one = policy or Kueue(setup=QueueSetup(queues, **setup))  # type: ignore[arg-type]
    answer = one.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None
    return answer.devices.sum(axis=1).tolist()


def admitted(devices: list[int], view: ClusterView, tenant: int) -> int:
    return sum(n for n, t in zip(devices, view.tenant.tolist(), strict=True) if t == tenant)


# --- quotas, as the documentation's examples have them


@pytest.mark.parametrize(
    ("own", "other", "most"),
    [
        (Quota(9), Quota(12), 21),  # borrowing: 12 + 9
        (Quota(9, borrowing_limit=1), Quota(12), 10),  # borrowingLimit: 9 + 1
        (Quota(9), Quota(12, lending_limit=1), 10),  # lendingLimit: 9 + 1
        (Quota(9), Quota(12, lending_limit=0), 9),
        (Quota(0), Quota(12), 12),
    ],
)
def test_borrowing_and_lending_limits_of_the_documentation(own: Quota, other: Quota, most: int) -> None:
    view = gpus(40, [(0, 1)] * 30 + [(1, 40)])
    assert admitted(
        run(view, replace(A, quotas={"gpu": own}), replace(B, quotas={"gpu": other})), view, 0
    ) == most  # fmt: skip


def test_without_a_cohort_nothing_is_borrowed() -> None:
    view = gpus(21, [(0, 1)] * 30)
    assert sum(run(view, replace(A, cohort=""))) == 9


def test_quota_of_the_cohort_itself_is_lent_to_all() -> None:
    view = gpus(40, [(0, 1)] * 30)
    assert sum(run(view, A, cohort_quotas={"ab": {"gpu": 5}})) == 14


def test_queues_within_their_quota_come_before_those_that_borrow() -> None:
    """Tenant 0 uses its 9; a borrowing head of it came first, but tenant 1's is within its quota: 12 of 12."""
    jobs = [(0, 9), (0, 6), (1, 12)]
    assert run(gpus(21, jobs, held=[0]), A, B) == [9, 0, 12]


def test_strict_order_blocks_and_best_effort_passes() -> None:
    view = gpus(9, [(0, 6), (0, 5), (0, 2)])
    assert run(view, A) == [6, 0, 2]
    assert run(view, replace(A, strategy="StrictFIFO")) == [6, 0, 0]


def test_priority_goes_before_age() -> None:
    view = gpus(9, [(0, 6), (0, 6)], traits={"priority": [0.0, 5.0]})
    assert run(view, A) == [0, 6]


# --- preemption


@pytest.mark.parametrize(
    ("within", "priority", "devices"),
    [
        ("Never", [0.0, 0.0, 9.0], [4, 4, 0]),
        ("LowerPriority", [0.0, 0.0, 9.0], [4, 0, 4]),  # the one that was admitted later
        ("LowerPriority", [0.0, 1.0, 9.0], [0, 4, 4]),  # the one of lower priority
        ("LowerPriority", [0.0, 0.0, 0.0], [4, 4, 0]),
    ],
)
def test_within_a_queue(within: str, priority: list[float], devices: list[int]) -> None:
    policy = Kueue(setup=QueueSetup((replace(A, within=within),)))  # type: ignore[arg-type]
    jobs = [(0, 4), (0, 4), (0, 4)]
    traits = {"priority": priority}
    one = policy.allocate(gpus(9, jobs[:1], traits={"priority": priority[:1]}))
    assert one.devices is not None and one.devices.sum() == 4
    run(gpus(9, jobs[:2], traits={"priority": priority[:2]}, held=[0], now_s=5.0), policy=policy)
    assert run(gpus(9, jobs, traits=traits, held=[0, 1], now_s=9.0), policy=policy) == devices


def test_a_newer_workload_of_equal_priority_yields_where_the_policy_says_so() -> None:
    queue = replace(A, within="LowerOrNewerEqualPriority")
    view = gpus(9, [(0, 6), (0, 6)], arrival_s=[5.0, 1.0], held=[0], now_s=6.0)
    assert run(view, queue) == [0, 6]


@pytest.mark.parametrize(
    ("reclaim", "priority", "devices"),
    [
        ("Any", 0.0, [9, 0, 6, 6]),
        ("LowerPriority", 0.0, [9, 6, 6, 0]),
        ("LowerPriority", 1.0, [9, 0, 6, 6]),
        ("Never", 9.0, [9, 6, 6, 0]),
    ],
)
def test_a_queue_reclaims_what_others_borrowed(reclaim: str, priority: float, devices: list[int]) -> None:
    """Tenant 0 holds 15 with a quota of 9; tenant 1 holds 6 of its 12 and wants 6 more."""
    view = gpus(
        21, [(0, 9), (0, 6), (1, 6), (1, 6)], held=[0, 1, 2], traits={"priority": [0.0] * 3 + [priority]}
    )
    assert run(view, A, replace(B, reclaim=reclaim)) == devices  # type: ignore[arg-type]


def test_who_need_not_go_stays() -> None:
    """Priorities 0, 1, 2 of sizes 1, 2, 6 in the own queue; 6 are needed: the greedy three shrink to the last one."""
    view = gpus(
        9, [(0, 1), (0, 2), (0, 6), (0, 6)], held=[0, 1, 2], traits={"priority": [0.0, 1.0, 2.0, 9.0]}
    )
    assert run(view, replace(A, within="LowerPriority")) == [1, 2, 0, 6]


@pytest.mark.parametrize(("threshold", "devices"), [(None, [9, 0, 12]), (1.0, [9, 0, 12]), (0.0, [9, 12, 0])])
def test_borrowing_while_preempting(threshold: float | None, devices: list[int]) -> None:
    """Tenant 1 borrows with 12 of its 3; tenant 0 holds its 9 and wants 12 more: lower priorities may go."""
    a = replace(A, borrow_within="LowerPriority", max_priority_threshold=threshold, reclaim="LowerPriority")
    b = replace(B, quotas={"gpu": Quota(3)})
    view = gpus(21, [(0, 9), (1, 12), (0, 12)], held=[0, 1], traits={"priority": [9.0, 1.0, 5.0]})
    assert run(view, a, b, cohort_quotas={"ab": {"gpu": 9}}) == devices
    assert run(view, replace(a, borrow_within="Never"), b, cohort_quotas={"ab": {"gpu": 9}}) == [9, 12, 0]


# --- fair sharing


def test_shares_are_borrowed_over_lent_over_weight() -> None:
    book = Book(QueueSetup((A, replace(B, weight=2.0))), ("gpu",), np.array([21]))
    book.change(1, 0, 19)
    assert book.share(0) == 0.0 and book.share(1) == 7 / 21 / 2
    zero = Book(QueueSetup((A, replace(B, weight=0.0))), ("gpu",), np.array([21]))
    zero.change(1, 0, 12)
    assert zero.share(1) == 0.0
    zero.change(1, 0, 1)
    assert zero.share(1) == np.inf


def test_weights_divide_what_is_borrowed_as_in_the_proposal() -> None:
    """Devices of a cohort among weights 1, 1 and 3 (Kueue's proposal 1714, story 3, with a third of its devices).

    The first had them all, and its queue is long.
    """
    queues = [
        ClusterQueue(f"tenant {q}", {"gpu": Quota(0)}, "c1", weight=w, reclaim="Any")
        for q, w in enumerate([1.0, 1.0, 3.0])
    ]
    jobs = [(q, 1) for q in range(3) for _ in range(60)]
    view = gpus(50, jobs, held=list(range(50)))
    devices = run(view, *queues, cohort_quotas={"c1": {"gpu": 50}}, fair_sharing=True)
    assert [admitted(devices, view, q) for q in range(3)] == [10, 10, 30]
    from_nothing = gpus(50, jobs)
    devices = run(from_nothing, *queues, cohort_quotas={"c1": {"gpu": 50}}, fair_sharing=True)
    assert [admitted(devices, view, q) for q in range(3)] == [10, 10, 30]


@pytest.mark.parametrize(
    ("strategy", "devices"),
    [("LessThanOrEqualToFinalShare", [8, 0]), ("LessThanInitialShare", [0, 3])],
)
def test_a_big_borrower_goes_only_by_its_initial_share(strategy: str, devices: list[int]) -> None:
    """One workload of 8 out of 10 lent devices, a pending one of 3: without it the other's share would be 0 < 3/10."""
    queues = [ClusterQueue(f"tenant {q}", {"gpu": Quota(0)}, "c", reclaim="Any") for q in range(2)]
    setup = QueueSetup(tuple(queues), {"c": {"gpu": 10}}, True, (strategy,))  # type: ignore[arg-type]
    assert run(gpus(10, [(0, 8), (1, 3)], held=[0]), policy=Kueue(setup=setup)) == devices


# --- flavors


def test_flavors_in_the_order_of_the_queue() -> None:
    """5 spot, 5 reserved; quota 2 and 4. The gang of 4 borrows spot, or tries the next flavor, as the queue says."""
    view = view_of(
        Cluster.of({"spot": 5, "kept": 5}), [[1.0, 1.0]] * 2, [9.0] * 2, scale=[4, 1], tenant=[0, 1]
    )
    one = ClusterQueue("tenant 0", {"spot": Quota(2), "kept": Quota(4)}, "c")
    two = ClusterQueue("tenant 1", {"spot": Quota(3), "kept": Quota(1)}, "c")
    policy = Kueue(setup=QueueSetup((one, two)))
    first = policy.allocate(view).devices
    assert first is not None and first.tolist() == [[4, 0], [1, 0]]
    policy = Kueue(setup=QueueSetup((replace(one, when_can_borrow="TryNextFlavor"), two)))
    second = policy.allocate(view).devices
    assert second is not None and second.tolist() == [[0, 4], [1, 0]]


# --- properties


@st.composite
def setups(draw: st.DrawFn) -> tuple[QueueSetup, list[tuple[int, int]], list[float], int]:
    limits = st.one_of(st.none(), st.integers(0, 4))
    queues = tuple(
        ClusterQueue(
            f"tenant {q}", {"gpu": Quota(draw(st.integers(0, 6)), draw(limits), draw(limits))}, "c",
            draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO"])), draw(st.sampled_from(["Never", "LowerPriority"])),
            "Any", draw(st.sampled_from(["Never", "LowerPriority"])), weight=draw(st.sampled_from([0.0, 1.0, 3.0])),
        )
        for q in range(3)
    )  # fmt: skip
    jobs = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=2, max_size=14))
    jobs += [(2, 1)]  # views name tenants up to the last one
    priority = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(jobs), max_size=len(jobs)))
    return QueueSetup(queues, {}, draw(st.booleans())), jobs, priority, draw(st.integers(1, len(jobs)))


@given(setups())
@settings(max_examples=150, deadline=None)
def test_quotas_hold_and_own_quota_is_never_withheld(case: tuple) -> None:  # type: ignore[type-arg]
    """Limits as they are defined, after a first and a second wave of arrivals; who reclaims gets its nominal quota."""
    setup, jobs, priority, first = case
    nominal = [queue.quotas["gpu"].nominal for queue in setup.queues]
    capacity = max(sum(nominal), 1)
    policy, held, devices = Kueue(setup=setup), [], []
    for wave in (first, len(jobs)):
        view = gpus(capacity, jobs[:wave], held=held, traits={"priority": priority[:wave]}, now_s=float(wave))
        queues = setup.queues[: len(view.tenants)]
        view = replace(view, tenants=tuple(queue.name for queue in queues))
        before, devices = held, run(view, policy=policy)
        held = [m for m, n in enumerate(devices) if n]
    used = [admitted(devices, view, q) for q in range(3)]
    lent = 0
    for queue, n in zip(setup.queues, used, strict=True):
        quota = queue.quotas["gpu"]
        if quota.borrowing_limit is not None:
            assert n <= quota.nominal + quota.borrowing_limit
        lent += quota.lendable - max(n - quota.guaranteed, 0)
    assert lent >= 0
    fresh = [m for m in range(len(jobs)) if not devices[m] and m not in before]
    for m in fresh:
        queue, count = jobs[m]
        if setup.queues[queue].strategy == "BestEffortFIFO" and count <= capacity:
            assert used[queue] + count > nominal[queue]


def test_a_run_in_which_a_borrower_is_evicted_and_comes_back() -> None:
    """Two tenants, two devices each. x takes all four; y arrives at 10 s and reclaims two; x ends later."""
    p = problem(
        job("x1", 100.0, scale=2, tenant="x"), job("x2", 100.0, scale=2, tenant="x"),
        job("y", 100.0, scale=2, at=10.0, tenant="y"), fast=4, slow=1,
    )  # fmt: skip
    ledger = simulate_cluster(p, Kueue(), SimulationOptions()).ledger
    assert ledger.first_start_s.tolist() == [0.0, 0.0, 10.0]
    assert ledger.preemptions.sum() == 1 and not np.isnan(ledger.finish_s).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quota(-1), "nominal is -1"),
        (
            lambda: ClusterQueue("q", {}, strategy="FIFO"),
            "'q': strategy is 'FIFO'; choose one of: StrictFIFO",
        ),  # type: ignore[arg-type]
        (lambda: ClusterQueue("q", {}, weight=-1.0), "'q': weight is -1.0"),
        (lambda: QueueSetup((A, A)), "'tenant 0' is defined twice"),
        (lambda: run(gpus(9, [(0, 1)]), B), "tenant 'tenant 0' has no ClusterQueue; queues: tenant 1"),
        (lambda: Kueue(within="Always"), "within is 'Always'"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_said(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        make()
    with pytest.raises(
        UnknownNameError, match="flavor 'gpux' of ClusterQueue 'tenant 0'; did you mean 'gpu'"
    ):
        run(gpus(9, [(0, 1)]), replace(A, quotas={"gpux": Quota(1)}))
