"""Does MAGMA's search find shorter makespans than Herald-like and random mapping? ``python -m benchmarks.magma``.

Groups of independent jobs: layers drawn from the networks of a published workload set, costed on a platform of
Eunomia, at several bandwidths. Every method sees the same groups; the two searches get the same number of samples.
A second, small table has the online policies ``magma`` and ``magma_10k`` beside rules, on short traces.
Writes results/magma.md; ``--quick`` takes fewer groups and samples and writes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunomia.hardware.build import build_table
from eunomia.hardware.platform import load_platform
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.genetic import evolve, first_fit, predict, sample
from eunomia.inference.policies.group import Floats, Group, Ints, independent
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import Estimate, interval, paired_difference, paired_ratio
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.tuning import hit_rate, problems_of
from eunomia.study.run import as_scenario
from eunomia.workload import zoo
from eunomia.workload.sets import workload_set

RESULTS = Path(__file__).parent.parent / "results" / "magma.md"
PLATFORM = "simba3-eyeriss3"
SETS = ("aurora-light", "aurora-heavy", "aurora-mixed")
BANDWIDTHS_GB_S = (16.0, 32.0, 64.0, 128.0)
JOBS, SAMPLES, GROUPS = 100, 10_000, 20
BOUNDS = (1.0, 1.25, 1.5, 2.0, 3.0, float("inf"))  # of Herald's imbalance; the best for each group counts
METHODS = ("MAGMA", "random", "Herald-like", "longest first", "first idle")


def draw_group(name: str, bandwidth_gb_s: float, seed: int, jobs: int = JOBS) -> Group:
    """Jobs of one group: layers of the set's networks, drawn uniformly, on idle accelerators."""
    platform = load_platform(PLATFORM)
    table = build_table([zoo.load(model) for model, _ in workload_set(name).models], platform)
    rng = np.random.default_rng([seed, 0x9A6])
    rows = rng.integers(0, len(table.latency_s), jobs)
    lanes = platform.type_of
    return independent(
        table.latency_s[rows][:, lanes], table.demand_bytes_s[rows][:, lanes], bandwidth_gb_s * 1e9
    )


def herald_like(group: Group, bound: float) -> tuple[Ints, Floats]:
    """Jobs in order, each on its preferred accelerator unless that unbalances the load (Herald, HPCA 2021).

    Accelerators by latency; the first one with (its cumulative time after the job) <= bound x (least cumulative time
    after the job over all accelerators) takes it. bound = 1 is earliest completion, infinity the fastest.
    """
    load_s, lane = np.zeros(len(group.running)), np.empty(group.genes, np.int64)
    for j, time_s in enumerate(group.latency_s):
        after_s = load_s + time_s
        near = np.flatnonzero(after_s <= bound * after_s.min())
        lane[j] = near[np.lexsort((after_s[near], time_s[near]))[0]]
        load_s[lane[j]] += time_s[lane[j]]
    return lane, np.arange(group.genes) / group.genes


def longest_first(group: Group) -> tuple[Ints, Floats]:
    """Jobs by descending least latency, each where its isolated completion is earliest: a stronger rule of thumb."""
    order = np.argsort(-group.latency_s.min(axis=1), kind="stable")
    load_s, lane, rank = np.zeros(len(group.running)), np.empty(group.genes, np.int64), np.empty(group.genes)
    for place, j in enumerate(order):
        lane[j] = int(np.argmin(load_s + group.latency_s[j]))
        load_s[lane[j]] += group.latency_s[j, lane[j]]
        rank[j] = place / group.genes
    return lane, rank


def lower_bound_s(group: Group) -> float:
    """No schedule is shorter: least work over accelerators, least bytes over bandwidth, the longest job."""
    best_s = group.latency_s.min(axis=1)
    bytes_least = (group.latency_s * group.demand_bytes_s).min(axis=1)
    work_s = float(best_s.sum()) / len(group.running)
    return max(work_s, float(bytes_least.sum()) / group.bandwidth_bytes_s, float(best_s.max()))


