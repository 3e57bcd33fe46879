"""Themis on rigid gangs: forms of payment, the paper's setting, and what misreports gain.

Parts: ``ordinary`` (single-job apps on two device types), ``paper`` (searches at load 1.7 on one type), ``reports``
(one misreport in one auction), ``lies`` (one app in ten misreports all the time). Finished runs are kept in runs/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from benchmarks.cluster.apps import Setting, fairness, problem, sensitive_table
from benchmarks.cluster.misreports import KINDS, Misreporting, single_auctions
from benchmarks.cluster.themis import OPTIONS, PAPER
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, by_name, means, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import ClusterRun, simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Allocator
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.metrics.statistics import interval, paired_ratio

Forms = Mapping[str, tuple[str, Mapping[str, object]]]
FORMS: Forms = {
    "Themis": ("themis", {}),
    "Themis, leases of 20 min": ("themis", {"lease_s": 1200.0}),
    "Themis, leases not aligned": ("themis", {"aligned": False}),
    "Themis, bid for nothing a floor": ("themis", {"unserved": "floor"}),
    "Themis, leftovers at random": ("themis", {"leftovers": "random"}),
    "Themis, no payment": ("themis", {"payment": "none"}),
    "Themis as published, floor": ("themis", PAPER),
    "Themis as published, lottery": ("themis", {**PAPER, "rounding": "lottery"}),
    "strawman": ("themis_strawman", {}),
    "strawman, aligned": ("themis_strawman", {"aligned": True}),
}
RIVALS: Forms = {
    "Tiresias 2D-LAS": ("tiresias", {"consolidate_skew": 0.5}),
    "Gandiva, with packing": ("gandiva", {"slice_s": 300.0}),
    "SLAQ (rigid jobs)": ("slaq", {}),
}
SEARCHES = Setting(
    apps=30, load=1.7, trials=(1, 2, 3, 5, 8, 12, 16, 23), gangs=(2, 4, 4, 4, 4), hours=(0.5, 4.0)
)
NAMES = [f"model {n}" for n in range(8)]
COLUMNS = {
    "max_rho": "worst rho|.2f",
    "unfair": "rho > 1.05|.1%",
    "completion_h": "completion, h|.2f",
    "efficiency": "efficiency|.1%",
    "moves": "moves per job|.1f",
}


@dataclass(frozen=True)
class Ordinary:
    """Single-job apps: gangs of 1, 2, 4 and 8 (40, 20, 25, 15 %), 0.25 to 16 h on the fast type, log-uniform.

    Eight models; the slow type has 0.25 to 0.9 of the fast one's speed; half of the models lose by spread (S = 1.6).
    """

    apps: int = 300
    load: float = 1.46
    counts: dict[str, int] = field(default_factory=lambda: {"fast": 16, "slow": 32})

    def problem(self, seed: int) -> ClusterProblem:
        """Poisson arrivals; load by the mean speed over all devices."""
        rng = np.random.default_rng([seed, 77])
        keys = tuple((name, scale) for name in NAMES for scale in (1, 2, 4, 8))
        slow = dict(zip(NAMES, rng.uniform(0.25, 0.9, len(NAMES)).tolist(), strict=True))
        fast = [10.0 * s * 0.9 ** np.log2(s) for _, s in keys]
        alone = np.array([[speed, speed * slow[name]] for speed, (name, _) in zip(fast, keys, strict=True)])
        suffers = [1.6 if NAMES.index(name) % 2 == 0 and s > 1 else 1.0 for name, s in keys]
        spread = alone / np.array(suffers)[:, None]
        made = ThroughputTable(keys, tuple(self.counts), alone, spread, source="two types")
        count = np.array(list(self.counts.values()))
        jobs, work_s = [], 0.0
        for a in range(self.apps):
            name, gang = NAMES[int(rng.integers(8))], int(rng.choice((1, 2, 4, 8), p=(0.4, 0.2, 0.25, 0.15)))
            hours, row = float(np.exp(rng.uniform(*np.log((0.25, 16.0))))), keys.index((name, gang))
            steps = max(1.0, round(hours * 3600.0 * alone[row, 0]))
            work_s += steps / float(alone[row] @ count / count.sum()) * gang
            traits = {"slowdown_rack": suffers[row], "slowdown_cross": suffers[row]}
            traits |= {"skew": float(suffers[row] > 1.0), "loss_a": 9.0 / steps, "loss_b": 1.0}
            jobs.append(TrainingJob(str(a), name, steps, gang, app_id=str(a), traits=traits))
        gap_s = work_s / self.load / float(count.sum()) / self.apps
        at = np.cumsum(rng.exponential(gap_s, self.apps)).tolist()
        cluster = Cluster(tuple(DeviceType(kind, number, 4) for kind, number in self.counts.items()))
        return build_problem([replace(j, arrival_s=t) for j, t in zip(jobs, at, strict=True)], cluster, made)


def searches(seed: int) -> ClusterProblem:
    """The paper's setting: 64 devices, 40 % of the models at half speed when spread."""
    return problem(sensitive_table(0.4), SEARCHES, seed)


