"""How fast is the engine? All ratios are measured in one run, on the same work: ``python -m benchmarks.engine``.

``--json`` prints the figures as JSON, ``--write`` also puts the table into results/engine.md,
``--quick`` uses a tenth of the work (the targets are then not judged fairly).
"""

from __future__ import annotations

import argparse
import json
import os
import platform as machine
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks import synthetic
from benchmarks.peers import heapq_engine, saturated_engine, simpy_engine
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable

LOADS = (0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
LEAN = EngineOptions(late="run", record="requests")
FULL = EngineOptions(late="last", record="all")
RESULTS = Path(__file__).parent.parent / "results" / "engine.md"


@dataclass(frozen=True)
class Line:
    """One measured figure. ``target`` None = for information; ``at_most`` says which side is good."""

    what: str
    measured: float
    unit: str
    target: float | None = None
    at_most: bool = False

    @property
    def met(self) -> str:
        """Whether the target is met."""
        if self.target is None:
            return ""
        return (
            "yes"
            if (self.measured <= self.target if self.at_most else self.measured >= self.target)
            else "NO"
        )


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
    table = synthetic.cost_table(synthetic.networks(branching))
    problem = build_problem(requests, table, synthetic.Platform(), options)
    return lambda: simulate_problem(problem, policy, options)


def against_peers(scale: float) -> list[Line]:
    """8 accelerators of 4 types, 50 clients in closed loop, EDF on the fastest idle accelerator, chains."""
    table = synthetic.cost_table(synthetic.networks(branching=False))
    works = {
        name: synthetic.closed_loop(table, int(scale * count) + synthetic.CLIENTS)
        for name, count in (("compiled", 250_000), ("heapq", 40_000), ("simpy", 4_000))
    }
    plain = {
        name: synthetic.plain_work(table, works[name], synthetic.Platform()) for name in ("heapq", "simpy")
    }
    runs: dict[str, Callable[[], object]] = {
        "compiled": compiled(works["compiled"], False, "edf", LEAN),
        "heapq": lambda: heapq_engine.run(plain["heapq"]),
        "saturated": lambda: saturated_engine.run(plain["heapq"]),
        "simpy": lambda: simpy_engine.run(plain["simpy"]),
    }
    compiled(works["simpy"], False, "edf", LEAN)()  # load the machine code
    works["saturated"] = works["heapq"]
    rounds = [
        {name: cpu_s(run) for name, run in runs.items()} for _ in range(4)
    ]  # in turn, so that all see the same
    events_s = {
        name: synthetic.layer_count(table, works[name]) / min(times[name] for times in rounds)
        for name in runs
    }
    for name, peers in (("heapq", (heapq_engine, saturated_engine)), ("simpy", (simpy_engine,))):
        check_same_work(works[name], plain[name], *peers)
    step = {name: mean_step_s(works[name]) for name in works}
    spread = max(step.values()) / min(step.values()) - 1.0
    return [
        Line("compiled engine, 50 live requests, EDF", events_s["compiled"] / 1e6, "M layer events/s", 10.0),
        Line("good heapq program (two heaps, virtual time)", events_s["heapq"] / 1e6, "M layer events/s"),
        Line(
            "heapq program that knows nothing is ever idle", events_s["saturated"] / 1e6, "M layer events/s"
        ),
        Line("simpy program", events_s["simpy"] / 1e6, "M layer events/s"),
        Line("compiled / heapq", events_s["compiled"] / events_s["heapq"], "x", 8.0),
        Line(
            "compiled / heapq that knows nothing is ever idle",
            events_s["compiled"] / events_s["saturated"],
            "x",
        ),
        Line("compiled / simpy", events_s["compiled"] / events_s["simpy"], "x", 400.0),
        Line(
            "simulated time per event, spread between the three works", 100.0 * spread, "%", 1.0, at_most=True
        ),
    ]


def mean_step_s(requests: RequestTable) -> float:
    """Simulated time per layer event."""
    out = compiled(requests, False, "edf", LEAN)()
    return out.end_s / out.events


def check_same_work(requests: RequestTable, plain: synthetic.PlainWork, *peers: ModuleType) -> None:
    """All programs finish every request at the same time: they simulate the same thing."""
    ours = compiled(requests, False, "edf", LEAN)().results["finish_s"]
    for peer in peers:
        events, _, finish = peer.run(plain)
        assert events == sum(b - a + 1 for a, b in zip(plain.first_row, plain.last_row, strict=True))
        assert np.allclose(ours, finish, rtol=1e-9), f"{peer.__name__} simulates something else"


def everything_on(scale: float) -> list[Line]:
    """Graphs with parallel branches, contention, energy, an SLO per tenant, every layer and decision recorded."""
    table = synthetic.cost_table(synthetic.networks(branching=True))
    requests = synthetic.closed_loop(table, int(scale * 40_000) + synthetic.CLIENTS, with_slos=True)
    count, lines = synthetic.layer_count(table, requests), []
    for policy, target in (("edf+f", 4.0), ("edf+f+eft", None), ("deficit_edf+f", None)):
        run = compiled(requests, True, policy, FULL)
        out = run()
        assert out.events == count
        assert len(out.subjobs) == len(out.decisions) == count
        assert out.results["energy_j"].min() > 0.0
        name = f"graphs, contention, energy, SLIs, records: {policy}"
        lines.append(Line(name, count / best_of(4, run) / 1e6, "M layer events/s", target))
    for contention in ("max_min", "weighted"):
        run = compiled(requests, True, "edf+f", EngineOptions(contention=contention))
        lines.append(
            Line(
                f"the same with {contention} sharing: edf+f",
                count / best_of(3, run) / 1e6,
                "M layer events/s",
            )
        )
    return lines


def under_load(scale: float) -> list[Line]:
    """Open Poisson arrivals, nothing dropped: queues grow to thousands beyond load 1."""
    table = synthetic.cost_table(synthetic.networks(branching=False))
    count = int(scale * 40_000)
    burst = RequestTable(*_all_at_once(synthetic.poisson(table, max(count // 8, 500), 1.0)))
    saturated = compiled(burst, False, "fcfs", LEAN)()
    rate = len(burst) / saturated.end_s  # load 1.0 = saturated throughput, first come, first served
    lines = []
    for policy in ("edf", "edf+f", "edf+f+eft"):
        for load in LOADS:
            requests = synthetic.poisson(table, count, load * rate)
            run = compiled(requests, False, policy, LEAN)
            out = run()
            events_s = out.events / best_of(2, run)
            name = f"open arrivals, load {load:.2f}, {policy}, up to {most_live(out)} live"
            lines.append(Line(name, events_s / 1e6, "M layer events/s", 1.0))
    return lines


def _all_at_once(requests: RequestTable) -> tuple[object, ...]:
    return requests.agreements, requests.pair, np.zeros(len(requests)), requests.relative_deadline_s


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
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path]),
        **environment,
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def start_up() -> list[Line]:
    """Import, first run with an empty cache of machine code, first run of later processes."""
    fresh_process(IMPORT)
    import_s = statistics.median(fresh_process(IMPORT)[0] for _ in range(5))
    with tempfile.TemporaryDirectory() as folder:
        caches = [str(Path(folder) / str(i)) for i in range(3)]
        cold = [fresh_process(FIRST_RUN, NUMBA_CACHE_DIR=cache) for cache in caches]
        cached = [fresh_process(FIRST_RUN, NUMBA_CACHE_DIR=caches[0])[0] for _ in range(5)]
    cold_s, processor_s = (statistics.median(times) for times in zip(*cold, strict=True))
    return [
        Line("import eunomia, fresh process", import_s, "s", 0.3, at_most=True),
        Line("first run, fresh process, nothing compiled yet", cold_s, "s", 5.0, at_most=True),
        Line("the same, processor time of the whole process", processor_s, "s"),
        Line(
            "first run, fresh process, machine code cached", statistics.median(cached), "s", 1.0, at_most=True
        ),
    ]


def as_table(lines: list[Line]) -> str:
    """Markdown."""
    rows = ["| what | measured | target | met |", "| --- | ---: | ---: | --- |"]
    for line in lines:
        target = (
            "" if line.target is None else f"{'<=' if line.at_most else '>='} {line.target:g} {line.unit}"
        )
        rows.append(f"| {line.what} | {line.measured:.3g} {line.unit} | {target} | {line.met} |")
    return "\n".join(rows)


def describe_machine() -> str:
    """What the figures were measured on."""
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    cpu = names[0] if names else machine.machine()
    versions = f"Python {machine.python_version()}, NumPy {np.__version__}"
    return f"{cpu}, {os.cpu_count()} cores, {versions}; load average {os.getloadavg()[0]:.1f} at the end"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


PAGE = """# Speed of the engine

Written by `python -m benchmarks.engine --write`. Events per second of processor time, best of a few runs each;
start-up figures are medians of fresh processes in wall time, which only a quiet machine shows truly. A layer event
is the end of one layer. Work: 8 accelerators of 4 types, networks of 8 to 36 layers of 5 kinds, proportional bandwidth
sharing. Closed loops of 250,000 requests for the compiled engine, 40,000 for the heapq programs and 4,000 for simpy,
drawn alike; the spread of simulated time per event is given below. What each peer is timed on is also run by the
compiled engine, and every finish time is compared. On the peers' case the compiled engine keeps results per request
alone and mostly takes its short way through the event loop (docs/engine.md); the lines with records do not.

Measured on: {machine}

{table}
"""


def main() -> None:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} in results")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    scale = 0.1 if options.quick else 1.0
    lines = [*against_peers(scale), *everything_on(scale), *under_load(scale), *start_up()]
    if options.json:
        figures = [{**asdict(line), "met": line.met} for line in lines]
        print(json.dumps({"machine": describe_machine(), "figures": figures}, indent=2))
    else:
        print(as_table(lines))
    if options.write:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(PAGE.format(machine=describe_machine(), table=as_table(lines)))


if __name__ == "__main__":
    main()
