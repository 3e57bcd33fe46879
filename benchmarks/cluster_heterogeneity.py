"""What knowing the throughputs is worth: ``python -m benchmarks.cluster_heterogeneity [PART ...] [--write]``.

Gavel's setting (OSDI 2020): 36 V100, 36 P100, 36 K80, its measured throughputs and its continuous multi-GPU
generator at six loads, overload included, and its static one for makespan. Realistic mode: 30 s per move, servers of
4 GPUs, slowdown by spread from the table. Each pair of policies meets the same jobs; 5 seeds, 95 % intervals of the
paired ratio. Needs the shared data.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.cluster.tabulate import offered_load
from eunomia.config.cluster import cluster_from
from eunomia.experiment.cluster import ClusterComparison, study_cluster
from eunomia.experiment.cluster.build import prepare_cluster
from eunomia.metrics.statistics import interval

SHARED = Path(os.environ.get("EUNOMIA_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "gavel"
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "cluster_heterogeneity.md"
GAPS_S = [7200.0, 3600.0, 2400.0]
LONG_JOBS, LONG_S = 1200, [1200.0]
CROWDED_S = [1500.0, 1000.0, 750.0]  # near and above what the devices can do
PAIRS = [("max_min_fairness", "max_min_fairness_perf"), ("finish_time_fairness", "finish_time_fairness_perf")]
STATIC_PAIRS = [
    ("max_min_fairness", "max_min_fairness_perf"),
    ("min_total_duration", "min_total_duration_perf"),
]


def setting(jobs: int, kind: str, measure: list[int] | None) -> dict[str, Any]:
    """The experiment of one table."""
    return {
        "name": f"heterogeneity {kind}",
        "device": [{"type": t, "count": 36, "per_server": 4} for t in ("v100", "p100", "k80")],
        "throughputs": {"gavel": str(SHARED / "simulation_throughputs.json")},
        "generate": {"jobs": jobs, "kind": kind, "mean_gap_s": 3600.0},
        "simulation": {"restart": {"save_s": 10.0, "load_s": 10.0, "warmup_s": 10.0}},
        **({"measure": measure} if measure else {}),
    }


def load(gap_s: float, seeds: int, jobs: int) -> float:
    """Offered load of the continuous setting, mean over the seeds: work at proportional-share speed over capacity."""
    found = []
    for seed in range(seeds):
        given = setting(jobs, "continuous", None)
        given["generate"]["mean_gap_s"] = gap_s
        problem = prepare_cluster(cluster_from(given), seed).problem
        found.append(offered_load(problem))
    return float(np.mean(found))


def gain(result: ClusterComparison, blind: str, aware: str, metric: str, point: int) -> str:
    """agnostic / aware, paired by seed: mean and half the 95 % interval."""
    ratio = np.array(result.values(blind, metric, point)) / np.array(result.values(aware, metric, point))
    found = interval(ratio)
    return f"{found.mean:.2f} ± {found.half_width:.2f}"


def table(result: ClusterComparison, pairs: list[tuple[str, str]], metric: str, scale: float) -> list[str]:
    """One row per setting and pair."""
    rows = []
    for point, values in enumerate(result.settings):
        for blind, aware in pairs:
            cells = [
                f"{result.estimate(p, metric, point).mean / scale:.2f} ± "
                f"{result.estimate(p, metric, point).half_width / scale:.2f}"
                for p in (blind, aware)
            ]
            unfinished = sum(result.estimate(p, "unfinished", point).mean for p in (blind, aware))
            rows.append(
                f"| {', '.join(f'{v:g}' for v in values.values())} | {blind} | {cells[0]} | {cells[1]} "
                f"| {gain(result, blind, aware, metric, point)} | {unfinished:g} |"
            )
    return rows


def flow(seeds: int, workers: int) -> list[str]:
    """Continuous arrivals below capacity, both programmes."""
    policies = [p for pair in PAIRS for p in pair]
    found = _arriving("flow", GAPS_S, policies, seeds, workers)
    return [*HEAD, *table(found, PAIRS, "jct_mean_s", 3600.0), "", _loads(GAPS_S, seeds)]


def crowded(seeds: int, workers: int) -> list[str]:
    """Continuous arrivals near and above capacity, max-min only (finish-time fairness takes hours there)."""
    found = _arriving("crowded", CROWDED_S, list(PAIRS[0]), seeds, workers)
    return [*HEAD, *table(found, PAIRS[:1], "jct_mean_s", 3600.0), "", _loads(CROWDED_S, seeds)]


def long(seeds: int, workers: int) -> list[str]:
    """Arrivals above what the agnostic policy can serve, for long enough that its queue grows."""
    found = study_cluster(
        setting(LONG_JOBS, "continuous", [500, 800]), {"generate.mean_gap_s": LONG_S}, list(PAIRS[0]), seeds,
        directory="runs/heterogeneity-long", workers=workers,
    )  # fmt: skip
    return [*HEAD, *table(found, PAIRS[:1], "jct_mean_s", 3600.0), "", _loads(LONG_S, seeds, LONG_JOBS)]


def static(seeds: int, workers: int) -> list[str]:
    """All jobs at time 0."""
    found = study_cluster(
        setting(100, "static", None), {"generate.jobs": [100, 200]}, [p for pair in STATIC_PAIRS for p in pair],
        seeds, directory="runs/heterogeneity-static", workers=workers,
    )  # fmt: skip
    return [
        "| jobs | policy | agnostic | `_perf` | agnostic / `_perf` | unfinished |",
        "|---|---|---|---|---|---|",
        *table(found, STATIC_PAIRS, "makespan_s", 3600.0),
    ]


PARTS = {"flow": flow, "crowded": crowded, "long": long, "static": static}
HEAD = [
    "| mean gap, s | policy | agnostic | `_perf` | agnostic / `_perf` | unfinished |",
    "|---|---|---|---|---|---|",
]


def _arriving(
    name: str, gaps_s: list[float], policies: list[str], seeds: int, workers: int
) -> ClusterComparison:
    return study_cluster(
        setting(300, "continuous", [100, 250]), {"generate.mean_gap_s": gaps_s}, policies, seeds,
        directory=f"runs/heterogeneity-{name}", workers=workers,
    )  # fmt: skip


def _loads(gaps_s: list[float], seeds: int, jobs: int = 300) -> str:
    found = ", ".join(f"{load(gap, seeds, jobs):.2f} at {gap:g} s" for gap in gaps_s)
    return f"Offered load (docs/cluster.md), mean over the seeds: {found}."


def main() -> None:
    """Run the named parts, all by default; runs are kept in runs/ and found again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--write", action="store_true", help="replace these parts of the page of results")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for name in options.parts or PARTS:
        text = "\n".join(PARTS[name](options.seeds, options.workers))
        print(text)
        if options.write:
            write(name, text)


def write(name: str, text: str) -> None:
    """Put a part between its marks in the page."""
    page = RESULTS.read_text(encoding="utf-8")
    before, rest = page.split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- /{name} -->")[1]
    marked = f"<!-- {name} -->\n{text}\n<!-- /{name} -->"
    RESULTS.write_text(before + marked + after, encoding="utf-8")


if __name__ == "__main__":
    main()
