"""Gavel's policies against the same programmes written out plainly, on small random clusters, to 1e-6."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.gandiva import Gandiva
from eunomia.cluster.solver.programme import programme
from eunomia.cluster.solver.solve import solve_shares
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.contract.cluster import Cluster
from tests.cluster import plain as twin
from tests.cluster.peers import speeds, violation
from tests.cluster.plain import FORMS, fair_unit, one_speed, plain, seen, small_view

CLOSE = 1e-6
SUFFIX = {"agnostic": "", "aware": "_perf", "packed": "_packed"}


@st.composite
def views(draw: st.DrawFn, most: int = 6, even: bool = False) -> ClusterView:
    return small_view(draw(st.integers(0, 10**6)), draw(st.integers(1, most)), draw(st.integers(1, 3)), even)


def few(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None)


def answer(name: str, view: ClusterView, **given: object) -> Allocation:
    """The policy's answer: feasible, and never the isolated shares that stand in where no solver finds an optimum."""
    policy = allocator(name, **given)
    policy.reset(0)
    found = policy.allocate(view)
    assert violation(view, found.shares, found.pairs) <= 1e-12
    assert not [note for note in found.notes if "isolated" in note.text]
    return found


def reached(view: ClusterView, found: Allocation, speed: np.ndarray) -> np.ndarray:
    """Steps/s of each job by ``speed`` (M, J), and what it does in pairs."""
    pairs = speeds(view, found) - (view.throughput * found.shares).sum(axis=1)
    return (speed * found.shares).sum(axis=1) + pairs


@pytest.mark.parametrize("form", FORMS)
@given(view=views())
@few(15)
def test_max_min_fairness(form: str, view: ClusterView) -> None:
    speed = seen(view, form)
    unit = fair_unit(view, speed) * view.weight
    best = plain(view, form, speed).level(unit)
    found = answer(f"max_min_fairness{SUFFIX[form]}", view)
    assert found.objective == pytest.approx(best, rel=CLOSE)
    assert (reached(view, found, speed) / unit).min() == pytest.approx(best, rel=CLOSE)


@pytest.mark.parametrize("form", FORMS)
@given(view=views())
@few(15)
def test_makespan(form: str, view: ClusterView) -> None:
    speed = one_speed(view, form)
    best_s = 1.0 / plain(view, form, speed).level(view.steps_left)
    found = answer(f"min_total_duration{SUFFIX[form]}", view)
    assert found.objective == pytest.approx(best_s, rel=CLOSE)
    assert (view.steps_left / reached(view, found, speed)).max() == pytest.approx(best_s, rel=CLOSE)


@pytest.mark.parametrize("form", FORMS)
@given(view=views(4))
@few(20)
def test_finish_time_fairness(form: str, view: ClusterView) -> None:
    found = answer(f"finish_time_fairness{SUFFIX[form]}", view)
    assert found.objective == pytest.approx(twin.fair_rho(view, form), rel=CLOSE)


@given(view=views(4))
@few(8)
def test_agnostic_forms_by_the_speed_of_one_type(view: ClusterView) -> None:
    """As in Gavel, whose agnostic forms take one type's speed for all; where a job does not run there, the mean."""
    name = view.cluster.names[0]
    best_s = 1.0 / plain(view, "agnostic", one_speed(view, "agnostic", 0)).level(view.steps_left)
    assert answer("min_total_duration", view, reference_type=name).objective == pytest.approx(
        best_s, rel=CLOSE
    )
    rho = answer("finish_time_fairness", view, reference_type=name).objective
    assert rho == pytest.approx(twin.fair_rho(view, "agnostic", 0), rel=CLOSE)


@pytest.mark.parametrize("form", FORMS)
@given(view=views(5, even=True))
@few(12)
def test_water_filling(form: str, view: ClusterView) -> None:
    first, levels = twin.water_levels(view, form)
    found = answer(f"max_min_fairness_water_filling{SUFFIX[form]}", view)
    assert found.objective == pytest.approx(first, rel=CLOSE)
    speed = seen(view, form)
    assert reached(view, found, speed) / fair_unit(view, speed) == pytest.approx(levels, rel=CLOSE, abs=1e-6)