def makespans(group: Group, samples: int, seed: int) -> dict[str, float]:
    """Makespan [s] of every method on one group, and the bound."""
    heralds = (predict(group, *herald_like(group, bound))[1] for bound in BOUNDS)
    return {
        "MAGMA": evolve(group, samples, seed).makespan_s,
        "random": sample(group, samples, seed).makespan_s,
        "Herald-like": min(heralds),
        "longest first": predict(group, *longest_first(group))[1],
        "first idle": predict(group, *first_fit(group))[1],
        "bound": lower_bound_s(group),
    }


@dataclass(frozen=True)
class Line:
    """One workload at one bandwidth: makespans by method, one per group."""

    name: str
    bandwidth_gb_s: float
    found: dict[str, list[float]]

    def over_magma(self, method: str) -> Estimate:
        """Geometric mean of makespan(method) / makespan(MAGMA) over groups, paired."""
        return paired_ratio(self.found[method], self.found["MAGMA"])


def measure(groups: int, samples: int, jobs: int) -> list[Line]:
    """All workloads at all bandwidths."""
    lines = []
    for name in SETS:
        for bandwidth in BANDWIDTHS_GB_S:
            rows = [
                makespans(draw_group(name, bandwidth, seed, jobs), samples, seed) for seed in range(groups)
            ]
            lines.append(Line(name, bandwidth, {key: [row[key] for row in rows] for key in rows[0]}))
    return lines


