"""Themis: finish-time fairness against its peers, and what each of its parts does.

Parts: ``load 0.8``, ``load 1.2`` (all peers), ``knobs`` (f), ``leases``, ``rho`` (what T_id means), ``errors`` (every
app misjudges its rho), ``single``, ``searches`` (Themis and the strawman, part by part), ``early`` (searches that stop
hopeless trials while they run). Themis is in the published form. Needs the shared data; finished runs are kept in
runs/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from benchmarks.cluster.apps import SEARCHES, Setting, fairness, problem, sensitive_table
from benchmarks.cluster.scenes import throughputs
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, means, table
from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.tuned_mode import simulate_tuned
from eunomia.metrics.statistics import interval, paired_difference

OPTIONS = SimulationOptions(round_s=300.0, restart=Restart(10.0, 20.0, 10.0), record="jobs")
Settings = dict[str, str | float | bool]
PAPER: Settings = {"payment": "devices", "unserved": "floor", "leftovers": "random"}
PAPER |= {"aligned": False, "lease_s": 1200.0}
MEASURES = {  # of apps, and their columns
    "max_rho": "max rho|.2f",
    "p90_rho": "p90 rho|.2f",
    "unfair": "rho > 1.05|.1%",
    "above_one": "rho > 1|.1%",
    "jain": "Jain of rho|.3f",
    "completion_h": "app completion, h|.2f",
    "makespan_h": "makespan, h|.1f",
    "efficiency": "efficiency|.1%",
    "moves": "moves per job|.1f",
    "solve_ms": "solve, ms|.2f",
    "beyond": "work beyond need|.1%",
}
ALL = tuple(name for name in MEASURES if name != "beyond")
HIGH = Setting(load=1.2)


@dataclass(frozen=True)
class Case:
    """A row: a policy and its settings. ``how``: trials are cut ``before``, stop ``live``, or are ``known``."""

    label: str
    name: str = "themis"
    settings: Settings = field(default_factory=dict)
    setting: Setting = HIGH
    spread: float | None = None  # share of models that spread slows; None = Gavel's table
    how: str = "before"

    def table(self) -> ThroughputTable:
        """Speeds."""
        return throughputs() if self.spread is None else sensitive_table(self.spread)

    def run(self, p: ClusterProblem, seed: int) -> ClusterRun:
        """Simulate a problem under this policy."""
        return simulate_cluster(p, allocator(self.name, **self.settings), OPTIONS.with_seed(seed), self.name)

    def measured(self, seed: int) -> dict[str, float]:
        """Fairness by app of one seed; kept on disk."""
        what = {name: value for name, value in asdict(self).items() if name != "label"}
        return kept("themis", {**what, "seed": seed}, lambda: self._measured(seed))

    def _measured(self, seed: int) -> dict[str, float]:
        p = problem(self.table(), self.setting, seed)
        if self.how == "before":
            return fairness(self.run(p, seed))
        full, policy = np.array([job.total_steps for job in p.jobs]), allocator(self.name, **self.settings)
        if self.how == "live":
            found = simulate_tuned(p, policy, LiveSearch(), OPTIONS.with_seed(seed), self.name)
            needed = LiveSearch()
            needed.reset(p, seed)
            run, steps, least = found.run, found.steps_done, full * needed.at_once()
        else:
            run = self.run(cut(p, LiveSearch(), seed), seed)
            steps = least = run.problem.total_steps
        weight = p.scale / p.speed[:, 0]
        beyond = float((steps * weight).sum() / (least * weight).sum() - 1.0)
        return {**fairness(run, full), "beyond": beyond}

    def over(self, seeds: range) -> dict[str, list[float]]:
        """All seeds."""
        return by_name([self.measured(seed) for seed in seeds])


def cut(p: ClusterProblem, search: LiveSearch, seed: int) -> ClusterProblem:
    """The same searches if it were known beforehand which trials end where."""
    search.reset(p, seed)
    parts = zip(p.jobs, search.at_once().tolist(), strict=True)
    jobs = [replace(j, total_steps=j.total_steps * part) for j, part in parts]
    return build_problem(jobs, p.cluster, p.table)


def lottery(label: str, **settings: str | float | bool) -> Case:
    """Themis as published, with random rounding."""
    return Case(label, "themis", {**PAPER, "rounding": "lottery", **settings})


PEERS = (
    Case("Themis, f = 0.8, floor", settings=PAPER),
    lottery("Themis, f = 0.8, lottery"),
    lottery("Themis, f = 0, lottery", fairness=0.0),
    Case("strawman", "themis_strawman", {"lease_s": 1200.0}),
    Case("Tiresias 2D-LAS", "tiresias", {"consolidate_skew": 0.5}),
    Case("Tiresias Gittins", "gittins"),
    Case("least attained service", "least_attained_service"),
    Case("Gandiva, with packing", "gandiva", {"slice_s": 300.0}),
    Case("Gandiva, no packing", "gandiva", {"slice_s": 300.0, "pack": False}),
    Case("Optimus (rigid jobs)", "optimus"),
    Case("SLAQ (rigid jobs)", "slaq"),
    Case("DRF", "drf"),
    Case("SRTF", "srtf"),
    Case("SRSF", "srsf"),
    Case("Gavel's finish-time fairness", "finish_time_fairness"),
)
KNOBS = [lottery(f"f = {f:g}", fairness=f) for f in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)]
KNOBS += [lottery(f"f = {f:g}, aligned", fairness=f, aligned=True) for f in (0.0, 0.4, 0.8)]
KNOBS += [Case(f"f = {f:g}, floor", settings={**PAPER, "fairness": f}) for f in (0.0, 0.4)]
LEASES = [lottery(f"lease {m} min", lease_s=60.0 * m) for m in (5, 10, 20, 40, 80)]
LEASES += [lottery(f"lease {m} min, aligned", lease_s=60.0 * m, aligned=True) for m in (20, 40)]
RHO = [lottery("T_id by contention", ideal="contention")]
RHO += [lottery("app ends with its first trial", finish="first")]
SWEEPS: dict[str, Sequence[Case]] = {
    "load 0.8": [replace(case, setting=Setting(load=0.8)) for case in PEERS],
    "load 1.2": PEERS,
    "knobs": KNOBS,
    "leases": LEASES,
    "rho": RHO,
}
STRAWMAN = (
    Case("strawman", "themis_strawman", {"lease_s": 1200.0}),
    Case("strawman, aligned", "themis_strawman", {"lease_s": 1200.0, "aligned": True}),
    lottery("Themis, f = 0.8"),
    lottery("Themis, aligned", aligned=True),
    lottery("Themis, aligned, f = 0", aligned=True, fairness=0.0),
    lottery("Themis, aligned, leftovers to the worst", aligned=True, leftovers="worst"),
    lottery("Themis, aligned, no payment", payment="none", aligned=True),
    lottery("Themis, aligned, neither", payment="none", aligned=True, leftovers="worst"),
)


def columns(*names: str) -> str:
    """A column for each measure; whatever is no measure is a column already."""
    return "; ".join(MEASURES.get(name, name) for name in names)


def swept(key: str, cases: Sequence[Case], seeds: range) -> Table:
    """Every measure of every case."""
    rows: list[list[Cell]] = [[case.label, *means(case.over(seeds), *ALL)] for case in cases]
    return table(key, columns("policy", *ALL), rows)


def errors(seeds: range) -> Table:
    """Themis when every app misjudges its own rho."""
    names = "max_rho", "p90_rho", "unfair", "jain", "completion_h"
    rows: list[list[Cell]] = []
    for error in (0.0, 0.05, 0.1, 0.2, 0.5):
        case = replace(lottery(""), setting=replace(HIGH, bid_error=error))
        rows.append([error, *means(case.over(seeds), *names)])
    return table("errors", columns("error of bids|.0%", *names), rows)


def strawman(key: str, setting: Setting, spread: float | None, seeds: range) -> Table:
    """Payments, leftovers and leases one by one; paired differences to the strawman."""
    how, rest = "live" if setting.live else "before", ("completion_h", "efficiency", "moves")
    rows: list[list[Cell]] = []
    base: dict[str, list[float]] = {}
    for case in STRAWMAN:
        found = replace(case, setting=setting, spread=spread, how=how).over(seeds)
        base = base or found
        against = [paired_difference(found[name], base[name]) for name in ("max_rho", "jain")]
        rho, unfair, jain, *more = means(found, "max_rho", "unfair", "jain", *rest)
        rows.append([case.label, rho, against[0], unfair, jain, against[1], *more])
    over = "against the strawman|+.2f", "against the strawman|+.3f"
    return table(key, columns("", "max_rho", over[0], "unfair", "jain", over[1], *rest), rows)


def early(seeds: range) -> Table:
    """What it costs to learn only by running which trials are hopeless, under each policy."""
    cases = [lottery("Themis, f = 0.8, lottery"), lottery("Themis, f = 0.8, lottery, aligned", aligned=True)]
    named = ("themis_strawman", "tiresias", "least_attained_service", "gandiva", "drf", "optimus", "srtf")
    peers = [case for case in PEERS if "with packing" not in case.label]
    cases += [case for name in named for case in peers if case.name == name]
    first, rest = ("max_rho", "unfair", "jain", "completion_h"), ("beyond", "makespan_h", "moves")
    rows: list[list[Cell]] = []
    for case in (replace(case, setting=replace(SEARCHES, load=0.8), spread=0.4) for case in cases):
        live, known = (replace(case, how=how).over(seeds) for how in ("live", "known"))
        beforehand = interval(known["completion_h"])
        rows.append([case.label, *means(live, *first), beforehand, *means(live, *rest)])
    return table("early", columns("", *first, "known beforehand, h|.2f", *rest), rows)


def measure(options: Options) -> Iterator[Table]:
    """All parts; the quick run has one seed and three peers."""
    seeds = options.seeds_or(5)
    for key in options.chosen(SWEEPS):
        yield swept(key, SWEEPS[key][: 3 if options.quick else None], seeds)
    rest = {
        "errors": lambda: errors(seeds),
        "single": lambda: strawman("single", HIGH, None, seeds),
        "searches": lambda: strawman("searches", replace(SEARCHES, load=1.2), 0.4, seeds),
        "early": lambda: early(seeds),
    }
    for key in options.chosen(rest) if not options.quick or options.only else ():
        yield rest[key]()
