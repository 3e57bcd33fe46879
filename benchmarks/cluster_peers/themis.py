"""Themis' claim: max rho, unfair fraction, Jain against its peers; f, lease, rounding and definition of T_id swept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cluster_peers.apps import Fairness, Setting, completion_h, fairness, problem
from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.metrics.statistics import paired_ratio

SEEDS = range(5)
ROUND_S = 300.0
RESTART = Restart(save_s=10.0, load_s=20.0, warmup_s=10.0)
PEERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Themis, f = 0.8, floor", "themis", {}),
    ("Themis, f = 0.8, lottery", "themis", {"rounding": "lottery"}),
    ("Themis, f = 0, lottery", "themis", {"rounding": "lottery", "fairness": 0.0}),
    ("strawman", "themis_strawman", {}),
    ("Tiresias 2D-LAS", "tiresias", {"consolidate_skew": 0.5}),
    ("Tiresias Gittins", "gittins", {}),
    ("least attained service", "least_attained_service", {}),
    ("Gandiva, with packing", "gandiva", {"slice_s": 300.0}),
    ("Gandiva, no packing", "gandiva", {"slice_s": 300.0, "pack": False}),
    ("Optimus (rigid jobs)", "optimus", {}),
    ("SLAQ (rigid jobs)", "slaq", {}),
    ("DRF", "drf", {}),
    ("SRTF", "srtf", {}),
    ("SRSF", "srsf", {}),
    ("Gavel's finish-time fairness", "finish_time_fairness", {}),
)
KNOBS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
LEASES_MIN = (5, 10, 20, 40, 80)


def run(
    throughputs: ThroughputTable, name: str, settings: dict[str, Any], seed: int, load: float
) -> Fairness:
    """One policy on the apps of one seed."""
    options = SimulationOptions(round_s=ROUND_S, restart=RESTART, seed=seed, record="jobs")
    made = problem(throughputs, Setting(load=load), seed)
    return fairness(simulate_cluster(made, allocator(name, **settings), options, name))


COLUMNS = ("max rho", "p90 rho", "rho > 1.05", "rho > 1", "Jain of rho", "app completion, h", "makespan, h",
           "efficiency", "moves per job", "solve, ms")  # fmt: skip


def rows(throughputs: ThroughputTable, cases: Any, load: float) -> list[list[str]]:
    """One line per case."""
    lines = []
    for label, name, settings in cases:
        runs = [asdict(run(throughputs, name, settings, seed, load)) for seed in SEEDS]
        of = {key: [r[key] for r in runs] for key in runs[0]}
        lines.append([
            label, cell(of["max_rho"]), cell(of["p90_rho"]), cell(of["unfair"], 1, True),
            cell(of["above_one"], 1, True), cell(of["jain"], 3), cell(of["completion_h"]), cell(of["makespan_h"], 1),
            cell(of["efficiency"], 1, True), cell(of["preemptions"], 1), cell(of["solve_ms"]),
        ])  # fmt: skip
        print("  ".join(lines[-1]), flush=True)
    return lines


def lies(gavel_json: Path) -> str:
    """What one app in ten gains by claiming three times its rho, per mechanism."""
    measured = ThroughputTable.from_gavel_json(gavel_json)
    options = SimulationOptions(round_s=ROUND_S, restart=RESTART, record="jobs")
    cases = (("strawman", "themis_strawman", {}),
             ("Themis, f = 0.8, lottery", "themis", {"rounding": "lottery"}),
             ("Themis, f = 0.4, lottery", "themis", {"rounding": "lottery", "fairness": 0.4}),
             ("Themis, f = 0, lottery", "themis", {"rounding": "lottery", "fairness": 0.0}))  # fmt: skip
    lines = []
    for label, name, settings in cases:
        took: dict[float, list[tuple[float, float]]] = {}
        for claims in (1.0, 3.0):
            took[claims] = [
                completion_h(simulate_cluster(problem(measured, Setting(load=1.2, claims=claims), seed),
                                              allocator(name, **settings), options.with_seed(seed), name))
                for seed in SEEDS
            ]  # fmt: skip
        cells = [label]
        for who in (0, 1):
            honest, lying = ([t[who] for t in took[claims]] for claims in (1.0, 3.0))
            ratio = paired_ratio(lying, honest)
            cells += [cell(honest), cell(lying), f"{ratio.mean:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"]
        lines.append(cells)
    return LIES.format(rows=table(
        ("", "liars honest, h", "lying, h", "ratio", "the others before, h", "after, h", "ratio"), lines
    ))  # fmt: skip


BID_ERRORS = (0.0, 0.05, 0.1, 0.2, 0.5)


def errors(gavel_json: Path) -> str:
    """Themis when every app misjudges its own rho."""
    measured = ThroughputTable.from_gavel_json(gavel_json)
    lines = []
    for error in BID_ERRORS:
        found = []
        for seed in SEEDS:
            options = SimulationOptions(round_s=ROUND_S, restart=RESTART, seed=seed, record="jobs")
            made = problem(measured, Setting(load=1.2, bid_error=error), seed)
            run_ = simulate_cluster(made, allocator("themis", rounding="lottery"), options, "themis")
            found.append(asdict(fairness(run_)))
        of = {key: [f[key] for f in found] for key in found[0]}
        lines.append([
            f"{error:.0%}", cell(of["max_rho"]), cell(of["p90_rho"]), cell(of["unfair"], 1, True), cell(of["jain"], 3),
            cell(of["completion_h"]),
        ])  # fmt: skip
    return ERRORS.format(rows=table(
        ("error of bids", "max rho", "p90 rho", "rho > 1.05", "Jain of rho", "app completion, h"), lines
    ))  # fmt: skip


ERRORS = """## Themis: bids with an error

