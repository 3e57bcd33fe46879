"""What knowing the throughputs is worth: ``python -m benchmarks.cluster_heterogeneity [PART ...] [--write]``.

Gavel's setting (OSDI 2020): 36 V100, 36 P100, 36 K80, its measured throughputs and its generators: ``flow``
continuous arrivals at six loads, ``steady`` four times as many jobs at loads below and above the one at which the
agnostic policy saturates, single- and multi-GPU, ``static`` all jobs at time 0 for makespan. Realistic mode: 30 s per
move, servers of 4 GPUs, slowdown by spread from the table. Policies of a row meet the same jobs; 5 seeds, 95 %
intervals of the paired ratio. Finished runs are kept in runs/: a stopped command goes on where it was. Needs the
shared data.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.cluster.tabulate import offered_load
from eunomia.config.cluster import cluster_from
from eunomia.engines.processes import Outcome
from eunomia.metrics.statistics import interval
from eunomia.study.cluster import ClusterComparison, study_cluster
from eunomia.study.cluster.build import prepare_cluster

SHARED = Path(os.environ.get("EUNOMIA_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "gavel"
RESULTS = Path(__file__).parents[1] / "results" / "cluster_heterogeneity.md"
GAPS_S = [7200.0, 3600.0, 2400.0, 1500.0, 1000.0, 750.0]
FLOW_JOBS, FLOW_MEASURED = 300, [100, 250]
STEADY_JOBS, STEADY_MEASURED = 1200, [500, 800]
STEADY_S = {"single": [1000.0, 750.0, 600.0, 450.0], "multi": [2400.0, 1600.0, 1200.0]}
PAIRS = [("max_min_fairness", "max_min_fairness_perf"), ("finish_time_fairness", "finish_time_fairness_perf")]
STATIC_JOBS = [100, 200, 300, 500]
STATIC_PAIRS = [
    ("max_min_fairness", "max_min_fairness_perf"),
    ("min_total_duration", "min_total_duration_perf"),
    ("fifo", "min_total_duration_perf"),
]


def setting(jobs: int, kind: str, measure: list[int] | None, multi_gpu: bool = True) -> dict[str, Any]:
    """The experiment of one table."""
    return {
        "name": f"heterogeneity {kind}",
        "device": [{"type": t, "count": 36, "per_server": 4} for t in ("v100", "p100", "k80")],
        "throughputs": {"gavel": str(SHARED / "simulation_throughputs.json")},
        "generate": {"jobs": jobs, "kind": kind, "mean_gap_s": 3600.0, "multi_gpu": multi_gpu},
        "simulation": {"restart": {"save_s": 10.0, "load_s": 10.0, "warmup_s": 10.0}},
        **({"measure": measure} if measure else {}),
    }


def load(given: dict[str, Any], gap_s: float, seeds: int) -> float:
    """Offered load of a setting, mean over the seeds: work at proportional-share speed over capacity."""
    given = {**given, "generate": {**given["generate"], "mean_gap_s": gap_s}}
    problems = (prepare_cluster(cluster_from(given), seed).problem for seed in range(seeds))
    return float(np.mean([offered_load(problem) for problem in problems]))


def gain(result: ClusterComparison, blind: str, aware: str, metric: str, point: int) -> str:
    """agnostic / aware, paired by seed: mean and half the 95 % interval."""
    ratio = np.array(result.values(blind, metric, point)) / np.array(result.values(aware, metric, point))
    found = interval(ratio)
    return f"{found.mean:.2f} ± {found.half_width:.2f}"


def table(
    result: ClusterComparison, pairs: list[tuple[str, str]], metrics: list[str], first: list[str]
) -> list[str]:
    """One row per setting and pair; ``first`` are the leading cells of each setting.

    Of the first metric the figures and their ratio are shown, of further ones the ratio.
    """
    rows = []
    for point, leading in enumerate(first):
        for blind, aware in pairs:
            found = [result.estimate(p, metrics[0], point) for p in (blind, aware)]
            cells = [f"{one.mean / 3600.0:.2f} ± {one.half_width / 3600.0:.2f}" for one in found]
            unfinished = sum(result.estimate(p, "unfinished", point).mean for p in (blind, aware))
            gains = " | ".join(gain(result, blind, aware, metric, point) for metric in metrics)
            rows.append(
                f"| {leading} | {blind} | {cells[0]} | {aware} | {cells[1]} | {gains} | {unfinished:g} |"
            )
    return rows


def flow(seeds: int, workers: int) -> list[str]:
    """Continuous arrivals from light load to twice the capacity, both programmes."""
    given = setting(FLOW_JOBS, "continuous", FLOW_MEASURED)
    return [*HEAD, *_arriving("flow", given, GAPS_S, PAIRS, seeds, workers)]


def steady(seeds: int, workers: int) -> list[str]:
    """Arrivals for long enough that a queue which grows is seen to grow, with one worker per job and with several."""
    parts = []
    for name, gaps_s in STEADY_S.items():
        given = setting(STEADY_JOBS, "continuous", STEADY_MEASURED, name == "multi")
        rows = _arriving(f"steady-{name}", given, gaps_s, PAIRS[:1], seeds, workers)
        parts += [f"{name.capitalize()}-GPU jobs:", "", *HEAD, *rows, ""]
    return parts[:-1]


def static(seeds: int, workers: int) -> list[str]:
    """All jobs at time 0."""
    policies = list(dict.fromkeys(p for pair in STATIC_PAIRS for p in pair))
    found = study_cluster(
        setting(100, "static", None), {"generate.jobs": STATIC_JOBS}, policies, seeds,
        directory="runs/heterogeneity-static", workers=workers, on_done=_told,
    )  # fmt: skip
    head = ["| jobs | policy | h | aware of throughputs | h | ratio | unfinished |", "|" + 7 * "---|"]
    return [*head, *table(found, STATIC_PAIRS, ["makespan_s"], [str(n) for n in STATIC_JOBS])]


PARTS = {"flow": flow, "steady": steady, "static": static}
HEAD = [
    "| mean gap, s | load | agnostic | h | aware of throughputs | h | ratio | ratio of makespans | unfinished |",
    "|" + 9 * "---|",
]


def _arriving(
    name: str,
    given: dict[str, Any],
    gaps_s: list[float],
    pairs: list[tuple[str, str]],
    seeds: int,
    workers: int,
) -> list[str]:
    found = study_cluster(
        given, {"generate.mean_gap_s": gaps_s}, [p for pair in pairs for p in pair], seeds,
        directory=f"runs/heterogeneity-{name}", workers=workers, on_done=_told,
    )  # fmt: skip
    first = [f"{gap:g} | {load(given, gap, seeds):.2f}" for gap in gaps_s]
    return table(found, pairs, ["jct_mean_s", "makespan_s"], first)


def _told(outcome: Outcome) -> None:
    print(outcome.cell.name, outcome.failure or "done", flush=True)


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
