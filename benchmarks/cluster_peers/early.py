"""What it costs to learn only by running which trials are hopeless: searches that stop them live, under each policy."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_peers.apps import SEARCHES, fairness, problem, sensitive_table
from benchmarks.cluster_peers.kept import kept
from benchmarks.cluster_peers.report import cell, machine, table
from benchmarks.cluster_peers.themis import RESTART, ROUND_S
from eunomia.cluster.live_search import LiveSearch
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.tuned_mode import simulate_tuned

SEEDS, LOAD = range(5), 0.8
ALIGNED = {"rounding": "lottery", "aligned": True}
POLICIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Themis, f = 0.8, lottery", "themis", {"rounding": "lottery"}),
    ("Themis, f = 0.8, lottery, aligned", "themis", ALIGNED),
    ("strawman", "themis_strawman", {}),
    ("Tiresias 2D-LAS", "tiresias", {"consolidate_skew": 0.5}),
    ("least attained service", "least_attained_service", {}),
    ("Gandiva, no packing", "gandiva", {"slice_s": 300.0, "pack": False}),
    ("DRF", "drf", {}),
    ("Optimus (rigid jobs)", "optimus", {}),
    ("SRTF", "srtf", {}),
)


def cut(p: ClusterProblem, search: LiveSearch, seed: int) -> ClusterProblem:
    """The same searches if it were known beforehand which trials end where."""
    search.reset(p, seed)
    jobs = [
        replace(job, total_steps=job.total_steps * part)
        for job, part in zip(p.jobs, search.at_once().tolist(), strict=True)
    ]
    return build_problem(jobs, p.cluster, p.table)


def run(name: str, settings: dict[str, Any], seed: int, live: bool) -> dict[str, float]:
    """One policy on the searches of one seed: fairness by app, and work beyond need."""
    what = {"study": "early", "policy": name, "settings": settings, "seed": seed, "live": live, "load": LOAD}
    return kept(what, lambda: _run(name, settings, seed, live))


def _run(name: str, settings: dict[str, Any], seed: int, live: bool) -> dict[str, float]:
    options = SimulationOptions(round_s=ROUND_S, restart=RESTART, seed=seed, record="jobs")
    p = problem(sensitive_table(0.4), replace(SEARCHES, load=LOAD), seed)
    full = np.array([job.total_steps for job in p.jobs])
    policy = allocator(name, **settings)
    if live:
        found = simulate_tuned(p, policy, LiveSearch(), options, name)
        made, needed = found.run, LiveSearch()
        needed.reset(p, seed)
        steps, least = found.steps_done, full * needed.at_once()
    else:
        made = simulate_cluster(cut(p, LiveSearch(), seed), policy, options, name)
        steps = least = made.problem.total_steps
    weight = p.scale / p.speed[:, 0]
    beyond = float((steps * weight).sum() / (least * weight).sum() - 1.0)
    return {**asdict(fairness(made, full)), "beyond": beyond}


COLUMNS = ("max rho", "rho > 1.05", "Jain of rho", "app completion, h", "known beforehand, h", "work beyond need",
           "makespan, h", "moves per job")  # fmt: skip


def study(gavel_json: Path) -> str:
    """The whole part of the page; ``gavel_json`` is not needed."""
    lines = []
    for label, name, settings in POLICIES:
        live, known = ([run(name, settings, s, way) for s in SEEDS] for way in (True, False))
        of = {key: [r[key] for r in live] for key in live[0]}
        lines.append([
            label, cell(of["max_rho"]), cell(of["unfair"], 1, True), cell(of["jain"], 3), cell(of["completion_h"]),
            cell([r["completion_h"] for r in known]), cell(of["beyond"], 1, True), cell(of["makespan_h"], 1),
            cell(of["preemptions"], 1),
        ])  # fmt: skip
        print("  ".join(lines[-1]), flush=True)
    return TEXT.format(
        machine=machine(), apps=SEARCHES.apps, seeds=len(SEEDS), load=LOAD, rows=table(("", *COLUMNS), lines)
    )


TEXT = """## Searches that stop hopeless trials while they run

`python -m benchmarks.cluster_peers early --write` ({machine}). {apps} apps per seed of 1, 4, 8, 16 or 32 trials,
{seeds} seeds, Poisson arrivals at load {load:g} (of the work that halving needs); 64 devices, 4 per server; gangs of
1, 2 and mostly 4; full lengths 0.5 to 4 h; two in five models run at half speed when spread over servers. A trial shows
its loss at the rungs of successive halving (eta = 2) when it gets there, and is stopped when enough others have surely
beaten it; the same trials survive under every policy. Work beyond need: device-time of trials past the rung at which
halving would have ended them, over what halving needs. Known beforehand: the same apps with steps cut to what halving
needs. rho as above, T_id from the full budget of a trial.

{rows}
"""