`python -m benchmarks.cluster_peers errors --write`. The apps of the study above at load 1.2, f = 0.8, lottery. Every
app misjudges its rho, in what it reports and in what it bids, by a factor of its own, uniform within the error;
5 seeds.

{rows}
"""

LIES = """## Themis: what a lie gains

`python -m benchmarks.cluster_peers lies --write`. The apps of the study above at load 1.2; one app in ten claims
that its rho is three times what it is. Mean completion times when it is honest and when it lies, 5 seeds, paired
ratios: below 1 the lie pays. Within an auction a factor on a bid changes nothing; who sees the offer still goes by the
claimed rho.

{rows}
"""


def study(gavel_json: Path) -> str:
    """The whole part of the page."""
    measured = ThroughputTable.from_gavel_json(gavel_json)
    setting = Setting()
    loads = {load: table(("policy", *COLUMNS), rows(measured, PEERS, load)) for load in (0.8, 1.2)}
    swept = [(f"f = {f:g}", "themis", {"rounding": "lottery", "fairness": f}) for f in KNOBS]
    floors = [(f"f = {f:g}, floor", "themis", {"fairness": f}) for f in (0.0, 0.4)]
    leases = [(f"lease {m} min", "themis", {"rounding": "lottery", "lease_s": 60.0 * m}) for m in LEASES_MIN]
    leases += [
        (f"lease {m} min, aligned", "themis", {"rounding": "lottery", "lease_s": 60.0 * m, "aligned": True})
        for m in (20, 40)
    ]
    swept += [
        (f"f = {f:g}, aligned", "themis", {"rounding": "lottery", "fairness": f, "aligned": True})
        for f in (0.0, 0.4, 0.8)
    ]
    other = [
        ("T_id by contention", "themis", {"rounding": "lottery", "ideal": "contention"}),
        ("app ends with its first trial", "themis", {"rounding": "lottery", "finish": "first"}),
    ]
    return TEXT.format(
        apps=setting.apps, devices=setting.devices, seeds=len(SEEDS), machine=machine(),
        low=loads[0.8], high=loads[1.2],
        knobs=table(("Themis", *COLUMNS), rows(measured, [*swept, *floors], 1.2)),
        leases=table(("Themis, f = 0.8, lottery", *COLUMNS), rows(measured, leases, 1.2)),
        other=table(("Themis, f = 0.8, lottery, lease 20 min", *COLUMNS), rows(measured, other, 1.2)),
    )  # fmt: skip


TEXT = """## Themis: finish-time fairness

`python -m benchmarks.cluster_peers themis --write` ({machine}). {apps} apps per seed, {seeds} seeds, Poisson
arrivals, {devices} devices of one type, 4 per server, 4 servers per rack; 4 of 7 apps are one job, the others
searches of 2, 4 or 8 trials cut by successive halving; gangs of 1, 2 or 4; full lengths 0.5 to 8 h. Speeds and the
cost of spread are Gavel's measured V100 columns. Realistic mode: rounds of 300 s, 40 s for a restart, spread
slows. rho = (finish - arrival) / T_id with T_id = time alone * max(1, N demand / C), N the mean number of apps
over its life under that policy. All jobs are rigid here, so Optimus and SLAQ only order; Optimus, SRTF and SRSF
know the remaining work, the others do not use it (Themis does, in rho). Efficiency: device time that made lasting
progress at unspread speed, over device time held. Solve: mean time per question on a busy machine.

### Load 0.8

{low}

### Load 1.2 (offered work over capacity during the arrivals)

{high}

### The knob f, at load 1.2

{knobs}

### Lease length, at load 1.2

{leases}

### What rho means, at load 1.2

{other}
"""
