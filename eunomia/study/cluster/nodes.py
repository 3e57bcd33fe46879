"""Which nodes to rent for last month's jobs, under which policy: the least rent that keeps what is promised.

A set of nodes is refuted where no policy could keep the promises (see :mod:`.nodes_bound`). Else the log is replayed
under each policy until one keeps them. :mod:`.nodes_search` chooses the sets. It takes for granted that more nodes do
not break a promise: true of the bound, almost always true of a policy; promises of which it is not, such as
utilisation, are tried set by set. Jobs may run on any type; their run times scale with its speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from eunomia.cluster.options import SimulationOptions, Slowdown
from eunomia.cluster.problem import build_problem
from eunomia.cluster.traces.logged import logged
from eunomia.config.cluster import cluster_from
from eunomia.config.cluster_plan import ClusterPlanConfig, NodeConfig
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError, within
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.report.units import value_text
from eunomia.study.cluster.build import Prepared, resolve_allocator
from eunomia.study.cluster.nodes_bound import Needed, least_jct_mean_s, needed_for
from eunomia.study.cluster.nodes_result import Left, Looked, NodesResult, Replay
from eunomia.study.cluster.nodes_search import Counts, Market, Search, sets_within
from eunomia.study.cluster.run import run_prepared
from eunomia.study.cluster.status_quo import Log

GROWING = frozenset(  # promises that more nodes do not break
    ("finished", "unfinished", "dropped", "jct_mean_s", "jct_median_s", "jct_p95_s", "jct_p99_s", "jct_max_s")
    + ("wait_mean_s", "makespan_s", "slo_attainment")
)
FINE = 0.02  # head-room is found to two percent
STEPS = (1.1, 1.25, 1.5, 2.0, 3.0)
OnReplay = Callable[[int, str], None]  # how many replays are done, and of what


class Replays:
    """The log on sets of nodes, each replayed once."""

    def __init__(self, config: ClusterPlanConfig, on_done: OnReplay | None) -> None:
        self.config, self._on_done = config, on_done
        trace = Log(Path(config.log), config.format, config.columns, {}, config.jobs).read()
        free = np.full(len(trace), "", object)
        self.trace = replace(trace, more={**trace.more, "device": free})
        self.speed = {**config.speed, **{node.type: node.speed for node in config.node}}
        self.reference = config.reference or config.node[0].type
        self.found: dict[Counts, Replay] = {}
        self.never: dict[Counts, str] = {}  # refuted, with the reason
        self.remarks: tuple[str, ...] = ()
        self._done = 0
        self._order = list(config.policies)
        with within(f"plan of nodes '{config.name}': policies"):
            for policy in config.policies:
                resolve_allocator(policy)

    @cached_property
    def work(self) -> Floats:
        """(jobs,) device-seconds at speed 1."""
        bases = [self.speed.get(str(kind) or self.reference, 1.0) for kind in self._ran_on]
        return np.asarray(self.trace.duration_s * self.trace.gpus * np.array(bases))

    @property
    def _ran_on(self) -> list[object]:
        return list(self.trace.more.get("ran_on", [""] * len(self.trace)))

    @property
    def span_h(self) -> float:
        """From the first submission to the last, at least an hour."""
        return max(1.0, float(self.trace.arrival_s[-1] - self.trace.arrival_s[0]) / 3600.0)

    @cached_property
    def needed(self) -> Needed:
        """What a set must have for the promises, whoever schedules."""
        trace, promise = self.trace, self.config.promise.get("jct_mean_s", math.inf)
        return needed_for(trace.arrival_s, self.work, trace.gpus, promise)

    def refuted(self, counts: Counts) -> str:
        """Why no policy can keep the promises there; empty = no proof."""
        nodes = [(n, node) for n, node in zip(counts, self.config.node, strict=True) if n]
        largest = max(n * node.devices for n, node in nodes)
        if largest < self.trace.gpus.max():
            return f"a job asks for {int(self.trace.gpus.max())} devices of one type, there are {largest}"
        promise = self.config.promise.get("jct_mean_s", math.inf)
        alone_s = self.work / self.trace.gpus / max(node.speed for _, node in nodes)
        capacity = sum(n * node.devices * node.speed for n, node in nodes)
        least = least_jct_mean_s(self.trace.arrival_s, alone_s, self.work, capacity)
        if least <= promise * (1.0 + 1e-9):
            return ""
        best = value_text(CLUSTER_METRICS["jct_mean_s"], least)
        return f"an average JCT below {best} is impossible there, whoever schedules"

    def keeps(self, counts: Counts) -> bool:
        """Whether the promises hold there under some policy; refuted or replayed, and noted."""
        if counts in self.never or (why := self.refuted(counts)):
            self.never.setdefault(counts, why)
            return False
        if counts not in self.found:
            self.found[counts] = self.replay(counts)
        return self.found[counts].kept

    def replay(self, counts: Counts, faster: float = 1.0, policies: tuple[str, ...] = ()) -> Replay:
        """The policy with the best worst promise; the first that keeps all ends the search for one."""
        best: Replay | None = None
        for policy in policies or self._order:
            metrics = self._metrics(counts, policy, faster)
            margins = {
                name: _margin(name, value, metrics[name]) for name, value in self.config.promise.items()
            }
            short = min(margins, key=lambda name: margins[name])
            one = Replay(policy, metrics, margins[short] >= 0.0, short, margins[short])
            best = one if best is None or one.margin > best.margin else best
            if one.kept:
                self._order.sort(key=lambda name: name != policy)  # what did once is tried first
                break
        assert best is not None
        return best

    def _metrics(self, counts: Counts, policy: str, faster: float) -> dict[str, float]:
        nodes = [(n, node) for n, node in zip(counts, self.config.node, strict=True) if n]
        types = tuple(DeviceType(node.type, n * node.devices, node.devices) for n, node in nodes)
        trace = replace(self.trace, arrival_s=self.trace.arrival_s / faster)
        jobs, table, self.remarks = logged(trace, Cluster(types), self.speed, self.reference)
        options = SimulationOptions(events="at_once", slowdown=Slowdown("none"), record="leases")
        ready = Prepared(build_problem(jobs, Cluster(types), table), options, ())
        told = {
            "name": self.config.name,
            "device": [{"type": t.name, "count": t.count, "per_server": t.devices_per_server} for t in types],
            "throughputs": {"relative": {t.name: self.speed[t.name] for t in types}},
            "trace": {"path": str(self.config.log)},
        }
        found = run_prepared(cluster_from(told), ready, policy, 0).metrics
        self._done += 1
        if self._on_done is not None:
            self._on_done(self._done, f"replaying {len(jobs):,} jobs")
        return found


def plan_nodes(config: ClusterPlanConfig, on_done: OnReplay | None = None) -> NodesResult:
    """The least rent that keeps the promises. Raises ConfigError, TraceError for a question that cannot be asked."""
    replays = Replays(config, on_done)
    hours = config.hours or replays.span_h
    market = _market(config, hours)
    within, all_of_them = sets_within(market, market.rent)
    if not len(within):
        raise ConfigError(
            f"plan of nodes '{config.name}': no set of nodes is within [bounds]; raise them, or add a cheaper node"
        )
    needed = replays.needed
    search = Search(
        replace(market, capacity=needed.capacity),
        replays.keeps,
        partial(_passes, config.node, needed),
        GROWING.issuperset(config.promise),
        config.tries,
    ).run()
    answer = search.answer
    if not replays.found and not replays.never:
        replays.keeps(tuple(int(n) for n in within[(within @ np.array(market.gives)).argmax()]))
    carried = 1.0 if answer is None else _carried(replays, answer)
    looked = Looked(len(within), all_of_them, int((~_passes(config.node, needed, within)).sum()))
    left = Left(search.left, search.whole)
    return NodesResult(
        config, looked, left, answer, replays.found, replays.never, carried, hours, replays.remarks
    )


def _market(config: ClusterPlanConfig, hours: float) -> Market:
    nodes = config.node
    return Market(
        least=tuple(node.least for node in nodes),
        most=tuple(node.most for node in nodes),
        rents=tuple(node.rent_per_h for node in nodes),
        gives=tuple(node.devices * node.speed for node in nodes),
        rent=(config.bounds.cost or math.inf) / hours,
        nodes=config.bounds.nodes or math.inf,
    )


def _passes(nodes: Sequence[NodeConfig], needed: Needed, sets: Ints) -> Flags:
    """Sets that the bounds leave open."""
    devices, speed = np.array([node.devices for node in nodes]), np.array([node.speed for node in nodes])
    there = sets > 0
    return np.asarray(
        ((sets * devices).max(axis=1) >= needed.devices)
        & (sets @ (devices * speed) >= needed.capacity)
        & (np.where(there, speed, 0.0).max(axis=1) >= needed.speed)
    )


def _carried(replays: Replays, counts: Counts) -> float:
    """How many times the jobs per hour still keep the promises under the answer's policy, to FINE."""
    policy = (replays.found[counts].policy,)
    low, high = 1.0, math.inf
    for step in STEPS:
        if not replays.replay(counts, step, policy).kept:
            high = step
            break
        low = step
    while math.isfinite(high) and high - low > FINE:
        middle = (low + high) / 2
        low, high = (middle, high) if replays.replay(counts, middle, policy).kept else (low, middle)
    return low


def _margin(name: str, promised: float, found: float) -> float:
    """How much better than promised, as a share of it; nan counts as broken."""
    if math.isnan(found):
        return -math.inf
    better = promised - found if CLUSTER_METRICS[name].better == "lower" else found - promised
    return better / promised