def _ratio(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def report(lines: list[Line], groups: int, samples: int, jobs: int) -> str:
    """The page."""
    head = f"""# MAGMA's search on groups of independent jobs

Written by `python -m benchmarks.magma`. {groups} groups of {jobs} jobs (seeds 0 to {groups - 1}) for each line:
layers drawn uniformly from the networks of a workload set, on `{PLATFORM}`, proportional sharing. MAGMA (HPCA
2022, a re-implementation) and random mapping get {samples:,} samples each, both from nothing: no rule of thumb
is among MAGMA's first genomes. "Herald-like" is the best, for each group, of {len(BOUNDS)} bounds on imbalance
({", ".join(f"{bound:g}" for bound in BOUNDS)}); "longest first" takes jobs by descending latency to the earliest
completion; "first idle" takes them in order to the fastest idle accelerator.

Ratios are makespans over that of MAGMA, geometric means with 95 % intervals, paired by group: above 1, MAGMA is
shorter. The last column is MAGMA's makespan over a simple lower bound (work, bytes, longest job), mean: where it
is 1.000, the bytes alone fill the time, and no mapping matters.

| jobs from | B, GB/s | MAGMA, ms | {" | ".join(f"{method} / MAGMA" for method in METHODS[1:])} | MAGMA / bound |
| --- | ---: | ---: | {"---: | " * len(METHODS[1:])}---: |
"""
    rows = [
        f"| {line.name} | {line.bandwidth_gb_s:g} | {1e3 * interval(line.found['MAGMA']).mean:.3g} | "
        + " | ".join(_ratio(line.over_magma(method)) for method in METHODS[1:])
        + f" | {paired_ratio(line.found['MAGMA'], line.found['bound']).mean:.3f} |"
        for line in lines
    ]
    return head + "\n".join(rows) + "\n\n" + verdict(lines)


def verdict(lines: list[Line]) -> str:
    """What the table says, in words."""
    words = []
    for method in METHODS[1:]:
        better = sum(line.over_magma(method).low > 1.0 for line in lines)
        worse = sum(line.over_magma(method).high < 1.0 for line in lines)
        all_of = paired_ratio(
            [value for line in lines for value in line.found[method]],
            [value for line in lines for value in line.found["MAGMA"]],
        )
        words.append(
            f"* Against {method}: MAGMA is significantly shorter in {better} of {len(lines)} lines, longer in {worse}; "
            f"over all groups the ratio is {_ratio(all_of)}."
        )
    return "\n".join([*words, sampling(lines)]) + "\n"


def sampling(lines: list[Line]) -> str:
    """How much of the lead over Herald-like is that of 10,000 samples of anything."""
    shorter = [line.over_magma("random").mean < line.over_magma("Herald-like").mean for line in lines]
    random, herald = (
        np.mean([np.log(line.over_magma(method).mean) for line in lines])
        for method in ("random", "Herald-like")
    )
    return (
        f"* Random mapping alone has a shorter mean than Herald-like in {sum(shorter)} of {len(lines)} lines, by a "
        f"factor of {np.exp(herald - random):.3f} over all: about {100 * random / herald:.0f} % of MAGMA's lead over "
        "Herald-like (in\n"
        f"  logarithms) is what the genetic search adds to random samples, the rest is what samples of any kind find."
    )


ONLINE = ("edf", "edf+eft", "edf+g1", "herald", "magma_10k", "magma_10k+g1", "magma", "magma+g1")


def online(seeds: int, requests: int) -> str:
    """Hit rates of the online policies and of rules on the same short traces, and what a decision takes."""
    scenario = {
        "name": "magma", "duration_s": 1.0, "load": 1.0,
        "platform": {"preset": PLATFORM, "dram_bandwidth_gb_s": 16.0},
        "tenant": [{
            "name": "all", "model_set": "moca-mixed", "deadline": "qos_m", "deadline_alpha": 3.0,
            "arrivals": {"process": "poisson", "rate_per_s": 1000.0},
        }],
        "engine": {"late": "drop"},
    }  # fmt: skip
    capacity = prepare(as_scenario(scenario)).capacity
    assert capacity is not None, "a load was asked for"
    traces = problems_of(
        as_scenario({**scenario, "duration_s": requests / capacity.per_s.mean}), list(range(seeds))
    )
    hits, asked_s = {}, {}
    for name in ONLINE:
        outcomes = [simulate_problem(trace.problem, load_policy(name), trace.options) for trace in traces]
        hits[name] = [hit_rate(trace, outcome) for trace, outcome in zip(traces, outcomes, strict=True)]
        asked_s[name] = np.concatenate([outcome.decision_wall_s for outcome in outcomes])
        print(f"{name:14} {interval(hits[name]):.1%}", flush=True)
    rows = [
        f"| `{name}` | {100 * interval(hits[name]).mean:.1f} | {_points(paired_difference(hits[name], hits['edf']))} | "
        + (f"{1e3 * np.percentile(asked_s[name], 99):.2f}" if len(asked_s[name]) else "compiled")
        + " |"
        for name in ONLINE
    ]
    return (
        f"""
## Online

MoCA's mixed set at load 1.0 of `{PLATFORM}` with 16 GB/s, deadlines of QoS-M with alpha 3, hopeless requests dropped;
{seeds} traces of about {requests} requests from an empty system (seeds 0 to {seeds - 1}): short, as `magma_10k` takes
tenths of a second per plan. Hit rates in %, differences to `edf` in points with 95 % intervals, paired by trace; the
wall time of a decision from Python, 99th percentile, in ms. `magma_10k` pays nothing for it, `magma` its own account.

| policy | hit rate | against `edf` | p99 of a decision, ms |
| --- | ---: | ---: | ---: |
"""
        + "\n".join(rows)
        + "\n"
    )


def _points(estimate: Estimate) -> str:
    return f"{100 * estimate.mean:+.1f} +- {100 * estimate.half_width:.1f}"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 groups, 500 samples; writes nothing")
    quick = parser.parse_args().quick
    groups, samples = (3, 500) if quick else (GROUPS, SAMPLES)
    page = report(measure(groups, samples, JOBS), groups, samples, JOBS)
    page += online(2, 15) if quick else online(3, 60)
    print(page)
    if not quick:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
