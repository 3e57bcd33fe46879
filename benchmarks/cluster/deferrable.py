"""OSDEC: deferrable jobs against first fit and the offline optimum; a fitted order with its gate.

A table for each load, and one where the forecast is exact. None of the test days is a day of training or validation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.environments.deferrable import (
    FEATURES,
    DeferrableCase,
    DeferrableResult,
    day,
    largest_first,
)
from eunomia.cluster.environments.deferrable_fit import Fit, fit
from eunomia.metrics.statistics import interval, paired_difference
from eunomia.study.cluster.deferrable import METHODS, Method, informed, online

TRAIN, VALIDATE = range(1000, 1040), range(2000, 2060)
LOADS = (0.6, 1.2, 2.0)
SLOTS, DEVICES = 32, 8
COLUMNS = "; served|.1%; utilisation|.1%; wait, slots|.1f; overload|.1%; reward|.3f; over first fit|+.3f"


def rewarded(result: DeferrableResult) -> float:
    """What is maximised."""
    wait = 0.0 if np.isnan(result.wait_slots) else result.wait_slots
    return result.served * (1.0 - 2.0 * result.overload) - 0.01 * wait / 24.0


def row(label: str, solve: Method, cases: list[DeferrableCase]) -> list[Cell]:
    """Means over the days; the reward paired with that of first fit."""
    got = [solve(case) for case in cases]
    rewards, base = map(rewarded, got), [rewarded(METHODS["first_fit"](case)) for case in cases]
    names = ("served", "utilisation", "wait_slots", "overload")
    figures = [interval([float(getattr(r, name)) for r in got]) for name in names]
    reward = list(rewards)
    return [label, *figures, interval(reward), paired_difference(reward, base)]


def gate(made: Fit) -> str:
    """Whether the fitted order is used."""
    names = (*FEATURES, "bias", "margin")
    weights = ", ".join(f"{n} {w:.2f}" for n, w in zip(names, made.learned.weights, strict=True))
    verdict = "passed: the fitted order is used" if made.kept else "not passed: first fit stays"
    return (
        f"The fitted order (CMA-ES, {len(TRAIN)} days; validated on {len(VALIDATE)} others): reward {made.ours:.3f} "
        f"against {made.heuristic:.3f} of first fit; gate {verdict}. Weights: {weights}."
    )


def measure(options: Options) -> Iterator[Table]:
    """The quick run has three days and trains on four."""
    train, validate = (TRAIN[:4], VALIDATE[:4]) if options.quick else (TRAIN, VALIDATE)
    seeds = options.seeds_or(30, 3)
    made = fit([day(s, SLOTS, DEVICES) for s in train], [day(s, SLOTS, DEVICES) for s in validate])
    methods: dict[str, Method] = {
        "first fit": METHODS["first_fit"],
        "latest start first": METHODS["latest_start_first"],
        "largest first": METHODS["largest_first"],
        "fitted order": online(made.learned),
        "rolling plan": METHODS["rolling"],
        "first fit, true forecast": METHODS["informed_first_fit"],
        "largest first, true forecast": informed(largest_first),
        "offline optimum": METHODS["offline_optimum"],
    }
    for load in LOADS:
        cases = [day(s, SLOTS, DEVICES, load=load) for s in seeds]
        notes = [gate(made)] if load == LOADS[0] else []
        yield table(f"load {load:g}", COLUMNS, [row(name, m, cases) for name, m in methods.items()], notes)
    exact = [day(s, SLOTS, DEVICES, noise=0.0) for s in seeds]
    few = ("first fit", "fitted order", "rolling plan", "offline optimum")
    yield table("exact forecast", COLUMNS, [row(name, methods[name], exact) for name in few])