@pytest.mark.parametrize("within", ["fairness", "fifo"])
@pytest.mark.parametrize("form", ["aware", "packed"])
@given(view=views(5, even=True))
@few(15)
def test_hierarchy(form: str, within: str, view: ClusterView) -> None:
    """Two entities of weights 1 and 2; some views hold jobs of one entity only."""
    first, levels = twin.water_levels(view, form, within)
    found = answer("hierarchical", view, within=within, packed=form == "packed")
    assert found.objective == pytest.approx(first, rel=CLOSE)
    ours = speeds(view, found) / fair_unit(view, seen(view, form))
    assert ours == pytest.approx(levels, rel=CLOSE, abs=1e-6)


@given(view=views())
@few(15)
def test_sums_of_throughput(view: ClusterView) -> None:
    columns = plain(view, "aware")
    total, price = columns.speed.sum(axis=0), view.cluster.cost_per_hour[columns.type]
    assert answer("max_sum_throughput_perf", view).objective == pytest.approx(columns.most(total), rel=CLOSE)
    cheap = answer("max_sum_throughput_normalized_by_cost_perf", view).objective
    assert cheap == pytest.approx(columns.most(total / price), rel=CLOSE)
    fastest = np.where(view.runnable, view.throughput, 0.0).max(axis=1)
    for name, key in (("fifo", view.arrival_s), ("shortest_job", view.steps_left / fastest)):
        weight = np.empty(len(view))
        weight[np.argsort(key, kind="stable")] = np.arange(len(view), 0, -1)
        best = columns.most((weight / fastest) @ columns.speed)
        assert answer(f"{name}_programme", view).objective == pytest.approx(best, rel=CLOSE)


