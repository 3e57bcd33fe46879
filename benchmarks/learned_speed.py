"""Time of one decision with 64 sub-jobs ready, one thread: ``python -m benchmarks.learned_speed [--write]``.

The view comes from a saturated run (MoCA mixed, load 1.3, nothing dropped). Each call decides the whole
instant; calls from Python include about a microsecond of the call itself. Beside wall time stands the thread's own
processor time: what the call costs while the processor is not given to somebody else in the middle of it.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.learned import Place
from eunomia.contract.view import View
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.options import EngineOptions
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.learning.load import load_policy
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from eunomia.study.learning.training import scenario_episode

RESULTS = Path(__file__).parent.parent / "results" / "learned.md"
BEGIN, END = "<!-- begin: python -m benchmarks.learned_speed --write -->", "<!-- end of speed -->"
SIZES, CALLS = (16, 64, 128), 5_000
POWERS_W, ENERGY_TARGET = (0.1, 1.0, 10.0), 0.0039


def crowded_view(least: int) -> View:
    """The first view of a saturated run that shows at least ``least`` sub-jobs while several accelerators are idle."""
    episode = scenario_episode(Place("mixed", 18.0, 1.3).scenario(), 0)
    engine = Engine(episode.problem, Rules(STEP), EngineOptions(late="run", record="requests"))
    running = engine.advance()
    while running:
        view = engine.view()
        if len(view) >= least:
            return view
        idle = [s for s in view.idle if np.isfinite(view.latency_s[-1, s])]
        running = engine.advance(
            engine.answer(view, [view.assign(len(view) - 1, int(idle[0]))] if idle else [])
        )
    raise SystemExit(f"the run never had {least} sub-jobs waiting")


def times_us(policy: LearnedPolicy, view: View) -> tuple[float, float, float]:
    """Of a decision: median and 99th percentile of wall time, 99th percentile of processor time."""
    answer, priority = np.zeros((512, 2), np.int64), np.zeros(512)
    system = view.system
    system["parameters"][:2] = policy.parameters
    arguments = (view.ready, view.latency_s, view.demand_bytes_s, view.energy_j, view.accelerators, system, answer,
                 priority)  # fmt: skip
    took, worked = np.empty(CALLS), np.empty(CALLS)
    for n in range(CALLS):
        system["memory"][:] = 0.0  # or it would know that it has decided
        began_work, began = time.thread_time(), time.perf_counter()
        policy.decide(*arguments)
        took[n], worked[n] = time.perf_counter() - began, time.thread_time() - began_work
    median, late, work = np.median(took), np.quantile(took, 0.99), np.quantile(worked, 0.99)
    return 1e6 * float(median), 1e6 * float(late), 1e6 * float(work)


def shipped_with(kind: str, units: int) -> LearnedPolicy:
    """The shipped policy, with a network of small random output on top."""
    weights: Weights = load_policy("eunomia").weights
    if kind != "linear":
        weights = weights.with_network(kind, units, 0)
        weights = replace(weights, network={**weights.network, "out": np.full(units, 1e-3)})
    return LearnedPolicy(weights)


def report() -> str:
    """The table."""
    view, typical_us = crowded_view(max(SIZES)), 0.0
    lines = ["| policy | " + " | ".join(f"n = {n}: median us | p99 us | p99 us, processor" for n in SIZES) + " |",
             "|---|" + "---:|---:|---:|" * len(SIZES)]  # fmt: skip
    for kind, units in (("linear", 0), ("hidden", 8), ("pointer", 16)):
        cells = []
        for n in SIZES:
            part = View(view.system.copy(), view.ready[:n], view.accelerators, view.latency_s[:n],
                        view.demand_bytes_s[:n], view.energy_j[:n])  # fmt: skip
            times = times_us(shipped_with(kind, units), part)
            typical_us = typical_us or times[0]
            cells.append("{:.1f} | {:.1f} | {:.1f}".format(*times))
        lines.append(f"| {kind}{f', {units} units' if units else ''} | " + " | ".join(cells) + " |")
    lines.append(
        f"\nMeasured with {os.getloadavg()[0]:.1f} busy processes on {os.cpu_count()} cores, {CALLS:,} calls each."
    )
    return "\n".join([*lines, "", energy(typical_us)])


def energy(decision_us: float) -> str:
    """What deciding costs, against the energy of the networks themselves.

    overhead = power of the scheduler's core x time of a decision with 16 sub-jobs ready x decisions, over the energy of
    all layers that ran by the cost model. One trace of 400 requests, mixed set, load 1, 24 GB/s, proportional sharing.
    """
    policy = LearnedPolicy(load_policy("eunomia").weights)
    options = EngineOptions(late="drop", record="requests")
    outcome = simulate_problem(Place("mixed", 24.0, 1.0).episode(0).problem, policy, options)
    joules = float(outcome.results["energy_j"].sum())
    seconds = policy.counts["decisions"] * decision_us * 1e-6
    shares = ", ".join(f"{100.0 * watts * seconds / joules:.2g} % at {watts:g} W" for watts in POWERS_W)
    most_w = ENERGY_TARGET * joules / seconds
    each, spent = policy.counts["decisions"] / len(outcome.results), 1e3 * joules / len(outcome.results)
    return (
        f"Energy: {each:.0f} decisions a request of {decision_us:.1f} us (16 sub-jobs ready, on this processor), "
        f"{spent:.3g} mJ a request by the cost model (mixed set, load 1, 24 GB/s): deciding takes {shares}. Below the "
        f"{100.0 * ENERGY_TARGET:g} % that was asked for if the scheduler's core draws less than {1e3 * most_w:.0f} mW "
        "at this speed; RELMAS states no model."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    text = report()
    print(text)
    if parser.parse_args().write:
        page = RESULTS.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        RESULTS.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
