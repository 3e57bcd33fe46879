"""Gavel's factor in its own windows, and the load that each policy sustains. Parts: window, sustained.

36 V100, 36 P100, 36 K80, Gavel's generator, its simulator's rules (compatible mode): ``window`` is the mean completion
of jobs 4,000 to 4,999 while jobs go on arriving until the last of these has ended, as in Gavel's notebooks;
``sustained`` counts the jobs present at every thousandth arrival. Finished runs are kept in runs/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.cluster.scenes import KINDS, throughputs
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.cluster.engine import Engine
from eunomia.cluster.gavel_mode import GavelMode
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.traces.generate import generate
from eunomia.cluster.traces.jobs import to_jobs
from eunomia.contract.allocation import Allocation, Allocator, ClusterView
from eunomia.contract.cluster import Cluster
from eunomia.metrics.statistics import interval

PAIR = ("max_min_fairness", "max_min_fairness_perf")
FIRST, LAST = 4000, 5000
CLAIMS = {False: {4.0: 1.4, 5.2: 2.9, 5.6: 3.3}, True: {2.6: 1.9, 2.8: 3.0}}  # multi-GPU -> jobs/h -> factor
BEYOND = 20_000  # arrivals after the window, at most
COUNTED = range(1000, LAST + 1, 1000)
KEPT_UP = 20.0  # jobs left behind per 1,000 arrivals: fewer, and the load is sustained
SUSTAINED = {
    False: {PAIR[0]: (4.0, 4.8, 5.2, 5.6), PAIR[1]: (5.6, 6.4, 7.2)},
    True: {PAIR[0]: (2.2, 2.6, 2.8), PAIR[1]: (2.8, 3.2, 3.6)},
}


class WindowEnded(Exception):
    """All jobs of the window have ended."""


@dataclass
class Until:
    """An allocator that ends the run when none of the first ``last`` jobs is left."""

    inner: Allocator
    last: int

    def __post_init__(self) -> None:
        self.needs, self.reset = self.inner.needs, self.inner.reset

    def allocate(self, view: ClusterView) -> Allocation:
        """The inner one's answer."""
        if view.key[0] >= self.last:
            raise WindowEnded
        return self.inner.allocate(view)


@dataclass(frozen=True)
class Run:
    """One policy at one rate. ``whole``: until the window has ended, else until its last job has arrived."""

    policy: str
    per_hour: float
    multi_gpu: bool
    whole: bool = True
    first: int = FIRST
    last: int = LAST

    def problem(self, seed: int) -> ClusterProblem:
        """Gavel's generator, the same jobs for every policy."""
        made = throughputs()
        jobs = self.last + BEYOND if self.whole else self.last
        trace = generate(made, "v100", jobs, 3600.0 / self.per_hour, multi_gpu=self.multi_gpu, seed=seed)
        return build_problem(to_jobs(trace, made, "v100"), Cluster.of(dict.fromkeys(KINDS, 36), 4), made)

    def measured(self, seed: int) -> dict[str, float]:
        """Hours, jobs present at some arrivals; kept on disk."""
        what = {**asdict(self), "seed": seed}
        return kept("gavel-windows", what, lambda: self._measured(seed))

    def _measured(self, seed: int) -> dict[str, float]:
        problem = self.problem(seed)
        options = SimulationOptions.gavel(seed, record="jobs")
        if not self.whole:
            options = replace(options, horizon_s=float(problem.arrival_s[-1]))
        policy = Until(allocator(self.policy), self.last)
        engine = Engine(problem, policy, options, self.policy)
        with suppress(WindowEnded):
            GavelMode(engine).run()
        finish_s, at = engine.ledger.finish_s, problem.arrival_s
        took_h = (finish_s - at)[self.first : self.last] / 3600.0
        found = {"hours": float(np.nanmean(took_h)), "unfinished": float(np.isnan(took_h).sum())}
        for n in COUNTED:
            if n <= self.last:
                here = np.isnan(finish_s[:n]) | (finish_s[:n] > at[n - 1])
                found[f"present {n}"] = float(here.sum())
        return found

    def over(self, seeds: range) -> dict[str, list[float]]:
        """All seeds."""
        return by_name([self.measured(seed) for seed in seeds])


def window(seeds: range, small: bool) -> Table:
    """Agnostic over aware at Gavel's rates."""
    size = {"first": 40, "last": 60} if small else {}
    rows: list[list[Cell]] = []
    for multi, claims in CLAIMS.items():
        for per_hour, claim in claims.items():
            blind, aware = (Run(policy, per_hour, multi, **size).over(seeds) for policy in PAIR)
            ratio = interval(np.array(blind["hours"]) / np.array(aware["hours"]))
            hours = [interval(found["hours"]) for found in (blind, aware)]
            left = sum(blind["unfinished"] + aware["unfinished"])
            off = ratio.mean / claim - 1.0
            rows.append(["multi" if multi else "single", per_hour, *hours, ratio, claim, off, left])
    columns = (
        "GPUs; jobs/h|.1f; agnostic, h|.1f; aware, h|.1f; ratio|.2f; Gavel's notebook|.1f; ours over Gavel's|+.0%; "
        "unfinished|g"
    )
    return table("window", columns, rows)


def sustained(seeds: range, small: bool) -> Table:
    """Jobs present at every thousandth arrival, by policy and rate."""
    rows: list[list[Cell]] = []
    for multi, policies in SUSTAINED.items():
        for policy, rates in policies.items():
            for per_hour in rates[:1] if small else rates:
                run = Run(policy, per_hour, multi, whole=per_hour in CLAIMS[multi])
                if small:
                    run = replace(run, whole=False, first=1000, last=2000)
                rows.append(_growth(run, seeds))
    counted = "; ".join(f"at {n:,}|.0f" for n in COUNTED)
    columns = f"GPUs; policy; jobs/h|.1f; {counted}; left behind per 1,000|.0f; sustained"
    return table("sustained", columns, rows)


def _growth(run: Run, seeds: range) -> list[Cell]:
    found = run.over(seeds)
    present = [found.get(f"present {n}") for n in COUNTED]
    cells: Sequence[Cell] = [None if p is None else float(np.mean(p)) for p in present]
    last, base = found[f"present {run.last}"], found[f"present {min(2000, run.last - 1000)}"]
    grown = interval(1000.0 * (np.array(last) - np.array(base)) / (run.last - min(2000, run.last - 1000)))
    kind = "multi" if run.multi_gpu else "single"
    return [kind, run.policy, run.per_hour, *cells, grown, grown.mean < KEPT_UP]


def measure(options: Options) -> Iterator[Table]:
    """Both parts, 3 seeds; the quick run has windows of 20 jobs."""
    parts = {"window": window, "sustained": sustained}
    for key in options.chosen(parts):
        yield parts[key](options.seeds_or(3), options.quick)
