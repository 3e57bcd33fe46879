"""OSDEC: deferrable jobs against first fit and the offline optimum; a fitted order with its gate."""

from __future__ import annotations

import numpy as np

from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.environments.deferrable import (
    FEATURES,
    DeferrableCase,
    DeferrableResult,
    day,
    largest_first,
)
from eunomia.cluster.environments.deferrable_fit import Fit, fit
from eunomia.metrics.statistics import paired_difference
from eunomia.study.cluster.deferrable import METHODS, Method, informed, online

SEEDS = range(30)  # test days; none of them is a day of training or validation
TRAIN, VALIDATE = range(1000, 1040), range(2000, 2060)
LOADS = (0.6, 1.2, 2.0)
SLOTS, DEVICES = 32, 8
COLUMNS = ("served", "utilisation", "wait, slots", "overload", "reward", "over first fit")


def _rewarded(result: DeferrableResult) -> float:
    wait = 0.0 if np.isnan(result.wait_slots) else result.wait_slots
    return result.served * (1.0 - 2.0 * result.overload) - 0.01 * wait / 24.0


def _line(label: str, solve: Method, cases: list[DeferrableCase]) -> list[str]:
    got = [solve(case) for case in cases]
    base = [_rewarded(METHODS["first_fit"](case)) for case in cases]
    gain = paired_difference([_rewarded(r) for r in got], base)
    return [
        label, cell([r.served for r in got], 1, True), cell([r.utilisation for r in got], 1, True),
        cell([r.wait_slots for r in got], 1), cell([r.overload for r in got], 1, True),
        cell([_rewarded(r) for r in got], 3), f"{gain.mean:+.3f} ± {gain.half_width:.3f}",
    ]  # fmt: skip


def study() -> str:
    """The whole part of the page."""
    made = fit([day(s, SLOTS, DEVICES) for s in TRAIN], [day(s, SLOTS, DEVICES) for s in VALIDATE])
    parts = []
    for load in LOADS:
        cases = [day(s, SLOTS, DEVICES, load=load) for s in SEEDS]
        rows = [
            _line("first fit", METHODS["first_fit"], cases),
            _line("latest start first", METHODS["latest_start_first"], cases),
            _line("largest first", METHODS["largest_first"], cases),
            _line("fitted order", online(made.learned), cases),
            _line("rolling plan", METHODS["rolling"], cases),
            _line("first fit, true forecast", METHODS["informed_first_fit"], cases),
            _line("largest first, true forecast", informed(largest_first), cases),
            _line("offline optimum", METHODS["offline_optimum"], cases),
        ]
        parts.append(f"Load {load:g}:\n\n" + table(("", *COLUMNS), rows))
    exact = [day(s, SLOTS, DEVICES, noise=0.0) for s in SEEDS]
    rows = [
        _line("first fit", METHODS["first_fit"], exact),
        _line("fitted order", online(made.learned), exact),
        _line("rolling plan", METHODS["rolling"], exact),
        _line("offline optimum", METHODS["offline_optimum"], exact),
    ]
    parts.append("Load 1.2, the forecast is exact:\n\n" + table(("", *COLUMNS), rows))
    return TEXT.format(
        machine=machine(), seeds=len(SEEDS), train=len(TRAIN), validate=len(VALIDATE),
        gate=_gate(made), parts="\n\n".join(parts),
    )  # fmt: skip


def _gate(made: Fit) -> str:
    names = (*FEATURES, "bias", "margin")
    weights = ", ".join(f"{n} {w:.2f}" for n, w in zip(names, made.learned.weights, strict=True))
    verdict = "passed: the fitted order is used" if made.kept else "not passed: first fit stays"
    return f"reward {made.ours:.3f} against {made.heuristic:.3f} of first fit; gate {verdict}. Weights: {weights}"


TEXT = """## OSDEC: deferrable jobs in what is left over

`python -m benchmarks.cluster_peers osdec --write` ({machine}). {seeds} days of 32 slots, 8 devices; on-demand work
takes half of them on average with a daily wave and an error that the forecast does not know; jobs of 1 to 4
devices and 1 to 5 slots, windows up to 8 slots. Load: device-slots asked for over those left over. `served`:
device-slots started in their windows over those asked for; `overload`: device-slots taken from on-demand work
because the forecast was wrong, over those started; reward = served * (1 - 2 overload) - 0.01 wait / 24. The
optimum knows the truth and never overloads (within 0.1 %); the line "true forecast" separates what knowing is
worth from what ordering is worth.

The fitted order (CMA-ES, {train} days; validated on {validate} others): {gate}.

{parts}
"""
