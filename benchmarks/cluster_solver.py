"""How fast are the cluster programmes? ``python -m benchmarks.cluster_solver``, beside Gavel's own way in one run.

The same instances for both, jobs drawn from Gavel's measured throughputs; every objective is compared before a time
is printed. ``distinct`` perturbs every throughput by 10 %, so that no two jobs are alike and grouping gains nothing.
``--write`` puts the table into results/cluster-solver.md; ``--quick`` leaves out the largest packed peers.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.cluster_views import random_view
from benchmarks.engine import describe_machine
from benchmarks.peers import gavel_cvxpy
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.contract.cluster import Cluster

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "cluster-solver.md"
PEER_AT_MOST = 4096  # jobs; beyond, only ours


def table() -> ThroughputTable:
    """Gavel's simulation table, from $EUNOMIA_SHARED or ../shared."""
    shared = Path(os.environ.get("EUNOMIA_SHARED") or ROOT.parent / "shared")
    return ThroughputTable.from_gavel_json(shared / "data" / "gavel" / "simulation_throughputs.json")


def instance(jobs: int, distinct: bool, pairs: bool, seed: int) -> ClusterView:
    """A cluster of 3 types with a device per 8 jobs each (at least 8), weights 1, 2 and 5."""
    count = max(8, jobs // 8)
    cluster = Cluster.of({"v100": count, "p100": count, "k80": count}, devices_per_server=4)
    view = random_view(table(), cluster, jobs, seed, pairs=pairs)
    if distinct:
        noise = np.exp(np.random.default_rng(seed).normal(0.0, 0.1, view.throughput.shape))
        view = dataclasses.replace(view, throughput=view.throughput * noise)
    return view


def peer(view: ClusterView, packed: bool) -> float:
    """Objective by cvxpy and ECOS, model building included."""
    scale, counts = view.scale.astype(float), view.cluster.counts.astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not packed:
            return gavel_cvxpy.max_min(view.throughput, scale, view.weight, counts)[0]
        first, second = np.triu_indices(len(view), 1)
        speed = view.pair_speed(first, second)
        keep = (speed > 0.0).any(axis=(1, 2))  # kinder to the peer: Gavel keeps rows of zeros
        pairs = first[keep], second[keep], speed[keep]
        return gavel_cvxpy.max_min_packed(view.throughput, scale, view.weight, counts, *pairs)[0]


def best_s(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Least processor time and least wall time of several runs."""
    cpu, wall = [], []
    for _ in range(repeats):
        start, clock = time.process_time(), time.perf_counter()
        run()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - clock)
    return min(cpu), min(wall)


def line(policy: str, jobs: int, distinct: bool, repeats: int, with_peer: bool) -> str:
    """One row: ours and theirs on one instance."""
    packed = policy.endswith("packed")
    view = instance(jobs, distinct, packed, seed=jobs)
    ours = allocator(policy)
    answer: Allocation = ours.allocate(view)  # loads the machine code

    def fresh() -> None:
        ours.reset(0)  # or a packed policy would begin at its own optimum
        ours.allocate(view)

    cpu, wall = best_s(fresh, repeats)
    objective = answer.objective or 0.0
    rows = answer.notes[0].text.rsplit(", ", 1)[-1].split()[0]
    cells = [
        policy,
        f"{jobs:,}",
        "distinct" if distinct else "as measured",
        rows,
        f"{1e3 * cpu:.2f} ({1e3 * wall:.2f})",
    ]
    if with_peer:
        theirs = peer(view, packed)
        peer_cpu, peer_wall = best_s(
            lambda: peer(view, packed), 1 if packed and jobs > 128 else min(repeats, 5)
        )
        off = abs(theirs / objective - 1.0)
        assert off < 1e-5, f"{policy}, {jobs} jobs: {objective} against {theirs}"
        cells += [f"{1e3 * peer_cpu:.1f} ({1e3 * peer_wall:.1f})", f"{peer_cpu / cpu:.1f}", f"{off:.0e}"]
    else:
        cells += ["", "", ""]
    return "| " + " | ".join(cells) + " |"


def warm_line(jobs: int, leaving: int) -> str:
    """A packed programme after some jobs have left: from nothing, and from the basis before they left."""
    view = instance(jobs, False, True, seed=jobs)
    rest = view.take(np.arange(leaving, jobs))
    ours = allocator("max_min_fairness_packed")
    found = {}
    for start in ("cold", "warm"):
        times = []
        for _ in range(5):
            ours.reset(0)
            if start == "warm":
                ours.allocate(view)
            began = time.process_time()
            answer = ours.allocate(rest)
            times.append(time.process_time() - began)
        steps = answer.notes[0].text.split(", ")[3].split()[0]
        found[start] = (answer.objective, f"{steps} steps, {1e3 * min(times):.1f} ms")
    assert abs(found["warm"][0] / found["cold"][0] - 1.0) < 1e-7
    return f"| {jobs} | {leaving} | {found['cold'][1]} | {found['warm'][1]} |"


WARM = """
## Warm starts

Packed programmes are solved by the simplex method, which begins with the last basis of the same run if 95 % of its
columns are still there. Processor time of the whole answer, after so many jobs have left:

| jobs | left | cold | warm |
| ---: | ---: | --- | --- |"""
HEAD = """| policy | jobs | throughputs | rows | ours, ms CPU (wall) | cvxpy + ECOS | CPU ratio | objectives differ |
| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"""

PAGE = """# Speed of the cluster programmes

Written by `python -m benchmarks.cluster_solver --write`. Model building included on both sides, least of several runs;
processor time, for the machine is shared, wall time in brackets. 3 device types with one device per 8 jobs each (at
least 8), jobs drawn at random from Gavel's measured table, weights 1, 2 and 5. "As measured" jobs of one type, scale
and weight are alike and are solved as one row; "distinct" throughputs are all perturbed: nothing can be grouped.
The peer keeps the useful pairs only, which is kinder to it than Gavel's code.

Targets: `max_min_fairness_perf` at 2,048 jobs at least 10 times faster, at 10,000 jobs under 1 s; packed at 512 jobs at
least 20 times faster. {verdict}

Measured on: {machine}

{table}
"""


TARGETS = (
    ("max_min_fairness_perf", "2,048", "as measured", 10.0),
    ("max_min_fairness_perf", "2,048", "distinct", 10.0),
    ("max_min_fairness_packed", "512", "as measured", 20.0),
)
MOST_MS = 1000.0  # max_min_fairness_perf at 10,000 jobs


def verdict(lines: list[str]) -> str:
    """Which targets the rows of the table meet, and which not, in sentences."""
    rows = [
        [cell.strip() for cell in text.strip("| ").split("|")]
        for text in lines
        if text.startswith("| max_min")
    ]
    found = {tuple(row[:3]): row for row in rows}
    said = []
    for policy, jobs, kind, least in TARGETS:
        row = found.get((policy, jobs, kind))
        if row is None or not row[6]:
            said.append(f"`{policy}` at {jobs} jobs, throughputs {kind}: the peer was not run.")
            continue
        met = "met" if float(row[6]) >= least else "NOT met"
        said.append(f"`{policy}` at {jobs} jobs, throughputs {kind}: {row[6]} times faster, {met}.")
    for kind in ("as measured", "distinct"):
        row = found.get(("max_min_fairness_perf", "10,000", kind))
        if row is not None:
            took = float(row[4].split()[0])
            met = "met" if took < MOST_MS else "NOT met"
            said.append(f"At 10,000 jobs, throughputs {kind}: {took:.0f} ms, {met}.")
    said.append(
        'Gavel\'s jobs repeat, so "as measured" is its case; distinct rows are what grouping cannot help.'
    )
    return "\n".join(said)


def main() -> None:
    """Measure, print, perhaps write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} in results")
    parser.add_argument("--quick", action="store_true", help="packed peers up to 128 jobs only")
    options = parser.parse_args()
    lines = [HEAD]
    print(HEAD)
    for jobs in (128, 512, 2048, 10_000, 100_000):
        for distinct in (False, True):
            repeats = 20 if jobs <= 2048 else 5
            lines.append(line("max_min_fairness_perf", jobs, distinct, repeats, jobs <= PEER_AT_MOST))
            print(lines[-1], flush=True)
    for jobs in (32, 128, 512, 2048):
        repeats, with_peer = (5 if jobs <= 512 else 2), jobs <= (128 if options.quick else 512)
        lines.append(line("max_min_fairness_packed", jobs, False, repeats, with_peer))
        print(lines[-1], flush=True)
    print(WARM)
    lines.append(WARM)
    for jobs, leaving in ((128, 1), (128, 3), (512, 1), (512, 3), (512, 32)):
        lines.append(warm_line(jobs, leaving))
        print(lines[-1], flush=True)
    if options.write:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        text = PAGE.format(verdict=verdict(lines), machine=describe_machine(), table="\n".join(lines))
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
