"""Queue disciplines of one device on the same tasks: Irina, its ablations, and max batch plus timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import nearest_rank
from eunomia.sharing.queueing import (
    Decision,
    Device,
    ExecutionTables,
    Irina,
    MaxBatch,
    Network,
    Served,
    Task,
    least_sum,
    read_tables,
    serve,
    shortest_first,
)
from eunomia.study.cluster.worlds import Figures, Worlds

Discipline = Callable[[Device], Decision]
BUILT_IN = Path(__file__).parents[2] / "data" / "sharing_queue.toml"
TIMEOUTS_S = (0.0, 0.002, 0.005, 0.01, 0.02)
TENANTS = 2  # per network
ON_S, OFF_S, ON_SHARE = 0.2, 0.8, 0.9  # of bursts: mean lengths, and the share of tasks that come in bursts
PATTERNS = ("poisson", "bursts")
METRICS = {
    "mean_s": Metric("mean completion time", "mean", "s", "lower"),
    "p99_s": Metric("99th percentile of completion times", "p99", "s", "lower"),
    "slowest": Metric("slowest tenant: mean completion over time alone", "slowest tenant", "ratio", "lower"),
    "batch": Metric("tasks per start", "tasks per start", "count", "neither"),
    "stacked": Metric("starts beside a running unit", "stacked", "share", "neither"),
    "paused": Metric("pauses per start", "paused", "share", "neither"),
}
GAP_METRICS = {
    "over_optimum": Metric("sum of completion times over the least", "over optimum", "ratio", "lower")
}


@dataclass(frozen=True)
class QueueStudy:
    """``load`` 1: the device is full if every batch has its best size, one after the other."""

    tables: Path | None = None
    load: float = 0.7
    arrivals: str = "bursts"
    tasks: int = 1000
    seeds: tuple[int, ...] = tuple(range(5))

    def __post_init__(self) -> None:
        if not 0.0 < self.load <= 10.0:
            raise ConfigError(f"load is {self.load}; more than 0, at most 10")
        if self.tasks < 1:
            raise ConfigError(f"{self.tasks} tasks; at least 1")
        if self.arrivals not in PATTERNS:
            raise UnknownNameError("arrivals", self.arrivals, PATTERNS)


def run_queue(study: QueueStudy) -> Worlds:
    """Every discipline on every seed. The timeout of max batch is the best on tasks of another seed."""
    tables = read_tables(study.tables or BUILT_IN)
    tuning = draw_tasks(study, tables, 10_000 + study.seeds[0])
    timeout_s = min(TIMEOUTS_S, key=lambda s: np.mean(serve(tuning, tables, MaxBatch(s)).completion_s))
    two_s = min(TIMEOUTS_S, key=lambda s: np.mean(serve(tuning, tables, MaxBatch(s, slots=2)).completion_s))
    disciplines: dict[str, Discipline] = {
        f"max batch, {timeout_s * 1e3:g} ms": MaxBatch(timeout_s),
        f"max batch, {two_s * 1e3:g} ms, two at once": MaxBatch(two_s, slots=2),
        "first come, no batch": MaxBatch(0.0, largest=1),
        "shortest first, batched": shortest_first,
        "Irina": Irina(),
        "Irina, 100 ms patience": Irina(patience_s=0.1),
        "Irina without batching": Irina(batch=False),
        "Irina without stacking": Irina(stack=False),
        "Irina without preemption": Irina(preempt=False),
    }
    figures: dict[str, list[Figures]] = {name: [] for name in disciplines}
    for seed in study.seeds:
        tasks = draw_tasks(study, tables, seed)
        for name, discipline in disciplines.items():
            figures[name].append(_figures(serve(tasks, tables, discipline), tables))
    title = f"queue, {study.arrivals}, load {study.load:g}"
    return Worlds(title, study.seeds, {n: tuple(f) for n, f in figures.items()}, "mean_s", METRICS)


def draw_tasks(study: QueueStudy, tables: ExecutionTables, seed: int) -> list[Task]:
    """Tasks whose networks share the load equally, from tenants in turn; all from one stream per seed."""
    rng = np.random.default_rng([seed, 17])
    best_s = np.array(tables.best_s)
    networks = rng.choice(len(best_s), study.tasks, p=(1.0 / best_s) / (1.0 / best_s).sum())
    rate = study.load / float(best_s[networks].mean())
    gaps = rng.exponential(1.0, study.tasks)
    arrival_s = np.cumsum(gaps) / rate
    if study.arrivals == "bursts":
        arrival_s = _in_bursts(np.cumsum(gaps), rate, rng)
    tenants = networks * TENANTS + rng.integers(0, TENANTS, study.tasks)
    return [Task(int(t), int(n), float(a)) for t, n, a in zip(tenants, networks, arrival_s, strict=True)]


def _in_bursts(counts: Floats, rate: float, rng: np.random.Generator) -> Floats:
    """Times at which an on-off rate of mean ``rate`` has brought each count of tasks."""
    both_s = ON_S + OFF_S
    high, low = rate * ON_SHARE * both_s / ON_S, rate * (1.0 - ON_SHARE) * both_s / OFF_S
    times, expected = [0.0], [0.0]
    while expected[-1] < counts[-1]:
        for mean_s, speed in ((OFF_S, low), (ON_S, high)):
            length_s = rng.exponential(mean_s)
            times.append(times[-1] + length_s)
            expected.append(expected[-1] + speed * length_s)
    return np.asarray(np.interp(counts, expected, times))


def _figures(served: Served, tables: ExecutionTables) -> Figures:
    done = np.array(served.completion_s)
    alone = np.array([tables.networks[task.network].batch_s[0] for task in served.tasks])
    tenants = np.array([task.tenant for task in served.tasks])
    slow = [float((done / alone)[tenants == tenant].mean()) for tenant in np.unique(tenants)]
    count = served.decisions
    starts = sum(count.values()) - 2 * count["preempt"]  # what was paused goes on later
    return {
        "mean_s": float(done.mean()),
        "p99_s": nearest_rank(done, 99.0),
        "slowest": max(slow),
        "batch": len(done) / starts,
        "stacked": count["stack"] / starts,
        "paused": count["preempt"] / starts,
    }


def run_gaps(seeds: tuple[int, ...], together: bool) -> Worlds:
    """Disciplines over the least sum of completion times: 6 tasks of 3 random networks, at once or within 20 ms."""
    disciplines: dict[str, Discipline] = {
        "max batch, 0 ms": MaxBatch(),
        "shortest first, batched": shortest_first,
        "Irina": Irina(),
        "Irina without batching": Irina(batch=False),
        "Irina without stacking": Irina(stack=False),
        "Irina without preemption": Irina(preempt=False),
    }
    figures: dict[str, list[Figures]] = {name: [] for name in disciplines}
    for seed in seeds:
        rng = np.random.default_rng([seed, 18])
        tables = random_tables(rng)
        arrival_s = np.zeros(6) if together else np.sort(rng.uniform(0.0, 0.02, 6))
        tasks = [Task(0, int(n), float(a)) for n, a in zip(rng.integers(0, 3, 6), arrival_s, strict=True)]
        least = least_sum(tasks, tables)
        for name, discipline in disciplines.items():
            found = sum(serve(tasks, tables, discipline).completion_s)
            figures[name].append({"over_optimum": found / least})
    title = f"6 tasks {'at once' if together else 'within 20 ms'}"
    return Worlds(title, seeds, {n: tuple(f) for n, f in figures.items()}, "over_optimum", GAP_METRICS)


def random_tables(rng: np.random.Generator) -> ExecutionTables:
    """Three networks with batches of up to 4 and up to 3 blocks; a pair shares what utilisation leaves."""
    networks = []
    for number in range(3):
        fixed_ms, each_ms = rng.uniform(0.5, 6.0), rng.uniform(0.3, 4.0)
        times = tuple((fixed_ms + each_ms * size) / 1e3 for size in range(1, 5))
        networks.append(Network(f"n{number}", times, int(rng.integers(1, 4))))
    use = rng.uniform(0.3, 1.0, 3)
    slow = np.maximum(1.0, use[:, None] + use) * rng.uniform(1.0, 1.1, (3, 3))
    return ExecutionTables(tuple(networks), tuple(tuple(map(float, row)) for row in slow))
