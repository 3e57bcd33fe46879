"""One run as plain arrays: costs, graphs, requests, accelerators. Input of the kernel and of its twin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.slowdowns import Slowdowns
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.hardware.platform import PlatformLike, slowdowns_of
from eunomia.hardware.table import CostTable
from eunomia.inference.by_type import ByType, Draw, around_mean, means_of, of_types, over_mean
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import SLI_KINDS


class Costs(NamedTuple):
    """Rows are layers of all models (row = offset[model] + layer), columns the platform's types."""

    latency_s: Floats  # (rows, types) true c; inf = cannot run
    floor_s: Floats  # (rows, types) true k = max(compute, buffer)
    dram_bytes: Floats  # (rows, types)
    demand_bytes_s: Floats  # (rows, types) true b
    energy_j: Floats  # (rows, types)
    switch_s: Floats  # (rows, types) of a change of request: the type's, and input bytes / link bandwidth if refilled
    estimate_s: Floats  # (rows, types) c', what the scheduler believes; changes in ewma mode
    estimate_demand: Floats  # (rows, types) b' = dram_bytes / c'


class Graph(NamedTuple):
    """All networks in compressed sparse rows, and what remains from each layer on (estimates)."""

    offset: Ints  # (models + 1,)
    indegree: Ints  # (rows,)
    successor_start: Ints  # (rows + 1,)
    successor: Ints  # (edges,) layer index within the model
    best_s: Floats  # (rows,) least c' over types
    mean_s: Floats  # (rows,) mean c' over types able to run it
    path_best_s: Floats  # (rows,) longest path of best_s to an exit, this layer included
    path_mean_s: Floats  # (rows,)
    row_bytes: Floats  # (rows,) DRAM bytes on the type of least c'
    iso_best_s: Floats  # (models,) sum of best_s
    iso_mean_s: Floats  # (models,)


class Jobs(NamedTuple):
    """Requests and agreements."""

    pair: Ints  # (n,)
    model: Ints  # (n,) that of its pair, or another size of it
    arrival_s: Floats  # (n,) think time where closed loop
    relative_deadline_s: Floats  # (n,)
    priority: Floats  # (n,)
    deferrable: Ints  # (n,)
    next: Ints  # (n,) closed-loop request that this one's end sends; -1 = none
    num_open: int  # the first num_open requests arrive by the clock
    model_of: Ints  # (pairs,)
    tenant_of: Ints  # (pairs,)
    weight: Floats  # (pairs,)
    slo_kind: Ints  # (pairs,) index into SLI_KINDS; -1 = no SLO
    slo_target: Floats  # (pairs,) nan = no SLO
    slo_percentile: Floats  # (pairs,)
    slo_window: Ints  # (pairs,) requests
    slo_window_s: Floats  # (pairs,)


class Problem(NamedTuple):
    """Everything that is given before the run starts."""

    costs: Costs
    graph: Graph
    jobs: Jobs
    type_of: Ints  # (S,) accelerator -> column
    bandwidth_bytes_s: float
    contention: str
    table: CostTable
    requests: RequestTable
    columns: Ints  # platform type -> column of the table
    slowdowns: Slowdowns | None = None  # of the networks in order, where the contention model reads them


def build_problem(
    requests: RequestTable, table: CostTable, platform: PlatformLike, options: EngineOptions
) -> Problem:
    """Turn tables into arrays.

    Raises PlatformError when no accelerator present can run a layer, ConfigError for slowdowns that are not known.
    """
    columns = np.array([_column(table, name) for name in platform.types], np.int64)
    costs = _costs(table, columns, options)
    _check_runnable(table, costs, platform)
    bandwidth = options.bandwidth_bytes_s if options.bandwidth_bytes_s is not None else platform.dram_bytes_s
    contention = options.contention or platform.contention
    return Problem(
        costs=costs,
        graph=_graph(table, costs, exact=options.estimator.mode != "ewma"),
        jobs=_jobs(requests, table),
        type_of=np.ascontiguousarray(platform.type_of, np.int64),
        bandwidth_bytes_s=float(bandwidth),
        contention=contention,
        table=table,
        requests=requests,
        columns=columns,
        slowdowns=_slowdowns(contention, platform, table),
    )


def rehearsed(problem: Problem, requests: RequestTable, options: EngineOptions) -> Problem:
    """The same platform, networks and promises under other requests of the same agreements, with noise drawn anew."""
    jobs, before = _jobs(requests, problem.table), problem.jobs
    assert requests.agreements == problem.requests.agreements, "promises belong to agreements"
    kept = {name: getattr(before, name) for name in Jobs._fields if name.startswith("slo_")}
    made = problem._replace(jobs=jobs._replace(**kept), requests=requests)
    if options.estimator.mode != "lognormal":
        return made
    costs = _costs(problem.table, problem.columns, options)
    return made._replace(costs=costs, graph=_graph(problem.table, costs, exact=True))


