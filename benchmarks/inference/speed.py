"""Time of one decision with 64 sub-jobs ready, one thread.

The view comes from a saturated run (MoCA mixed, load 1.3, nothing dropped). Each call decides the whole
instant; calls from Python include about a microsecond of the call itself. Beside wall time stands the thread's own
processor time: what the call costs while the processor is not given to somebody else in the middle of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.inference.learned import Place
from benchmarks.table import Cell, Options, Table, table
from eunomia.contract.constants import give_constants
from eunomia.contract.view import View
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.options import EngineOptions
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.load import card_of, load_policy
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights

SIZES = (16, 64, 128)
ENERGY_TARGET, PJ, PER_NS = 0.0039, 25.0, 6.0


def crowded_view(least: int) -> View:
    """The first view of a saturated run that shows at least ``least`` sub-jobs while several accelerators are idle."""
    problem = Place("mixed", 1.3, bandwidth_gb_s=18.0).episode(0, None).problem
    engine = Engine(problem, Rules(STEP), EngineOptions(late="run", record="requests"))
    running = engine.advance()
    while running:
        view = engine.view()
        if len(view) >= least:
            return view
        idle = [s for s in view.idle if np.isfinite(view.latency_s[-1, s])]
        answer = [view.assign(len(view) - 1, int(idle[0]))] if idle else []
        running = engine.advance(engine.answer(view, answer))
    raise SystemExit(f"the run never had {least} sub-jobs waiting")


def times_us(policy: LearnedPolicy, view: View, calls: int) -> list[float]:
    """Of a decision: median and 99th percentile of wall time, 99th percentile of processor time."""
    answer, priority, system = np.zeros((512, 2), np.int64), np.zeros(512), view.system
    give_constants(policy, system)
    facts = (view.ready, view.latency_s, view.demand_bytes_s, view.energy_j, view.accelerators)
    took, worked = np.empty(calls), np.empty(calls)
    for n in range(calls):
        system["memory"][:] = 0.0  # or it would know that it has decided
        began_work, began = time.thread_time(), time.perf_counter()
        policy.decide(*facts, system, answer, priority)
        took[n], worked[n] = time.perf_counter() - began, time.thread_time() - began_work
    return [1e6 * float(v) for v in (np.median(took), np.quantile(took, 0.99), np.quantile(worked, 0.99))]


def shipped_with(kind: str, units: int) -> LearnedPolicy:
    """The shipped policy, with a network of small random output on top."""
    weights: Weights = load_policy("eunomia").weights
    if kind != "linear":
        weights = weights.with_network(kind, units, 0)
        weights = replace(weights, network={**weights.network, "out": np.full(units, 1e-3)})
    return LearnedPolicy(weights)


def processor_s(policy: LearnedPolicy | str, episode: Episode) -> float:
    """Processor time of a run, the least of five."""
    took = []
    for _ in range(5):
        began = time.thread_time()
        simulate_problem(episode.problem, policy, EngineOptions(late="drop", record="requests"))
        took.append(time.thread_time() - began)
    return min(took[1:])


def energy(decision_us: float) -> str:
    """What deciding costs, against the energy of the networks themselves.

    Time of deciding = time of a run under the policy less that under its rule, which the engine decides by itself. One
    trace of 400 requests, mixed set, load 1, 24 GB/s, proportional sharing. The core: single-issue, 22 nm, 25 pJ per
    instruction (Ariane, 40 Gop/s per watt at best: Zaruba and Benini, IEEE TVLSI 2019, arXiv 1904.05442); it executes
    as many instructions as this processor does at 3 GHz and 2 a cycle, an assumption.
    """
    policy, episode = LearnedPolicy(load_policy("eunomia").weights), Place("mixed", 1.0).episode(0)
    rule = card_of("eunomia")["validation"]["heuristic"]
    outcome = simulate_problem(episode.problem, policy, EngineOptions(late="drop", record="requests"))
    joules, decisions = float(outcome.results["energy_j"].sum()), policy.counts["decisions"]
    seconds = max(processor_s(policy, episode) - processor_s(rule, episode), 1e-9)
    cores = {"0.1 W": 0.1, "1 W": 1.0, "that core": PER_NS * 1e9 * PJ * 1e-12}
    shares = ", ".join(f"{100.0 * watts * seconds / joules:.2g} % at {name}" for name, watts in cores.items())
    return (
        f"Energy: {decisions / len(outcome.results):.0f} decisions a request of {1e6 * seconds / decisions:.2f} us in "
        f"the mean of a run ({decision_us:.1f} us with 16 sub-jobs ready, called from Python), "
        f"{1e3 * joules / len(outcome.results):.3g} mJ a request by the cost model (mixed set, load 1, 24 GB/s): "
        f"deciding takes {shares} ({PJ:g} pJ per instruction, {PER_NS:g} instructions in a nanosecond of this "
        f"processor). Asked were {100.0 * ENERGY_TARGET:g} %; RELMAS states no model."
    )


def measure(options: Options) -> Iterator[Table]:
    """One table; the quick run makes a tenth of the calls."""
    calls, view = 500 if options.quick else 5_000, crowded_view(max(SIZES))
    rows: list[list[Cell]] = []
    for kind, units in (("linear", 0), ("hidden", 8), ("pointer", 16)):
        rows.append([f"{kind}{f', {units} units' if units else ''}"])
        for n in SIZES:
            facts = (view.latency_s[:n], view.demand_bytes_s[:n], view.energy_j[:n])
            part = View(view.system.copy(), view.ready[:n], view.accelerators, *facts)
            rows[-1] += times_us(shipped_with(kind, units), part, calls)
    columns = "".join(f"; n = {n}: median us|.1f; p99 us|.1f; p99 us, processor|.1f" for n in SIZES)
    busy = f"Measured with {os.getloadavg()[0]:.1f} busy processes on {os.cpu_count()} cores, {calls:,} calls each."
    yield table("decision", f"policy{columns}", rows, [busy, energy(float(rows[0][1]))])  # type: ignore[arg-type]
