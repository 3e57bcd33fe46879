"""Replays of a log on sets of nodes: each once, on all cores where one takes long.

Verdicts come one after another, as each decides what comes next. While one is found, the other processes
replay what may be asked for next: the other policies on the same nodes, then the sets that the search names
(``ahead``). What they find is kept for later, so that the answer does not depend on their number.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np

from eunomia.cluster.options import SimulationOptions, Slowdown
from eunomia.cluster.problem import build_problem
from eunomia.cluster.traces.logged import logged
from eunomia.config.cluster import cluster_from
from eunomia.config.cluster_plan import ClusterPlanConfig, cluster_plan_from
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.arrays import Floats
from eunomia.core.errors import within
from eunomia.engines.crew import Workers
from eunomia.engines.pool import portable
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.report.units import value_text
from eunomia.study.cluster.build import Prepared, resolve_allocator
from eunomia.study.cluster.nodes_bound import Needed, least_jct_mean_s, needed_for
from eunomia.study.cluster.nodes_result import Replay
from eunomia.study.cluster.nodes_search import Counts
from eunomia.study.cluster.run import run_prepared
from eunomia.study.cluster.status_quo import Log

OnReplay = Callable[[int, str], None]  # how many replays are done, and of what
Ask = tuple[Counts, str, float]  # nodes, policy, times the jobs per hour
Found = tuple[dict[str, float], tuple[str, ...]]  # metrics, remarks
SLOW_S = 1.0  # of a replay: then further processes are worth their start


class Bench:
    """A log and what can be rented for it."""

    def __init__(self, config: ClusterPlanConfig) -> None:
        self.config = config
        trace = Log(Path(config.log), config.format, config.columns, {}, config.jobs).read()
        free = np.full(len(trace), "", object)
        self.trace = replace(trace, more={**trace.more, "device": free})
        self.speed = {**config.speed, **{node.type: node.speed for node in config.node}}
        self.reference = config.reference or config.node[0].type

    def replay(self, counts: Counts, policy: str, faster: float) -> Found:
        """The log on these nodes, its jobs so many times as dense."""
        nodes = [(n, node) for n, node in zip(counts, self.config.node, strict=True) if n]
        types = tuple(DeviceType(node.type, n * node.devices, node.devices) for n, node in nodes)
        trace = replace(self.trace, arrival_s=self.trace.arrival_s / faster)
        jobs, table, remarks = logged(trace, Cluster(types), self.speed, self.reference)
        options = SimulationOptions(events="at_once", slowdown=Slowdown("none"), record="leases")
        ready = Prepared(build_problem(jobs, Cluster(types), table), options, ())
        told = {
            "name": self.config.name,
            "device": [{"type": t.name, "count": t.count, "per_server": t.devices_per_server} for t in types],
            "throughputs": {"relative": {t.name: self.speed[t.name] for t in types}},
            "trace": {"path": str(self.config.log)},
        }
        return run_prepared(cluster_from(told), ready, policy, 0).metrics, remarks

    def attempt(self, ask: Ask) -> Found | Exception:
        """The same, or why it fails: nobody may ever ask for it."""
        try:
            return self.replay(*ask)
        except Exception as error:
            return error


@lru_cache(maxsize=2)
def _bench_of(text: str) -> Bench:
    """The bench of a question as JSON: its log is read once in each process."""
    return Bench(cluster_plan_from(json.loads(text)))


def _attempt_away(task: tuple[str, Ask]) -> Found | Exception:
    """A replay in another process; an error that cannot be sent comes back as its text."""
    found = _bench_of(task[0]).attempt(task[1])
    return portable(found) if isinstance(found, Exception) else found


class Replays:
    """Verdicts on sets of nodes. Use it in a ``with`` block where ``workers`` is more than 1."""

    def __init__(self, config: ClusterPlanConfig, on_done: OnReplay | None = None, workers: int = 1) -> None:
        self.config, self._on_done, self._size = config, on_done, workers
        self.bench = Bench(config)
        self.found: dict[Counts, Replay] = {}
        self.never: dict[Counts, str] = {}  # refuted, with the reason
        self.remarks: tuple[str, ...] = ()
        self.ahead: Sequence[tuple[Counts, float]] = ()  # nodes and traffic that may be asked for next
        self._known: dict[Ask, Found | Exception] = {}
        self._workers: Workers | None = None
        self._order = list(config.policies)
        with within(f"plan of nodes '{config.name}': policies"):
            for policy in config.policies:
                resolve_allocator(policy)

    def __enter__(self) -> Replays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.__exit__(kind, error, trace)

    @cached_property
    def work(self) -> Floats:
        """(jobs,) device-seconds at speed 1."""
        trace, bench = self.bench.trace, self.bench
        ran_on = trace.more.get("ran_on", [""] * len(trace))
        bases = [bench.speed.get(str(kind) or bench.reference, 1.0) for kind in ran_on]
        return np.asarray(trace.duration_s * trace.gpus * np.array(bases))

    @property
    def span_h(self) -> float:
        """From the first submission to the last, at least an hour."""
        arrival_s = self.bench.trace.arrival_s
        return max(1.0, float(arrival_s[-1] - arrival_s[0]) / 3600.0)

    @cached_property
    def needed(self) -> Needed:
        """What a set must have for the promises, whoever schedules."""
        trace, promise = self.bench.trace, self.config.promise.get("jct_mean_s", math.inf)
        return needed_for(trace.arrival_s, self.work, trace.gpus, promise)

    def refuted(self, counts: Counts) -> str:
        """Why no policy can keep the promises there; empty = no proof."""
        trace = self.bench.trace
        nodes = [(n, node) for n, node in zip(counts, self.config.node, strict=True) if n]
        largest = max(n * node.devices for n, node in nodes)
        if largest < trace.gpus.max():
            return f"a job asks for {int(trace.gpus.max())} devices of one type, there are {largest}"
        promise = self.config.promise.get("jct_mean_s", math.inf)
        alone_s = self.work / trace.gpus / max(node.speed for _, node in nodes)
        capacity = sum(n * node.devices * node.speed for n, node in nodes)
        least = least_jct_mean_s(trace.arrival_s, alone_s, self.work, capacity)
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

    def expect(self, sets: Sequence[Counts], faster: Sequence[float] = (1.0,)) -> None:
        """What may be asked for next: idle processes replay it."""
        self.ahead = [(counts, factor) for counts in sets for factor in faster]

    def replay(self, counts: Counts, faster: float = 1.0, policies: tuple[str, ...] = ()) -> Replay:
        """The policy with the best worst promise; the first that keeps all ends the search for one."""
        best: Replay | None = None
        asks: list[Ask] = [(counts, policy, faster) for policy in policies or self._order]
        for n, ask in enumerate(asks):
            metrics = self._metrics(ask, asks[n:])
            margins = {
                name: margin_of(name, value, metrics[name]) for name, value in self.config.promise.items()
            }
            short = min(margins, key=lambda name: margins[name])
            one = Replay(ask[1], metrics, margins[short] >= 0.0, short, margins[short])
            best = one if best is None or one.margin > best.margin else best
            if one.kept:
                self._order.sort(key=lambda name: name != one.policy)  # what did once is tried first
                break
        assert best is not None
        return best

    def _metrics(self, ask: Ask, rest: Sequence[Ask]) -> dict[str, float]:
        """What one replay gives; with processes to spare, what may be asked for next is replayed beside it."""
        if ask not in self._known:
            began, slow = time.perf_counter(), self._workers is not None
            self._run(list(islice(self._next(rest), self._size)) if slow else [ask])
            if not slow and self._size > 1 and time.perf_counter() - began > SLOW_S:
                self._workers = Workers(self._size)
                self._workers.__enter__()
        found = self._known[ask]
        if isinstance(found, Exception):
            raise found
        metrics, self.remarks = found
        return metrics

    def _next(self, rest: Sequence[Ask]) -> Iterator[Ask]:
        """Replays of ``rest``, then of what may come next; what is known or refuted is left out."""
        yield from (ask for ask in rest if ask not in self._known)
        for counts, faster in self.ahead:
            ask = counts, self._order[0] if faster == 1.0 else rest[0][1], faster
            if ask not in self._known and ask not in rest and not self.never.get(counts):
                if not self.refuted(counts):
                    yield ask

    def _run(self, asks: Sequence[Ask]) -> None:
        if self._workers is None:
            done = [self.bench.attempt(ask) for ask in asks]
        else:
            text = self.config.model_dump_json(exclude_none=True)
            done = self._workers.map(_attempt_away, [(text, ask) for ask in asks])
        self._known |= dict(zip(asks, done, strict=True))
        if self._on_done is not None:
            self._on_done(len(self._known), f"replaying {len(self.bench.trace):,} jobs")


def margin_of(name: str, promised: float, found: float) -> float:
    """How much better than promised, as a share of it; nan counts as broken."""
    if math.isnan(found):
        return -math.inf
    better = promised - found if CLUSTER_METRICS[name].better == "lower" else found - promised
    return better / promised
