"""Why Themis is hardly fairer than the strawman: payments, leftovers and leases, one by one."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.cluster_peers.apps import SEARCHES, Setting, fairness, problem, sensitive_table
from benchmarks.cluster_peers.kept import kept
from benchmarks.cluster_peers.report import cell, machine, table
from benchmarks.cluster_peers.themis import RESTART, ROUND_S
from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.cluster.tuned_mode import simulate_tuned
from eunomia.metrics.statistics import paired_difference

SEEDS = range(5)
RIVAL = ("strawman", {"mechanism": "strawman"})
ALIGNED = {"rounding": "lottery", "aligned": True}
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    RIVAL,
    ("strawman, aligned", {"mechanism": "strawman", "aligned": True}),
    ("Themis, f = 0.8", {"rounding": "lottery"}),
    ("Themis, aligned", ALIGNED),
    ("Themis, aligned, f = 0", {**ALIGNED, "fairness": 0.0}),
    ("Themis, aligned, leftovers to the worst", {**ALIGNED, "leftovers": "worst"}),
    ("Themis, aligned, no payment", {**ALIGNED, "rounding": "free"}),
    ("Themis, aligned, neither", {**ALIGNED, "rounding": "free", "leftovers": "worst"}),
)


def run(measured: ThroughputTable, setting: Setting, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """One mechanism on the apps of one seed."""
    what = {"study": "strawman", "setting": asdict(setting), "table": measured.source, "settings": settings}
    return kept({**what, "seed": seed}, lambda: _run(measured, setting, settings, seed))


def _run(
    measured: ThroughputTable, setting: Setting, settings: dict[str, Any], seed: int
) -> dict[str, float]:
    options = SimulationOptions(round_s=ROUND_S, restart=RESTART, seed=seed, record="jobs")
    made = problem(measured, setting, seed)
    policy = allocator("themis", **settings)
    if setting.live:
        return asdict(fairness(simulate_tuned(made, policy, LiveSearch(), options, "themis").run))
    return asdict(fairness(simulate_cluster(made, policy, options, "themis")))


COLUMNS = ("max rho", "against the strawman", "rho > 1.05", "Jain of rho", "against the strawman", "app completion, h",
           "efficiency", "moves per job")  # fmt: skip


def rows(measured: ThroughputTable, setting: Setting) -> list[list[str]]:
    """One line per mechanism, with paired differences to the strawman."""
    lines: list[list[str]] = []
    base: list[dict[str, float]] = []
    for label, settings in CASES:
        found = [run(measured, setting, settings, seed) for seed in SEEDS]
        base = base or found
        gain = {
            key: paired_difference([f[key] for f in found], [b[key] for b in base])
            for key in ("max_rho", "jain")
        }
        of = {key: [f[key] for f in found] for key in found[0]}
        lines.append([
            label, cell(of["max_rho"]), f"{gain['max_rho'].mean:+.2f} ± {gain['max_rho'].half_width:.2f}",
            cell(of["unfair"], 1, True), cell(of["jain"], 3),
            f"{gain['jain'].mean:+.3f} ± {gain['jain'].half_width:.3f}", cell(of["completion_h"]),
            cell(of["efficiency"], 1, True), cell(of["preemptions"], 1),
        ])  # fmt: skip
        print("  ".join(lines[-1]), flush=True)
    return lines


def study(gavel_json: Path) -> str:
    """The whole part of the page."""
    measured = ThroughputTable.from_gavel_json(gavel_json)
    settings = (
        ("Single jobs and small searches, load 1.2, measured cost of spread", measured, Setting(load=1.2)),
        (
            "Searches of up to 32 trials that stop live, load 1.2, two in five models at half speed when spread",
            sensitive_table(0.4),
            replace(SEARCHES, load=1.2),
        ),
    )
    parts = [f"### {title}\n\n" + table(("", *COLUMNS), rows(made, s)) for title, made, s in settings]
    return TEXT.format(machine=machine(), seeds=len(SEEDS), parts="\n\n".join(parts))


TEXT = """## Themis and the strawman, part by part

`python -m benchmarks.cluster_peers strawman --write` ({machine}). {seeds} seeds, leases of 20 min, f = 0.8 and
lottery unless said; paired differences to the strawman, 95 % intervals. Leftovers to the worst: what the
auction leaves is handed out by rho instead of at random. No payment: winners keep their proportionally fair
grants. Neither: both changes.

{parts}
"""