class Noise(NamedTuple):
    """By type of the platform, what one execution differs by from what is known of it; ``draws``: of equal chance."""

    sigma: Floats  # (types,) of the log-normal factor on its true time
    move_s: Floats  # (types,) mean of what a request costs that leaves the type for another accelerator
    factors: list[Floats]  # draws of a factor on its true time, mean 1; none = always 1
    switches_s: list[Floats]  # draws of what a change of request differs by from its mean; none = always 0
    moves_s: list[Floats]  # the same for a change of accelerator


def noise_of(problem: Problem, options: EngineOptions) -> Noise:
    """What the options say; raises ConfigError for a type that has no costs."""
    known = problem.table.types
    types = [known[n] for n in problem.columns]

    def of(name: str, value: ByType) -> list[Draw]:
        return of_types(name, value, types, known)

    jitter, moves = of("estimator.jitter", options.estimator.jitter), of("move_s", options.move_s)
    return Noise(
        sigma=means_of([0.0 if isinstance(draw, tuple) else draw for draw in jitter]),
        move_s=means_of(moves),
        factors=over_mean(jitter),
        switches_s=around_mean(of("switch_s", options.switch_s)),
        moves_s=around_mean(moves),
    )


def _slowdowns(contention: str, platform: PlatformLike, table: CostTable) -> Slowdowns | None:
    if CONTENTION[contention].beside is None:
        return None
    found = slowdowns_of(platform)
    if found is None:
        raise ConfigError(
            f"contention '{contention}' reads slowdowns of networks, and this platform has none; "
            "give platform.slowdowns, or take another contention model"
        )
    return found.of([model.name for model in table.models])


def _column(table: CostTable, name: str) -> int:
    if name not in table.types:
        raise PlatformError(
            f"the cost table has no accelerator type '{name}'; it has: {', '.join(table.types)}"
        )
    return table.types.index(name)


def _check_runnable(table: CostTable, costs: Costs, platform: PlatformLike) -> None:
    present = np.unique(platform.type_of)
    stuck = np.flatnonzero(~np.isfinite(costs.latency_s[:, present]).any(axis=1))
    if len(stuck):
        model, layer = table.layer_at(int(stuck[0]))
        raise PlatformError(
            f"no accelerator of the platform ({', '.join(platform.types[t] for t in present)}) can run layer "
            f"'{model.layers[layer].name}' of model '{model.name}'"
        )


def _costs(table: CostTable, columns: Ints, options: EngineOptions) -> Costs:
    def pick(array: Floats) -> Floats:
        return np.ascontiguousarray(array[:, columns])

    latency = pick(table.latency_s)
    dram = pick(table.dram_bytes)
    types = [table.types[n] for n in columns]
    words = np.array([m.word_bytes * layer.input_elements for m in table.models for layer in m.layers])
    estimate = _estimate(table, latency, options.estimator, options.seed)
    refill_s = (
        words[:, None] / table.link_bytes_s[None, columns] if options.refill else np.zeros_like(latency)
    )
    return Costs(
        latency_s=latency,
        floor_s=pick(np.maximum(table.compute_s, table.buffer_s)),
        dram_bytes=dram,
        demand_bytes_s=pick(table.demand_bytes_s),
        energy_j=pick(table.energy_j),
        switch_s=means_of(of_types("switch_s", options.switch_s, types, table.types)) + refill_s,
        estimate_s=estimate,
        estimate_demand=np.where(np.isfinite(estimate), dram / estimate, 0.0),
    )


def _estimate(table: CostTable, latency: Floats, estimator: Estimator, seed: int) -> Floats:
    """The scheduler's prior belief c'."""
    if estimator.mode == "exact":
        return latency.copy()
    if estimator.mode == "lognormal":
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0xE57]))
        return np.asarray(latency * np.exp(estimator.sigma * rng.standard_normal(latency.shape)))
    estimate = latency.copy()
    known = {model.name for model in table.models}
    for name in estimator.bias:
        if name not in known:
            raise ConfigError(
                f"estimator bias names model '{name}', which no tenant uses: {', '.join(sorted(known))}"
            )
    for index, model in enumerate(table.models):
        rows = slice(table.offsets[index], table.offsets[index + 1])
        if estimator.mode == "bias":
            estimate[rows] *= estimator.bias.get(model.name, 1.0)
        else:  # none, ewma: one number per model
            finite = np.isfinite(latency[rows])
            estimate[rows] = np.where(finite, latency[rows][finite].mean(), np.inf)
    return estimate