def kept_floors(view: ClusterView, found: Allocation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Speeds asked by deadlines, parts of them given up, and how long is left; as the notes tell."""
    left_s = np.where(np.isfinite(view.deadline_s), np.maximum(view.time_left_s, 0.0), np.inf)
    need = np.where(left_s > 0.0, view.steps_left / np.maximum(left_s, 1e-9), 0.0)
    part = np.zeros(len(view))
    for note in found.notes:
        for m, late_s in zip(note.jobs, note.values, strict=True) if note.kind == "relaxed" else ():
            part[m] = 1.0 if np.isinf(late_s) else late_s / (late_s + left_s[m])
    return need, part, left_s


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("max_sum_throughput_normalized_by_cost_perf_SLOs", "aware"),
        ("max_sum_throughput_normalized_by_cost_packed_SLOs", "packed"),
        ("max_throughput_cost_ratio_SLOs", "aware"),
    ],
)
@given(view=views())
@few(20)
def test_cost_with_deadlines(name: str, form: str, view: ClusterView) -> None:
    """Deadlines give up no more than they must, and what is left of them costs no more than it must."""
    found = answer(name, view)
    columns = plain(view, form)
    need, part, left_s = kept_floors(view, found)
    late = left_s == 0.0
    least = columns.least_relief(need, view.weight)
    assert (view.weight * part)[~late].sum() == pytest.approx(least, rel=CLOSE, abs=1e-6)
    assert (part[late] == 1.0).all()
    floor = need * (1.0 - part)
    assert (speeds(view, found) >= floor * (1.0 - CLOSE)).all()
    price = view.cluster.cost_per_hour
    if "ratio" in name:
        best = columns.best_ratio(price, floor * (1.0 - 1e-9))
    else:
        best = columns.most(columns.speed.sum(axis=0) / price[columns.type], floor * (1.0 - 1e-9))
    assert found.objective == pytest.approx(best, rel=CLOSE)


@given(view=views())
@few(15)
def test_cost_ratio_without_deadlines_is_the_cheapest_job_per_step(view: ClusterView) -> None:
    used = view.scale[:, None] * view.cluster.cost_per_hour / 3600.0
    best = (np.where(view.runnable, view.throughput, 0.0) / used).max()
    assert answer("max_throughput_cost_ratio", view).objective == pytest.approx(best, rel=CLOSE)
    assert plain(view, "aware").best_ratio(view.cluster.cost_per_hour, np.zeros(len(view))) == pytest.approx(
        best
    )


@given(view=views(4))
@few(10)
def test_strategy_proof_shares(view: ClusterView) -> None:
    """One programme with everybody and one without each; job i keeps prod_{m != i} thr(m) / thr(m without i)."""
    jobs = list(range(len(view)))
    best = twin.geometric(view, jobs)
    found = answer("max_min_fairness_strategy_proof", view)
    unit = fair_unit(view, seen(view, "aware")) * view.weight
    assert np.log(found.objective) == pytest.approx(np.log(best / unit).mean(), abs=CLOSE)
    kept = np.ones(len(view))
    for i in jobs if len(jobs) > 1 else []:
        others = [m for m in jobs if m != i]
        kept[i] = min(1.0, float(np.prod(best[others] / twin.geometric(view, others))))
    assert speeds(view, found) == pytest.approx(kept * best, rel=1e-4)


@given(view=views(4))
@few(20)
def test_allox_starts_what_an_optimal_plan_starts(view: ClusterView) -> None:
    """Every assignment of up to 4 jobs to devices, shortest first on each: the least sum of completion times."""
    view = replace(view, scale=np.ones(len(view), np.int64))
    kinds = np.repeat(np.arange(len(view.cluster.counts)), np.minimum(view.cluster.counts, len(view)))
    with np.errstate(divide="ignore"):
        time_s = (view.steps_left[:, None] / view.throughput)[:, kinds]
    least: dict[bytes, float] = {}  # by what starts now
    for choice in itertools.product(range(len(kinds)), repeat=len(view)):
        total, starts = 0.0, np.zeros(view.throughput.shape, np.int64)
        for d in set(choice):
            queue = sorted((time_s[m, d], m) for m in range(len(view)) if choice[m] == d)
            total += sum((len(queue) - k) * took for k, (took, _) in enumerate(queue))
            starts[queue[0][1], kinds[d]] = 1
        least[starts.tobytes()] = min(total, least.get(starts.tobytes(), np.inf))
    chosen = allocator("allox", alpha=1.0).allocate(view).devices
    assert least[chosen.tobytes()] == pytest.approx(min(least.values()))


@given(view=views(), slots=st.integers(1, 3))
@few(40)
def test_gandiva_packs_the_best_pairs_first(view: ClusterView, slots: int) -> None:
    """Hosts run in order of arrival; then, pair by pair, whoever together reaches most of their own speeds shares."""
    view = replace(view, up=np.minimum(view.up, slots))
    policy = Gandiva(pack_gain=1.1)
    policy.reset(0)
    found = policy.allocate(view)
    alone = Gandiva(pack=False)
    alone.reset(0)
    before = alone.allocate(view).devices
    hosts = {m: int(before[m].argmax()) for m in range(len(view)) if before[m].any()}
    guests = [m for m in range(len(view)) if m not in hosts]
    gains = []
    for a, j in hosts.items():
        for b in guests:
            one, two = view.beside[a, b, j], view.beside[b, a, j]
            if view.scale[a] == view.scale[b] and min(one, two) > 0.0:
                gains.append((one / view.throughput[a, j] + two / view.throughput[b, j], a, b))
    expected = set()
    for gain, a, b in sorted(gains, reverse=True):
        if gain > 1.1 and not any({a, b} & set(pair) for pair in expected):
            expected.add((a, b))
    made = (
        set()
        if found.pairs is None
        else set(zip(found.pairs.first.tolist(), found.pairs.second.tolist(), strict=True))
    )
    assert made == expected
    shared = {a for a, _ in made}
    for m in range(len(view)):
        assert found.devices[m].tolist() == ([0] * len(before[m]) if m in shared else before[m].tolist())


@given(view=views(9), threshold=st.sampled_from([1.1, 1.5]))
@few(40)
def test_packed_first_in_first_out(view: ClusterView, threshold: float) -> None:
    """In order of arrival: each job on its fastest type with room, up to the first that none has room for; from there
    on each joins the host with whom the sum of relative speeds is best, up to the first for whom none is enough."""
    free, at, line = view.cluster.counts.tolist(), {}, list(range(len(view)))
    while line and any(free):
        m = line[0]
        roomy = [j for j in range(len(free)) if free[j] >= view.scale[m]]
        if not roomy:
            break
        line.pop(0)
        able = [j for j in roomy if view.runnable[m, j]]
        if able:
            at[m] = max(able, key=lambda j: (view.throughput[m, j], -j))
            free[at[m]] -= int(view.scale[m])
    pairs: dict[int, int] = {}
    for m in line:
        gains = {}
        for host, j in at.items():
            one, two = view.beside[host, m, j], view.beside[m, host, j]
            if host not in pairs and view.scale[host] == view.scale[m] and min(one, two) > 0.0:
                gains[host] = one / view.throughput[host, j] + two / view.throughput[m, j]
        if not gains or max(gains.values()) <= threshold:
            break
        pairs[max(gains, key=lambda host: gains[host])] = m
    found = allocator("fifo_packed", threshold=threshold).allocate(view)
    made = (
        {}
        if found.pairs is None
        else dict(zip(found.pairs.first.tolist(), found.pairs.second.tolist(), strict=True))
    )
    assert made == pairs
    assert {m: int(row.argmax()) for m, row in enumerate(found.shares) if row.any()} == {
        m: j for m, j in at.items() if m not in pairs
    }


@given(view=views(9))
@few(40)
def test_sharing_incentive(view: ClusterView) -> None:
    """Equal weights, no clipped isolated row, room wherever a job runs: nobody is slower than with isolated shares."""
    fits = view.scale[:, None] <= view.cluster.counts
    view = replace(view, weight=np.ones(len(view)), throughput=np.where(fits, view.throughput, 0.0))
    assume((len(view) * view.scale >= view.cluster.counts.sum()).all())
    alone = speeds(view, answer("isolated", view))
    for name in ("max_min_fairness_perf", "max_min_fairness_water_filling_perf", "max_min_fairness_packed"):
        assert (speeds(view, answer(name, view)) >= alone * (1.0 - 1e-6)).all()


@given(view=views(), more=st.lists(st.integers(0, 3), min_size=3, max_size=3))
@few(30)
def test_more_devices_never_lower_the_level_with_the_normaliser_held(
    view: ClusterView, more: list[int]
) -> None:
    """On types where a job fitted before: a gang that fits only now would have no share of the old level."""
    speed = seen(view, "aware")
    counts = view.cluster.counts
    level = [
        solve_shares(
            programme(
                speed, view.scale, n, norm=1.0 / (fair_unit(view, speed) * view.weight), rise=1.0, reward=1.0
            )
        ).level
        for n in (counts, counts + more[: len(counts)])
    ]
    assert level[1] >= level[0] * (1.0 - CLOSE)


@given(view=views(), data=st.data())
@few(30)
def test_names_order_and_units_do_not_matter(view: ClusterView, data: st.DataObject) -> None:
    """Jobs and types in any order, a job's steps in other units: the same level, the same normalised throughputs."""
    jobs, kinds = np.arange(len(view)), np.arange(len(view.cluster.types))
    order, types = (np.array(data.draw(st.permutations(rows.tolist()))) for rows in (jobs, kinds))
    unit = np.array(data.draw(st.lists(st.floats(0.01, 100.0), min_size=len(view), max_size=len(view))))
    names = ("throughput", "scale", "weight", "row", "steps_left", "tenant")
    moved = replace(view, **{name: getattr(view, name)[order] for name in names})
    moved = replace(
        moved,
        cluster=Cluster(tuple(replace(view.cluster.types[j], name=f"npu {j}") for j in types)),
        throughput=moved.throughput[:, types] * unit[order, None],
        up=view.cluster.counts[types],  # one server per type
    )
    one, two = answer("max_min_fairness_perf", view), answer("max_min_fairness_perf", moved)
    assert two.objective == pytest.approx(one.objective, rel=CLOSE)
    one, two = (answer("max_min_fairness_water_filling_perf", v) for v in (view, moved))
    terms = [speeds(v, a) / fair_unit(v, seen(v, "aware")) for v, a in ((view, one), (moved, two))]
    assert terms[1] == pytest.approx(terms[0][order], rel=1e-4)
