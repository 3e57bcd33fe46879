"""How fast is the engine? All ratios are measured in one run, on the same work. Parts: peers, records, load, start-up.

Events per second of processor time, best of a few runs each; start-up figures are medians of fresh processes in wall
time. The quick run does a tenth of the work (the targets are then not judged fairly) and leaves start-up out.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks import synthetic
from benchmarks.page import ROOT
from benchmarks.table import Cell, Options, Table, table
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable
from tests.inference.peers import heapq_engine, saturated_engine, simpy_engine
from tests.inference.peers.work import PlainWork, plain_work

LOADS = (0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
LEAN = EngineOptions(late="run", record="requests")
FULL, BRIEF = (EngineOptions(late="last", record=record) for record in ("all", "requests"))
LEARNED, ALONE = "eunomia(rehearse=0)", ", requests alone"
M_EVENTS = "M layer events/s"


def line(
    what: str, measured: float, unit: str = M_EVENTS, target: float | None = None, *, at_most: bool = False
) -> list[Cell]:
    """A row of a table. ``target`` None = for information; ``at_most`` says which side is good."""
    met: Cell = ""
    if target is not None:
        met = bool(measured <= target if at_most else measured >= target)
    asked = "" if target is None else f"{'<=' if at_most else '>='} {target:g} {unit}"
    return [what, f"{measured:.3g} {unit}", asked, met]


def cpu_s(run: Callable[[], object]) -> float:
    """Processor time of one run: what one core does, whatever else the machine is busy with."""
    start = time.process_time()
    run()
    return time.process_time() - start


def best_of(repeats: int, run: Callable[[], object]) -> float:
    """Least processor time of several runs, in seconds."""
    return min(cpu_s(run) for _ in range(repeats))


def compiled(
    requests: RequestTable, branching: bool, policy: str, options: EngineOptions
) -> Callable[[], Outcome]:
    """A run of the compiled engine, ready to be timed: the arrays exist, the code is loaded."""
    costs = synthetic.cost_table(synthetic.networks(branching))
    problem = build_problem(requests, costs, synthetic.Platform(), options)
    return lambda: simulate_problem(problem, policy, options)


def against_peers(scale: float) -> Iterator[list[Cell]]:
    """8 accelerators of 4 types, 50 clients in closed loop, EDF on the fastest idle accelerator, chains."""
    costs = synthetic.cost_table(synthetic.networks(branching=False))
    sizes = {"compiled": 250_000, "heapq": 40_000, "simpy": 4_000}
    counts = {name: int(scale * size) + synthetic.CLIENTS for name, size in sizes.items()}
    works = {name: synthetic.closed_loop(costs, count) for name, count in counts.items()}
    plain = {n: plain_work(costs, works[n], synthetic.Platform()) for n in ("heapq", "simpy")}
    runs: dict[str, Callable[[], object]] = {
        "compiled": compiled(works["compiled"], False, "edf", LEAN),
        "heapq": lambda: heapq_engine.run(plain["heapq"]),
        "saturated": lambda: saturated_engine.run(plain["heapq"]),
        "simpy": lambda: simpy_engine.run(plain["simpy"]),
    }
    compiled(works["simpy"], False, "edf", LEAN)()  # load the machine code
    works["saturated"] = works["heapq"]
    rounds = [{name: cpu_s(run) for name, run in runs.items()} for _ in range(4)]  # in turn: all see the same
    rate = {n: synthetic.layer_count(costs, works[n]) / min(times[n] for times in rounds) for n in runs}
    check_same_work(works["heapq"], plain["heapq"], heapq_engine, saturated_engine)
    check_same_work(works["simpy"], plain["simpy"], simpy_engine)
    step = [mean_step_s(work) for work in works.values()]
    idle = "heapq program that knows nothing is ever idle"
    yield line("compiled engine, 50 live requests, EDF", rate["compiled"] / 1e6, target=10.0)
    yield line("good heapq program (two heaps, virtual time)", rate["heapq"] / 1e6)
    yield line(idle, rate["saturated"] / 1e6)
    yield line("simpy program", rate["simpy"] / 1e6)
    yield line("compiled / heapq", rate["compiled"] / rate["heapq"], "x", 8.0)
    yield line(f"compiled / {idle}", rate["compiled"] / rate["saturated"], "x")
    yield line("compiled / simpy", rate["compiled"] / rate["simpy"], "x", 400.0)
    spread = 100.0 * (max(step) / min(step) - 1.0)
    yield line("simulated time per event, spread between the three works", spread, "%", 1.0, at_most=True)


def mean_step_s(requests: RequestTable) -> float:
    """Simulated time per layer event."""
    out = compiled(requests, False, "edf", LEAN)()
    return out.end_s / out.events


def check_same_work(requests: RequestTable, plain: PlainWork, *peers: ModuleType) -> None:
    """All programs finish every request at the same time: they simulate the same thing."""
    ours = compiled(requests, False, "edf", LEAN)().results["finish_s"]
    for peer in peers:
        events, _, finish = peer.run(plain)
        assert events == sum(b - a + 1 for a, b in zip(plain.first_row, plain.last_row, strict=True))
        assert np.allclose(ours, finish, rtol=1e-9), f"{peer.__name__} simulates something else"


def everything_on(scale: float) -> Iterator[list[Cell]]:
    """Graphs with parallel branches, contention, energy, an SLO per tenant, every layer and decision recorded."""
    costs = synthetic.cost_table(synthetic.networks(branching=True))
    requests = synthetic.closed_loop(costs, int(scale * 40_000) + synthetic.CLIENTS, with_slos=True)
    few = synthetic.closed_loop(costs, int(scale * 4_000) + synthetic.CLIENTS, with_slos=True)
    name, count = "graphs, contention, energy, SLIs, records", dict[str, int]()
    rules = ("edf+f", "edf+f+eft", "deficit_edf+f", "triage", "shift", LEARNED)
    work = {rule: few if rule == LEARNED else requests for rule in rules}
    runs = {rule: compiled(work[rule], True, rule, FULL) for rule in rules}
    runs |= {rule + ALONE: compiled(work[rule], True, rule, BRIEF) for rule in ("edf+f", LEARNED)}
    for rule, run in runs.items():
        count[rule] = (out := run()).events
        assert len(out.subjobs) == len(out.decisions) == (out.events if rule in rules else 0)
        assert out.results["energy_j"].min() > 0.0
    rounds = [{rule: cpu_s(run) for rule, run in runs.items()} for _ in range(4)]  # in turn: all see the same
    rate = {rule: count[rule] / min(times[rule] for times in rounds) / 1e6 for rule in runs}
    for rule in runs:
        yield line(f"{name}: {rule}", rate[rule], target=4.0 if rule == "edf+f" else None)
    for rule, beside in [*((rule, "edf+f") for rule in rules[1:]), (LEARNED + ALONE, "edf+f" + ALONE)]:
        yield line(f"{rule} / {beside}", rate[rule] / rate[beside], "x", 0.33 if LEARNED in rule else 0.5)
    for contention in ("max_min", "weighted"):
        run = compiled(requests, True, "edf+f", EngineOptions(contention=contention))
        yield line(f"the same with {contention} sharing: edf+f", count["edf+f"] / best_of(3, run) / 1e6)


def under_load(scale: float) -> Iterator[list[Cell]]:
    """Open Poisson arrivals, nothing dropped: queues grow to thousands beyond load 1."""
    costs = synthetic.cost_table(synthetic.networks(branching=False))
    count = int(scale * 40_000)
    r = synthetic.poisson(costs, max(count // 8, 500), 1.0)
    burst = RequestTable(r.agreements, r.pair, np.zeros(len(r)), r.relative_deadline_s)
    rate = len(burst) / compiled(burst, False, "fcfs", LEAN)().end_s  # load 1.0 = saturated under FCFS
    for policy in ("edf", "edf+f", "edf+f+eft"):
        for load in LOADS:
            run = compiled(synthetic.poisson(costs, count, load * rate), False, policy, LEAN)
            out = run()
            name = f"open arrivals, load {load:.2f}, {policy}, up to {most_live(out)} live"
            yield line(name, out.events / best_of(2, run) / 1e6, target=1.0)


def most_live(out: Outcome) -> int:
    """Largest number of requests in the system."""
    times = np.concatenate([out.results["arrival_s"], out.results["finish_s"]])
    change = np.concatenate([np.ones(len(out.results)), -np.ones(len(out.results))])
    return int(np.cumsum(change[np.argsort(times, kind="stable")]).max())


IMPORT = "import time; t = time.perf_counter(); import eunomia; print(time.perf_counter() - t)"
FIRST_RUN = """
import time; t = time.perf_counter()
from benchmarks.synthetic import Platform, closed_loop, cost_table, networks
from eunomia.inference.simulate import simulate
table = cost_table(networks(False))
simulate(closed_loop(table, 100), table, Platform(), "edf")
print(time.perf_counter() - t, time.process_time())
"""


def fresh_process(code: str, **environment: str) -> list[float]:
    """What a new interpreter prints: seconds."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def start_up() -> Iterator[list[Cell]]:
    """Import, first run with an empty cache of machine code, first run of later processes."""
    fresh_process(IMPORT)
    import_s = statistics.median(fresh_process(IMPORT)[0] for _ in range(5))
    with tempfile.TemporaryDirectory() as folder:
        caches = [str(Path(folder) / str(i)) for i in range(3)]
        cold = [fresh_process(FIRST_RUN, NUMBA_CACHE_DIR=cache) for cache in caches]
        cached = [fresh_process(FIRST_RUN, NUMBA_CACHE_DIR=caches[0])[0] for _ in range(5)]
    cold_s, processor_s = (statistics.median(times) for times in zip(*cold, strict=True))
    first = "first run, fresh process, "
    yield line("import eunomia, fresh process", import_s, "s", 0.3, at_most=True)
    yield line(f"{first}nothing compiled yet", cold_s, "s", 5.0, at_most=True)
    yield line("the same, processor time of the whole process", processor_s, "s")
    yield line(f"{first}machine code cached", statistics.median(cached), "s", 1.0, at_most=True)


def measure(options: Options) -> Iterator[Table]:
    """A table for each part."""
    scale = 0.1 if options.quick else 1.0
    parts: dict[str, Callable[[], Iterator[list[Cell]]]] = {
        "peers": lambda: against_peers(scale),
        "records": lambda: everything_on(scale),
        "load": lambda: under_load(scale),
        "start-up": start_up,
    }
    for name in options.chosen(parts):
        if name != "start-up" or not options.quick:
            notes = [f"Load average {os.getloadavg()[0]:.1f} at the end."] if name == "start-up" else []
            yield table(name, "what; measured; target; met", parts[name](), notes)
