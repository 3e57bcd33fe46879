"""Random inference problems for hypothesis: networks, platforms, requests, options and policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.hardware.table import CostTable
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.reference import Rule
from eunomia.inference.reference.rules import DYNAMIC, PLACES, QUEUE_RULES, STATIC
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo


@dataclass(frozen=True)
class ToyPlatform:
    """The least that the engine asks of a platform."""

    types: tuple[str, ...]
    type_of: np.ndarray
    dram_bytes_s: float = 1.0
    contention: str = "none"
    slowdowns: Slowdowns | None = None


@dataclass(frozen=True)
class Case:
    """One drawn problem with everything needed to run it."""

    requests: RequestTable
    table: CostTable
    platform: ToyPlatform
    options: EngineOptions

    def problem(self) -> Problem:
        """A fresh problem: runs may change learned estimates in place."""
        return build_problem(self.requests, self.table, self.platform, self.options)


def layers(count: int) -> tuple[Layer, ...]:
    """Layers whose shapes do not matter."""
    return tuple(Layer(f"layer{i}", "elementwise", in_w=1 + i) for i in range(count))


def toy_table(
    models: list[DnnModel],
    types: tuple[str, ...],
    latency_s: np.ndarray,
    dram_bytes: np.ndarray | None = None,
    energy_j: np.ndarray | None = None,
    array_share: np.ndarray | None = None,
) -> CostTable:
    """Cost table with the given isolated latencies, all of it array time.

    With ``array_share`` (rows, types) < 1 the array needs only that share of the time and memory may
    be the bottleneck instead.
    """
    latency_s = np.asarray(latency_s, float)
    dram = np.zeros_like(latency_s) if dram_bytes is None else np.asarray(dram_bytes, float)
    share = np.ones_like(latency_s) if array_share is None else np.asarray(array_share, float)
    finite = np.where(np.isfinite(latency_s), latency_s, 1.0)
    link = np.maximum(1.001 * (dram / finite).max(axis=0), 1.0)
    compute = np.where(np.isfinite(latency_s), latency_s * share, np.inf)
    energy = np.ones_like(latency_s) if energy_j is None else np.asarray(energy_j, float)
    return CostTable(tuple(models), types, compute, np.zeros_like(latency_s), dram, energy, link)


def numbers(exact: bool, low: float, high: float) -> st.SearchStrategy[float]:
    """Times: multiples of 1/4, so that ties happen and sums are exact, or any floats, so that they do not."""
    if exact:
        return st.integers(max(1, int(low * 4)), int(high * 4)).map(lambda n: n / 4.0)
    return st.floats(low, high, allow_nan=False, exclude_max=True).map(lambda x: x * (1.0 + 1e-3 * np.pi))


@st.composite
def models(draw: st.DrawFn) -> list[DnnModel]:
    """One to three networks of one to six layers, with branches."""
    drawn = []
    for m in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 6))
        pairs = [(a, b) for b in range(count) for a in range(b)]
        if draw(st.booleans()):
            edges = [(i, i + 1) for i in range(count - 1)]
        else:
            edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8)) if pairs else []
        drawn.append(DnnModel(f"net{m}", layers(count), tuple(edges)))
    return drawn


@st.composite
def tables(draw: st.DrawFn, nets: list[DnnModel], types: tuple[str, ...], exact: bool) -> CostTable:
    """Costs with entries that cannot run, but for each layer at least one type that can."""
    rows, columns = sum(len(net.layers) for net in nets), len(types)
    latency = np.array([[draw(numbers(exact, 0.25, 4.0)) for _ in types] for _ in range(rows)])
    for row in range(rows):
        able = draw(st.integers(0, columns - 1))
        for column in range(columns):
            if column != able and draw(st.integers(0, 4)) == 0:
                latency[row, column] = np.inf
    floats = st.floats(0.0, 2.0).map(lambda x: 0.0 if x < 0.2 else x)
    demand = np.array([[draw(floats) for _ in types] for _ in range(rows)])
    shares = st.just(1.0) if exact else st.sampled_from([0.3, 0.8, 1.0])
    share = np.array([[draw(shares) for _ in types] for _ in range(rows)])
    dram = np.where(np.isfinite(latency), demand * np.where(np.isfinite(latency), latency, 0.0), 0.0)
    energy = np.array([[draw(st.floats(0.0, 5.0)) for _ in types] for _ in range(rows)])
    return toy_table(nets, types, latency, dram, energy, share)


def slowdowns(nets: list[DnnModel], seed: int) -> Slowdowns:
    """Of pairs, some below 1 as noise makes them; every other seed also of some companies of three."""
    rng, count = np.random.default_rng(seed), len(nets)
    pairs = tuple(tuple(rng.uniform(0.9, 2.5, count).tolist()) for _ in nets)
    threes = [
        (i, j, k, float(rng.uniform(0.9, 4.0)))
        for i in range(count)
        for j in range(count)
        for k in range(j, count)
    ]
    return Slowdowns(tuple(net.name for net in nets), pairs, tuple(threes[seed % 3 :: 2] if seed % 2 else ()))


@st.composite
def slos(draw: st.DrawFn) -> Slo | None:
    """No objective, or one of each kind, over short windows so that they turn over."""
    kind = draw(
        st.sampled_from([None, "hit_rate", "drop_rate", "latency_mean", "latency_percentile", "throughput"])
    )
    if kind is None:
        return None
    target = draw(st.floats(0.05, 1.0))
    return Slo(target, kind, percentile=draw(st.sampled_from([50.0, 95.0])), window_requests=draw(st.integers(1, 4)),
               window_s=draw(st.sampled_from([3.0, 10.0])))  # fmt: skip


@st.composite
def request_tables(draw: st.DrawFn, nets: list[DnnModel], exact: bool) -> RequestTable:
    """Open arrivals, some of them followed by closed-loop ones."""
    pairs = tuple(
        Agreement(
            f"tenant{i}",
            draw(st.sampled_from(nets)).name,
            draw(slos()),
            draw(st.sampled_from([0.0, 1.0, 3.0])),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    count = draw(st.integers(1, 12))
    gap = st.integers(0, 8).map(lambda n: n / 4.0) if exact else st.floats(0.0, 3.0).map(lambda x: x * 1.0313)
    arrivals = np.cumsum([draw(gap) for _ in range(count)])
    closed = draw(st.integers(0, min(4, count)))
    after = np.concatenate([np.full(count, -1), np.arange(closed)]).astype(np.int64)
    think = [draw(st.sampled_from([0.0, 0.5, 1.7])) for _ in range(closed)]
    total = count + closed
    deadline = st.one_of(st.just(np.inf), numbers(exact, 0.5, 30.0))
    return RequestTable(
        agreements=pairs,
        pair=np.array([draw(st.integers(0, len(pairs) - 1)) for _ in range(total)]),
        arrival_s=np.concatenate([arrivals, think]),
        relative_deadline_s=np.array([draw(deadline) for _ in range(total)]),
        after=after,
    )


DRAWN = ({"type0": (0.125, 0.375, 1.0)},)  # not where times are exact; the mean is
JITTERS, JITTERS_BY_LOT = (0.0, 0.0, 0.3, {"type0": 0.3}), ((0.5, 1.0, 1.5), {"type0": (1.0, 3.0)})


@st.composite
def estimators(draw: st.DrawFn, alike: bool) -> Estimator:
    """All modes; jitter on top of some. ``alike``: also those that begin with one estimate for all layers of a model.

    Sums of such estimates tie but for rounding, which engines may do in any order.
    """
    mode = draw(
        st.sampled_from(["exact", "exact", "lognormal", "bias", *(["ewma", "none"] if alike else [])])
    )
    bias = {"net0": 0.6} if mode == "bias" else {}
    by_lot = JITTERS_BY_LOT if mode not in ("ewma", "none") else ()  # few factors tie what such modes learn
    return Estimator(mode, sigma=0.4, bias=bias, alpha=0.3, jitter=draw(st.sampled_from((*JITTERS, *by_lot))))


@st.composite
def options(draw: st.DrawFn, exact: bool, periodic: bool, alike: bool) -> EngineOptions:
    """Everything that can be set; with ``exact`` nothing that makes times inexact."""
    period = draw(st.sampled_from([0.5, 1.0, 4.0]) if exact else st.floats(0.3, 5.0)) if periodic else None
    return EngineOptions(
        contention="none" if exact else draw(st.sampled_from(tuple(CONTENTION))),
        late=draw(st.sampled_from(["last", "run", "drop"])),
        drop_when=draw(st.sampled_from(["hopeless", "expired"])),
        period_s=period,
        period_mode=draw(st.sampled_from(["wait", "patch"])),
        period_cap=draw(st.sampled_from([1, 3, 64])),
        switch_s=draw(st.sampled_from([0.0, 0.0, 0.25, {"type0": 0.25}, *DRAWN[exact:]])),
        move_s=draw(st.sampled_from([0.0, 0.0, 0.5, {"type0": 0.25}, *DRAWN[exact:]])),
        refill=not exact and draw(st.booleans()),
        decision_s=draw(st.sampled_from([0.0, 0.0, 0.125])),
        estimator=Estimator() if exact else draw(estimators(alike)),
        sli_ewma=draw(st.sampled_from([None, None, 0.2])),
        seed=draw(st.integers(0, 5)),
        horizon_s=draw(st.sampled_from([None, None, None, 11.0])),
    )


@st.composite
def cases(
    draw: st.DrawFn, periodic: bool | None = None, alike: bool = True, exact: bool | None = None
) -> Case:
    """A whole problem. ``periodic``, ``exact`` None = either; ``alike``: see ``estimators``."""
    if exact is None:
        exact = draw(st.booleans())
    if periodic is None:
        periodic = draw(st.integers(0, 2)) == 0
    nets = draw(models())
    types = tuple(f"type{i}" for i in range(draw(st.integers(1, 3))))
    lanes = list(range(len(types))) + [
        draw(st.integers(0, len(types) - 1)) for _ in range(draw(st.integers(0, 5 - len(types))))
    ]
    platform = ToyPlatform(types, np.array(draw(st.permutations(lanes))), draw(st.floats(0.3, 4.0)),
                           slowdowns=slowdowns(nets, draw(st.integers(0, 99))))  # fmt: skip
    requests, costs = draw(request_tables(nets, exact)), draw(tables(nets, types, exact))
    return Case(requests, costs, platform, draw(options(exact, periodic, alike)))


@st.composite
def greedy_rules(draw: st.DrawFn) -> Rule:
    """Orders x placements."""
    return Rule(
        order=draw(st.sampled_from([*STATIC, *STATIC, *DYNAMIC])),
        place=draw(st.sampled_from(PLACES)),
        feasible=draw(st.booleans()),
        gate=draw(st.sampled_from([float("inf"), float("inf"), 0.9, 0.5])),
    )


@st.composite
def queue_rules(draw: st.DrawFn) -> Rule:
    """Load balancing."""
    return Rule(
        order=draw(st.sampled_from(STATIC)),
        place=draw(st.sampled_from(QUEUE_RULES)),
        throttle=draw(st.integers(1, 3)),
    )