def remaining_paths(offset: Ints, start: Ints, successor: Ints, time_s: Floats) -> Floats:
    """(rows,) longest path of ``time_s`` from each layer, included, to an exit of its model."""
    path = np.zeros_like(time_s)
    for model in range(len(offset) - 1):
        for row in range(offset[model + 1] - 1, offset[model] - 1, -1):
            after = [path[offset[model] + layer] for layer in successor[start[row] : start[row + 1]]]
            path[row] = time_s[row] + max(after, default=0.0)
    return path


def on_grid(time_s: Floats, offset: Ints) -> Floats:
    """Round to multiples of a power of two, 2^-50 of the largest model's total (an error of 1e-15 of it).

    Sums and differences of such numbers are exact. So remaining work does not depend on the order in which
    branches finish, and equal work gives equal keys.
    """
    total = float(np.add.reduceat(time_s, offset[:-1]).max())
    if total <= 0.0:
        return time_s
    step = 2.0 ** (np.ceil(np.log2(total)) - 50.0)
    return np.asarray(np.round(time_s / step) * step)


def _graph(table: CostTable, costs: Costs, exact: bool) -> Graph:
    after = [layer for model in table.models for layer in model.successors]
    start = np.cumsum([0, *map(len, after)], dtype=np.int64)
    successor = np.array([layer for layers in after for layer in layers], np.int64)
    finite = np.isfinite(costs.estimate_s)
    grid = on_grid if exact else lambda time_s, offset: time_s  # learned estimates are summed anew each time
    best = grid(costs.estimate_s.min(axis=1), table.offsets)
    mean = grid(np.where(finite, costs.estimate_s, 0.0).sum(axis=1) / finite.sum(axis=1), table.offsets)
    rows = np.arange(len(best))
    return Graph(
        offset=table.offsets,
        indegree=np.array([len(p) for model in table.models for p in model.predecessors], np.int64),
        successor_start=start,
        successor=successor,
        best_s=best,
        mean_s=mean,
        path_best_s=remaining_paths(table.offsets, start, successor, best),
        path_mean_s=remaining_paths(table.offsets, start, successor, mean),
        row_bytes=grid(costs.dram_bytes[rows, costs.estimate_s.argmin(axis=1)], table.offsets),
        iso_best_s=np.add.reduceat(best, table.offsets[:-1]),
        iso_mean_s=np.add.reduceat(mean, table.offsets[:-1]),
    )


def _models(requests: RequestTable, model_of: Ints, table: CostTable) -> Ints:
    """(n,) the model that each request runs; raises ConfigError for a size of another network than its pair's."""
    own = model_of[requests.pair]
    found = np.where(requests.size >= 0, requests.size, own)
    wrong = (found >= len(table.models)) | (
        table.network_of[np.minimum(found, len(table.models) - 1)] != table.network_of[own]
    )
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(
            f"request {row} runs model {found[row]} of the cost table, which is no size of its pair's network, "
            f"'{table.models[own[row]].name}'"
        )
    return found


def _jobs(requests: RequestTable, table: CostTable) -> Jobs:
    pairs = requests.agreements
    names = [model.name for model in table.models]
    tenants = list(dict.fromkeys(pair.tenant for pair in pairs))
    for pair in pairs:
        if pair.model not in names:
            raise ConfigError(
                f"tenant '{pair.tenant}' uses model '{pair.model}', which has no costs; known: {', '.join(names)}"
            )
    closed = np.flatnonzero(requests.after >= 0)
    following = np.full(len(requests), -1, np.int64)
    following[requests.after[closed]] = closed
    slos = [pair.slo for pair in pairs]
    model_of = np.array([names.index(pair.model) for pair in pairs], np.int64)
    return Jobs(
        pair=requests.pair,
        model=_models(requests, model_of, table),
        arrival_s=requests.arrival_s,
        relative_deadline_s=requests.relative_deadline_s,
        priority=requests.priority,
        deferrable=requests.deferrable.astype(np.int64),
        next=following,
        num_open=len(requests) - len(closed),
        model_of=model_of,
        tenant_of=np.array([tenants.index(pair.tenant) for pair in pairs], np.int64),
        weight=np.array([pair.weight for pair in pairs], np.float64),
        slo_kind=np.array([SLI_KINDS.index(s.kind) if s else -1 for s in slos], np.int64),
        slo_target=np.array([s.target if s else np.nan for s in slos], np.float64),
        slo_percentile=np.array([s.percentile if s else 95.0 for s in slos], np.float64),
        slo_window=np.array([s.window_requests if s else 100 for s in slos], np.int64),
        slo_window_s=np.array([s.window_s if s else 10.0 for s in slos], np.float64),
    )
