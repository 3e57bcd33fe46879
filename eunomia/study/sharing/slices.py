"""Time slices in virtual time: identical jobs, weights and the price of a quantum, gated and ungated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.metrics.metric import Metric
from eunomia.sharing.slices import (
    CostProfile,
    Finished,
    Job,
    TurnScheduler,
    simulate_slices,
    simulate_ungated,
)
from eunomia.study.cluster.worlds import Figures, Worlds

QUANTA_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)
COUNTS = (2, 4, 6, 8, 10)
SWITCH_S = 20e-6  # invented; a change of hands
RUNS = 20
METRICS = {
    "spread": Metric("latest over earliest end of identical jobs, less 1", "spread", "share", "lower"),
    "overhead": Metric("makespan over device time, less 1", "overhead", "share", "lower"),
    "weights": Metric(
        "largest error of device time over weight, mixed jobs", "weight error", "share", "lower"
    ),
    "profile": Metric("largest error of charged time", "charge error", "share", "lower"),
}


def run_slices(seeds: tuple[int, ...]) -> Worlds:
    """Each quantum, no charge of overuse, and no gate; 2 to 10 identical jobs, then three of weights 1, 2 and 3.

    Node times vary by 10 % around the profile, the profile errs by 2 % as a whole. Ungated jobs keep 1 to 8 nodes in
    the driver's queue.
    """
    figures = {f"{q * 1e3:g} ms": tuple(_figures(seed, q, True) for seed in seeds) for q in QUANTA_S}
    figures["2 ms, overuse uncharged"] = tuple(_figures(seed, 0.002, False) for seed in seeds)
    figures["ungated"] = tuple(_figures(seed, None, True) for seed in seeds)
    return Worlds("time slices", seeds, figures, "spread", METRICS)


def _figures(seed: int, quantum_s: float | None, charges: bool) -> Figures:
    rng = np.random.default_rng([seed, 41])
    spreads, overheads = [], []
    for count in COUNTS:
        found, work_s = _run(_identical(rng, count), "fair", quantum_s, charges, rng)
        spreads.append(found.spread)
        overheads.append(found.makespan_s / work_s - 1.0)
    jobs = _mixed(rng)
    found, _ = _run(jobs, "weighted", quantum_s, charges, rng)
    times = np.array([found.at_first_s[job.name] for job in jobs])
    weights = np.array([job.weight for job in jobs])
    error = times / times.sum() / (weights / weights.sum()) - 1.0
    real = [sum(map(job.seconds, range(job.nodes))) for job in jobs]
    charged = [job.runs * job.profile.solo_s for job in jobs]
    return {
        "spread": max(spreads),
        "overhead": float(np.mean(overheads)),
        "weights": float(np.abs(error).max()),
        "profile": float(np.abs(np.array(charged) / real - 1.0).max()),
    }


def _run(
    jobs: Sequence[Job], policy: str, quantum_s: float | None, charges: bool, rng: np.random.Generator
) -> tuple[Finished, float]:
    """What happened, and the device time of all nodes."""
    work_s = sum(job.seconds(n) for job in jobs for n in range(job.nodes))
    if quantum_s is None:
        return simulate_ungated(jobs, rng), work_s
    return simulate_slices(jobs, TurnScheduler(policy, quantum_s, charges), SWITCH_S), work_s


def _network(rng: np.random.Generator) -> CostProfile:
    """30 to 80 nodes of 20 to 800 microseconds."""
    costs = np.exp(rng.uniform(np.log(20e-6), np.log(800e-6), int(rng.integers(30, 80))))
    return CostProfile(tuple(costs.tolist()), float(costs.sum()))


def _noise(rng: np.random.Generator) -> tuple[float, ...]:
    return tuple((rng.normal(1.0, 0.02) * rng.uniform(0.9, 1.1, 997)).tolist())


def _identical(rng: np.random.Generator, count: int) -> list[Job]:
    profile = _network(rng)
    noise = _noise(rng)
    return [
        Job(f"{n}", profile, RUNS, noise[7 * n :] + noise[: 7 * n], int(rng.integers(1, 9)))
        for n in range(count)
    ]


def _mixed(rng: np.random.Generator) -> list[Job]:
    return [
        Job(f"{n}", _network(rng), 2 * RUNS, _noise(rng), int(rng.integers(1, 9)), weight)
        for n, weight in enumerate((1.0, 2.0, 3.0))
    ]