def _run(made: ClusterProblem, policy: Allocator, seed: int) -> ClusterRun:
    return simulate_cluster(made, policy, OPTIONS.with_seed(seed), "themis")


def forms(key: str, world: Callable[[int], ClusterProblem], cases: Forms, seeds: range) -> Table:
    """Every form on every seed; completion over that of the first, paired."""
    rows: list[list[Cell]] = []
    base: list[float] = []
    for label, (name, given) in cases.items():

        def one(seed: int, name: str = name, given: Mapping[str, object] = given) -> dict[str, float]:
            return fairness(_run(world(seed), allocator(name, **given), seed))

        what = {"part": key, "policy": name, **given}
        found = by_name([kept("themis-gangs", {**what, "seed": s}, partial(one, s)) for s in seeds])
        base = base or found["completion_h"]
        ratio = paired_ratio(found["completion_h"], base)
        rows.append([label, *means(found, *COLUMNS), ratio])
    return table(key, "; ".join(["policy", *COLUMNS.values(), "completion over the first|.3f"]), rows)


def lies(seeds: range) -> Table:
    """Completion of the one app in ten that misreports, lying over honest; the others' likewise."""
    world = Ordinary()
    rows: list[list[Cell]] = []
    for label in ("Themis", "Themis as published, floor", "strawman"):
        name, given = FORMS[label]

        def took(
            kind: str, seed: int, name: str = name, given: Mapping[str, object] = given
        ) -> dict[str, float]:
            run = _run(world.problem(seed), Misreporting(allocator(name, **given), kind), seed)
            took_h, liar = (run.ledger.finish_s - run.problem.arrival_s) / 3600.0, run.problem.app % 10 == 3
            return {"liars": float(took_h[liar].mean()), "others": float(took_h[~liar].mean())}

        def over(
            kind: str, label: str = label, took: Callable[[str, int], dict[str, float]] = took
        ) -> dict[str, list[float]]:
            return by_name(
                [
                    kept("themis-lies", {"form": label, "kind": kind, "seed": s}, partial(took, kind, s))
                    for s in seeds
                ]
            )

        honest = over("")
        for kind in KINDS:
            told = over(kind)
            both = [paired_ratio(told[who], honest[who]) for who in ("liars", "others")]
            rows.append([label, kind, interval(honest["liars"]), *both])
    return table("lies", "policy; report; liars honest, h|.2f; lying over honest|.3f; the others|.3f", rows)


def measure(options: Options) -> Iterator[Table]:
    """All parts; the quick run has small ones."""
    seeds = options.seeds_or(5)
    small = {"Themis": FORMS["Themis"], "strawman": FORMS["strawman"]}
    ordinary = Ordinary(apps=40) if options.quick else Ordinary()
    parts: dict[str, Callable[[], Table]] = {
        "ordinary": lambda: forms(
            "ordinary", ordinary.problem, small if options.quick else {**FORMS, **RIVALS}, seeds
        ),
        "paper": lambda: forms("paper", searches, {**FORMS, **RIVALS}, seeds),
        "reports": lambda: single_auctions(30 if options.quick else 400),
        "lies": lambda: lies(seeds),
    }
    for key in options.chosen(parts):
        if not options.quick or options.only or key in ("ordinary", "reports"):
            yield parts[key]()
