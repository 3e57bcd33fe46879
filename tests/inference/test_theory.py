"""Both engines against queueing theory and against laws that hold for every schedule."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Demand
from eunomia.hardware.table import CostTable
from eunomia.inference import reference
from eunomia.inference.by_type import ByType, Draw
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.reference import Rule
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement
from tests.inference.agreement import compiled, run_short
from tests.inference.strategies import Case, ToyPlatform, cases, greedy_rules, layers, toy_table

SEEDS = 10
STUDENT_999 = 4.781  # two-sided 99.9 % point of Student's t with 9 degrees of freedom
LAWS = settings(max_examples=60, derandomize=True, deadline=None)

Floats = np.ndarray


def exponential_sizes(count: int) -> Floats:
    """Means of ``count`` equally likely slices of an exponential distribution of mean 1."""
    edges = -np.log1p(
        -np.arange(count + 1) / count, where=np.arange(count + 1) < count, out=np.full(count + 1, -np.inf)
    )
    below = np.append(
        (1.0 + edges[:-1]) * np.exp(-edges[:-1]), 0.0
    )  # integral of x exp(-x) from each edge on
    return count * (below[:-1] - below[1:])


def queue(sizes: Floats, rate: float, count: int, servers: int, seed: int, **options: object) -> Case:
    """One-layer requests with sizes drawn uniformly from ``sizes``, Poisson arrivals, equal accelerators."""
    rng = np.random.default_rng(seed)
    models = [DnnModel(f"size{i}", layers(1), ()) for i in range(len(sizes))]
    requests = RequestTable(
        agreements=tuple(Agreement("tenant", model.name) for model in models),
        pair=rng.integers(0, len(sizes), count),
        arrival_s=np.cumsum(rng.exponential(1.0 / rate, count)),
        relative_deadline_s=np.full(count, math.inf),
    )
    latency = sizes[:, None]
    table = toy_table(models, ("type0",), latency, latency)  # every layer asks for 1 byte per second
    platform = ToyPlatform(("type0",), np.zeros(servers, np.int64), 1.0)
    return Case(requests, table, platform, EngineOptions(record="requests", seed=seed, **options))  # type: ignore[arg-type]


def responses(case: Case) -> tuple[Floats, Floats]:
    """Time in the system and time in the queue of every request, compiled engine, FCFS."""
    out = simulate_problem(case.problem(), compiled(Rule("fcfs")), case.options)
    arrival = case.requests.arrival_s
    return out.results["finish_s"] - arrival, out.results["start_s"] - arrival


def assert_mean(samples: list[float], expected: float, slack: float = 0.0) -> None:
    """The 99.9 % confidence interval over seeds covers the theory, and is narrow enough to mean something."""
    half = STUDENT_999 * float(np.std(samples, ddof=1)) / math.sqrt(len(samples))
    assert half < 0.12 * expected, f"interval of +-{half:.3g} around {np.mean(samples):.4g} is too wide"
    assert abs(np.mean(samples) - expected) <= half + slack * expected, (
        f"{np.mean(samples):.4g} +- {half:.2g}, not {expected:.4g}"
    )


def warm(values: Floats) -> float:
    """Mean without the first tenth."""
    return float(values[len(values) // 10 :].mean())


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_mm1_waiting_time(load: float) -> None:
    sizes = exponential_sizes(1000)
    waits = [warm(responses(queue(sizes, load, 40_000, 1, seed))[1]) for seed in range(SEEDS)]
    assert_mean(waits, load / (1.0 - load), slack=0.002)


@pytest.mark.parametrize(("servers", "load"), [(2, 0.8), (5, 0.7)])
def test_mmc_waiting_time(servers: int, load: float) -> None:
    offered = servers * load
    below = sum(offered**k / math.factorial(k) for k in range(servers))
    full = offered**servers / math.factorial(servers) / (1.0 - load)
    erlang_c = full / (below + full)
    sizes = exponential_sizes(1000)
    waits = [warm(responses(queue(sizes, offered, 40_000, servers, seed))[1]) for seed in range(SEEDS)]
    assert_mean(waits, erlang_c / (servers - offered), slack=0.002)


def test_md1_waiting_time() -> None:
    waits = [warm(responses(queue(np.ones(1), 0.8, 40_000, 1, seed))[1]) for seed in range(SEEDS)]
    assert_mean(waits, 0.8 / (2.0 * 0.2))


def test_mg1_waiting_time_with_jittered_layers() -> None:
    # Pollaczek-Khinchine: rate E[S^2] / (2 (1 - load)); a log-normal factor of mean 1 has E[S^2] = exp(sigma^2)
    sigma, load = 0.6, 0.7
    waits = [
        warm(responses(queue(np.ones(1), load, 40_000, 1, seed, estimator=Estimator(jitter=sigma)))[1])
        for seed in range(SEEDS)
    ]
    assert_mean(waits, load * math.exp(sigma**2) / (2.0 * (1.0 - load)))


@pytest.mark.parametrize("contention", ["proportional", "max_min", "roofline"])
@pytest.mark.parametrize("sizes", [np.ones(1), exponential_sizes(500)], ids=["fixed", "exponential"])
def test_memory_bound_layers_share_like_processor_sharing(contention: str, sizes: Floats) -> None:
    # Every layer asks for all of B and accelerators abound: n layers progress at 1/n each. M/G/1-PS has mean
    # response E[S] / (1 - load) whatever the distribution.
    load = 0.6
    means = [
        warm(responses(queue(sizes, load, 8_000, 40, seed, contention=contention))[0])
        for seed in range(SEEDS)
    ]
    assert_mean(means, 1.0 / (1.0 - load), slack=0.002)


def test_processor_sharing_slows_all_sizes_by_the_same_factor() -> None:
    sizes, load = np.array([0.25, 1.75]), 0.6
    slowdowns: dict[float, list[float]] = defaultdict(list)
    for seed in range(SEEDS):
        case = queue(sizes, load, 15_000, 40, seed, contention="proportional")
        response = responses(case)[0]
        for pair, size in enumerate(sizes):
            slowdowns[size].append(warm(response[case.requests.pair == pair]) / size)
    for samples in slowdowns.values():
        assert_mean(samples, 1.0 / (1.0 - load))


@pytest.mark.parametrize("engine", ["reference", "kernel"])
@pytest.mark.parametrize("servers", [1, 3])
def test_every_waiting_time_follows_the_recursion_of_kiefer_and_wolfowitz(engine: str, servers: int) -> None:
    case = queue(exponential_sizes(50), 0.9 * servers, 400, servers, seed=3)
    case = dataclasses.replace(case, options=EngineOptions())
    run = run_short(engine, case, Rule("fcfs"))
    starts = {request: start for request, _, _, start, _ in run.layers}
    free = [0.0] * servers
    size = case.table.latency_s[case.requests.pair, 0]
    for k, arrival in enumerate(case.requests.arrival_s):
        free.sort()
        begin = max(arrival, free[0])
        assert starts[k] == pytest.approx(begin, rel=1e-9)
        free[0] = begin + size[k]


def test_roofline_under_fair_grants_is_max_min_sharing() -> None:
    # g <= b = V / c gives V / g >= c >= k: the array's own time never shows. The same with proportional grants.
    rng = np.random.default_rng(0)
    for _ in range(200):
        running = []
        for _ in range(rng.integers(1, 7)):
            volume, floor, link = rng.uniform(0.1, 2.0), rng.uniform(0.1, 2.0), rng.uniform(0.5, 2.0)
            latency = max(floor, volume / link)
            running.append(Demand(volume / latency, 1.0, latency, floor, volume))
        for roofline, plain in (("roofline", "max_min"), ("roofline_proportional", "proportional")):
            expected = CONTENTION[plain].plain(running, 1.0, 8)
            assert CONTENTION[roofline].plain(running, 1.0, 8) == pytest.approx(expected)


@LAWS
@given(cases(), greedy_rules())
def test_schedules_are_feasible_and_work_is_conserved(case: Case, rule: Rule) -> None:
    problem = case.problem()
    out = simulate_problem(problem, compiled(rule), case.options)
    done = out.subjobs[np.isfinite(out.subjobs["end_s"])]
    assert len({(row["request"], row["layer"]) for row in done}) == len(done), "a layer ran twice"
    for lane in range(len(problem.type_of)):
        mine = np.sort(done[done["accelerator"] == lane], order="start_s")
        assert (mine["start_s"][1:] >= mine["end_s"][:-1] - 1e-9).all(), (
            f"accelerator {lane} is double-booked"
        )
    assert (done["start_s"] >= done["ready_s"] - 1e-9).all()
    assert (done["end_s"] - done["start_s"] >= done["work_s"] + done["switch_s"] - 1e-9).all()
    ran_s = (done["end_s"] - done["start_s"]).sum() + cut_off_s(out)
    assert out.busy_s.sum() == pytest.approx(ran_s, abs=1e-6)
    energy = defaultdict(float)
    for row in done:
        layer_row = row_of(case, int(row["request"]), int(row["layer"]))
        energy[int(row["request"])] += case.table.energy_j[layer_row, problem.type_of[row["accelerator"]]]
    for k, result in enumerate(out.results):
        assert result["energy_j"] == pytest.approx(energy[k])
    assert_order(case, done)


def row_of(case: Case, request: int, layer: int) -> int:
    """Row of the cost table behind a layer of a request."""
    name = case.requests.agreements[case.requests.pair[request]].model
    model = next(m for m, net in enumerate(case.table.models) if net.name == name)
    return int(case.table.offsets[model]) + layer


def cut_off_s(out: object) -> float:
    """Busy time of layers cut off by the horizon."""
    subjobs, end_s = out.subjobs, out.end_s  # type: ignore[attr-defined]
    return float((end_s - subjobs["start_s"][~np.isfinite(subjobs["end_s"])]).sum())


def assert_order(case: Case, done: np.ndarray) -> None:
    """No layer starts before its predecessors have ended; finished requests ran every layer."""
    end = {(int(row["request"]), int(row["layer"])): float(row["end_s"]) for row in done}
    for row in done:
        k, layer = int(row["request"]), int(row["layer"])
        net = case.table.models[next(m for m, n in enumerate(case.table.models)
                                     if n.name == case.requests.agreements[case.requests.pair[k]].model)]  # fmt: skip
        for before in net.predecessors[layer]:
            assert end[k, before] <= row["start_s"] + 1e-9


@LAWS
@given(cases(periodic=False), greedy_rules())
def test_any_idle_never_leaves_work_waiting_beside_an_idle_accelerator(case: Case, rule: Rule) -> None:
    rule = dataclasses.replace(rule, place="any_idle", gate=math.inf)
    run = reference.simulate(case.problem(), rule, case.options)
    dropped = {o.request: o.finish_s for o in run.outcomes if o.outcome == "dropped"}
    for waiting in run.intervals:
        row = row_of(case, waiting.request, waiting.layer)
        for lane, kind in enumerate(case.problem().type_of):
            if not np.isfinite(case.table.latency_s[row, kind]) or waiting.start_s <= waiting.ready_s:
                continue
            busy = sum(
                max(0.0, min(i.end_s or run.now_s, waiting.start_s) - max(i.start_s, waiting.ready_s))
                for i in run.intervals
                if i.accelerator == lane
            )
            assert busy == pytest.approx(waiting.start_s - waiting.ready_s), (
                f"accelerator {lane} idled; {dropped}"
            )


def scaled(case: Case, factor: float) -> Case:
    """The same problem in other units of time."""
    table, options = case.table, case.options
    slos = [
        agreement.slo
        and dataclasses.replace(
            agreement.slo,
            window_s=agreement.slo.window_s * factor,
            target=agreement.slo.target
            * {"throughput": 1.0 / factor, "latency_mean": factor, "latency_percentile": factor}.get(
                agreement.slo.kind, 1.0
            ),
        )
        for agreement in case.requests.agreements
    ]
    pairs = tuple(
        dataclasses.replace(a, slo=slo) for a, slo in zip(case.requests.agreements, slos, strict=True)
    )
    requests = RequestTable(pairs, case.requests.pair, case.requests.arrival_s * factor,
                            case.requests.relative_deadline_s * factor, after=case.requests.after)  # fmt: skip
    costs = CostTable(table.models, table.types, table.compute_s * factor, table.buffer_s * factor, table.dram_bytes,
                      table.energy_j, table.link_bytes_s / factor)  # fmt: skip
    platform = dataclasses.replace(case.platform, dram_bytes_s=case.platform.dram_bytes_s / factor)
    times = {
        name: getattr(options, name) * factor
        for name in ("period_s", "decision_s", "horizon_s")
        if getattr(options, name) is not None
    }
    switch_s, move_s = slower(options.switch_s, factor), slower(options.move_s, factor)
    return Case(
        requests, costs, platform, dataclasses.replace(options, switch_s=switch_s, move_s=move_s, **times)
    )


def slower(value: ByType, factor: float) -> ByType:
    """All numbers times the factor."""

    def one(draw: Draw) -> Draw:
        return tuple(number * factor for number in draw) if isinstance(draw, tuple) else draw * factor

    return {kind: one(draw) for kind, draw in value.items()} if isinstance(value, dict) else one(value)


@pytest.mark.parametrize("factor", [4.0, 2.0**-4])
@LAWS
@given(case=cases(), rule=greedy_rules())
def test_scaling_all_times_scales_the_results(factor: float, case: Case, rule: Rule) -> None:
    plain, other = run_short("kernel", case, rule), run_short("kernel", scaled(case, factor), rule)
    assert [row[:3] for row in plain.layers] == [row[:3] for row in other.layers]
    assert plain.outcomes == other.outcomes
    for mine, theirs in zip(plain.layers, other.layers, strict=True):
        assert np.multiply(mine[3:], factor) == pytest.approx(theirs[3:], rel=1e-8, abs=1e-8, nan_ok=True)


@LAWS
@given(cases(), greedy_rules())
def test_tenant_names_do_not_matter(case: Case, rule: Rule) -> None:
    pairs = tuple(
        dataclasses.replace(a, tenant=f"zz{i * 7 % 5}{i}") for i, a in enumerate(case.requests.agreements)
    )
    renamed = dataclasses.replace(case, requests=dataclasses.replace(case.requests, agreements=pairs))
    assert repr(run_short("kernel", case, rule)) == repr(run_short("kernel", renamed, rule))
