"""Does MAGMA's search find shorter makespans than Herald-like and random mapping? Parts: groups, online.

Groups of independent jobs: layers drawn from the networks of a published workload set, costed on a platform of
Eunomia, at several bandwidths. Every method sees the same groups; the two searches get the same number of samples.
A second, small table has the online policies ``magma`` and ``magma_10k`` beside rules, on short traces.
The quick run takes two groups and 100 samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.inference.contest import sized
from benchmarks.table import Cell, Options, Table, by_name, table
from eunomia.hardware.build import build_table
from eunomia.hardware.platform import load_platform
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.genetic import evolve, first_fit, predict, sample
from eunomia.inference.policies.group import Floats, Group, Ints, independent
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import Estimate, interval, paired_difference, paired_ratio
from eunomia.study.inference.tuning import hit_rate, problems_of
from eunomia.workload import zoo
from eunomia.workload.sets import workload_set

PLATFORM = "simba3-eyeriss3"
SETS = ("aurora-light", "aurora-heavy", "aurora-mixed")
BANDWIDTHS_GB_S = (16.0, 32.0, 64.0, 128.0)
JOBS, SAMPLES, GROUPS = 100, 10_000, 20
BOUNDS = (1.0, 1.25, 1.5, 2.0, 3.0, float("inf"))  # of Herald's imbalance; the best for each group counts
METHODS = ("random", "Herald-like", "longest first", "first idle")
ONLINE = ("edf", "edf+eft", "edf+g1", "herald", "magma_10k", "magma_10k+g1", "magma", "magma+g1")


def draw_group(name: str, bandwidth_gb_s: float, seed: int) -> Group:
    """Jobs of one group: layers of the set's networks, drawn uniformly, on idle accelerators."""
    platform = load_platform(PLATFORM)
    costs = build_table([zoo.load(model) for model, _ in workload_set(name).models], platform)
    rows = np.random.default_rng([seed, 0x9A6]).integers(0, len(costs.latency_s), JOBS)
    lanes = platform.type_of
    on = (costs.latency_s[rows][:, lanes], costs.demand_bytes_s[rows][:, lanes])
    return independent(*on, bandwidth_gb_s * 1e9)


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
    return {
        "MAGMA": evolve(group, samples, seed).makespan_s,
        "random": sample(group, samples, seed).makespan_s,
        "Herald-like": min(predict(group, *herald_like(group, bound))[1] for bound in BOUNDS),
        "longest first": predict(group, *longest_first(group))[1],
        "first idle": predict(group, *first_fit(group))[1],
        "bound": lower_bound_s(group),
    }


def over_magma(found: Mapping[str, Sequence[float]], method: str) -> Estimate:
    """Geometric mean of makespan(method) / makespan(MAGMA) over groups, paired."""
    return paired_ratio(found[method], found["MAGMA"])


def online(seeds: range, requests: int, names: Sequence[str]) -> Table:
    """Hit rates of the online policies and of rules on the same short traces, and what a decision takes."""
    traces = problems_of(sized("moca-mixed", 1.0, 16.0, requests, warm=0.0), seeds)
    hits, rows = {}, []
    for name in names:
        outcomes = [simulate_problem(trace.problem, load_policy(name), trace.options) for trace in traces]
        hits[name] = [hit_rate(trace, outcome) for trace, outcome in zip(traces, outcomes, strict=True)]
        asked_s = np.concatenate([outcome.decision_wall_s for outcome in outcomes])
        took: Cell = f"{1e3 * np.percentile(asked_s, 99):.2f}" if len(asked_s) else "compiled"
        gain = paired_difference(hits[name], hits["edf"])
        rows.append((f"`{name}`", float(np.mean(hits[name])), gain, took))
    return table("online", "policy; hit rate|.1p; against `edf`|+.1p; p99 of a decision, ms", rows)


def measure(options: Options) -> Iterator[Table]:
    """Both tables."""
    quick = options.quick
    if options.wants("groups"):
        seeds, samples = options.seeds_or(GROUPS, 2), 100 if quick else SAMPLES
        lines = {}
        for name in SETS[:1] if quick else SETS:
            for gb_s in BANDWIDTHS_GB_S[:2] if quick else BANDWIDTHS_GB_S:
                lines[name, gb_s] = by_name([makespans(draw_group(name, gb_s, s), samples, s) for s in seeds])
        rows = []
        for (name, gb_s), found in lines.items():
            bound = paired_ratio(found["MAGMA"], found["bound"]).mean
            magma_ms = 1e3 * interval(found["MAGMA"]).mean
            rows.append((name, gb_s, magma_ms, *(over_magma(found, method) for method in METHODS), bound))
        over = "".join(f"; {method} / MAGMA|.3f" for method in METHODS)
        columns = f"jobs from; B, GB/s|g; MAGMA, ms|.3g{over}; MAGMA / bound|.3f"
        yield table("groups", columns, rows)
    if options.wants("online"):
        names = [name for name in ONLINE if "10k" not in name] if quick else ONLINE
        yield online(range(2 if quick else 3), 15 if quick else 60, names)
