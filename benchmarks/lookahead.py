"""How much of the gap to the best clairvoyant schedule does lookahead close? ``python -m benchmarks.lookahead``.

Light, heavy and mixed sets at loads from 0.85 to 1.3. The rule to beat is chosen on validation traces, for every
set and load by itself, among orders x placements x gates, all +f. The clairvoyant schedule is the best found by
search on the test trace itself. ``--small`` takes one seed of short traces, ``--write`` puts the tables into
results/lookahead.md; the second part of that page is benchmarks.lookahead_tenants.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eunomia.config.load import scenario_from
from eunomia.contract.view import Assign, View
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.companion import Companion
from eunomia.inference.lookahead.policy import Lookahead
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.metrics.bounds import hit_bound
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.tuning import ValidationProblem, choose, validation_seeds
from eunomia.workload.requests import RequestTable

SETS = ("moca-light", "moca-heavy", "moca-mixed")
LOADS = (0.85, 1.0, 1.15, 1.3)
RULES = tuple(
    f"{order}+f{place}{gate}"
    for order, place, gate in itertools.product(
        ("edf", "edf_bytes", "llf", "sjf"),
        ("", "+eft", "+eft_ca", "+pref"),
        ("", "+g1", "+g0.9", "+g0.75", "+g0.6"),
    )
)
OPTIONS = EngineOptions(late="drop", record="requests")
FIRST_SEED = 5000  # of the tests: settings and designs were tried out on others, 0 to 14 and 100 to 109
VARIANTS = {  # what is shown -> settings beside the base
    "no limit": "budget_us=0",
    "500 us": "budget_us=500",
    "200 us": "budget_us=200",
    "100 us": "budget_us=100",
    "500 us, rules alone": "budget_us=500,singles=false",
    "500 us, price 0": "budget_us=500,price=0",
    "500 us, charged": "budget_us=500,charge=true",
    "100 us, charged": "budget_us=100,charge=true",
    "500 us, charged, no rules": "budget_us=500,charge=true,portfolio=none",
    "500 us, charged, half as fast": "budget_us=500,charge=true,ends_per_us=4",
    "500 us, charged, twice as fast": "budget_us=500,charge=true,ends_per_us=16",
}
PROMISES = "## Promises to tenants"
Found = TypeVar("Found")
RESULTS = Path(__file__).parent.parent / "results" / "lookahead.md"


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    seeds: int = 5
    validation: int = 3
    requests: int = 250
    evaluations: int = 500
    loads: tuple[float, ...] = LOADS


SMALL = Size(2, 1, 150, 100, (1.0, 1.3))


@dataclass(frozen=True)
class Trace:
    """Hits on one test trace, and the times [us] that plans took on the first of its kind, per variant."""

    workload: str
    load: float
    rule: str
    requests: int
    rule_hits: int
    searched: int  # by the clairvoyant search
    bound: float
    hits: dict[str, int]
    plan_us: dict[str, list[float]]
    planning_s: dict[str, tuple[float, float, float]]  # charged by the model, measured, length of the trace

    @property
    def found(self) -> int:
        """Hits of the best schedule known: of the search, or of an uncharged lookahead where that is better."""
        return max(
            self.searched, self.rule_hits, *(n for name, n in self.hits.items() if "charged" not in name)
        )


class Timed:
    """A lookahead asked step by step: processor time of each answer that made a plan."""

    def __init__(self, policy: Lookahead) -> None:
        self.policy, self.rules, self.parameters = policy, policy.rules, policy.parameters
        self.plan_us: list[float] = []

    def attach(self, engine: Any) -> Companion:
        """Keep the counters in sight."""
        self.companion = self.policy.attach(engine)
        return self.companion

    def __call__(self, view: View) -> list[Assign]:
        """Answer, and note what the plan took, if one was made."""
        before, began = self.companion.count("deliberations"), time.thread_time()
        answer = self.policy(view)
        if self.companion.count("deliberations") > before:
            self.plan_us.append(1e6 * (time.thread_time() - began))
        return answer


def run_time(problem: Any, policy: Lookahead, planning: bool) -> tuple[float, Companion | None]:
    """Least processor time of three compiled runs, with its planning or without."""
    least, companion = np.inf, None
    for _ in range(3):
        engine = Engine(problem, policy.rules, OPTIONS, None, policy.decide)
        engine.state["system"]["parameters"][0, :4] = policy.parameters
        engine.companion = companion = policy.attach(engine) if planning else None
        began = time.process_time()
        engine.advance()
        least = min(least, time.process_time() - began)
    return least, companion


def planning_time(problem: Any, policy: Lookahead) -> tuple[float, float, float]:
    """(time that the model charges for all plans, processor time that they took, length of the trace) [s]."""
    with_s, companion = run_time(problem, policy, True)
    without_s, _ = run_time(problem, policy, False)
    assert companion is not None
    ends_s = companion.count("layer_ends") * policy.settings.unit_s
    charged_s = companion.count("deliberations") * policy.settings.snapshot_s + ends_s
    return charged_s, with_s - without_s, float(problem.jobs.arrival_s[-1])


def bench_of(load: float, tenants: Mapping[str, str]) -> Bench:
    """Four Simba-like and four Eyeriss-like accelerators behind 36 GB/s; deadlines of 2.5 isolated times.

    ``tenants``: name -> set of networks; all send at equal rates.
    """
    return prepare(
        scenario_from(
            {
                "name": "lookahead", "duration_s": 1.0, "load": load,
                "platform": {
                    "accelerators": [{"type": "simba", "count": 4}, {"type": "eyeriss", "count": 4}],
                    "dram_bandwidth_gb_s": 36.0, "contention": "proportional",
                },
                "tenant": [
                    {
                        "name": name, "model_set": models, "deadline": "qos_m", "deadline_alpha": 2.5,
                        "arrivals": {"process": "poisson", "rate_per_s": 500.0},
                    }
                    for name, models in tenants.items()
                ],
            }
        )
    )  # fmt: skip


def first(requests: RequestTable, count: int) -> RequestTable:
    """The first requests of a trace."""
    part = slice(0, count)
    return RequestTable(
        requests.agreements, requests.pair[part], requests.arrival_s[part],
        requests.relative_deadline_s[part], requests.priority[part], requests.deferrable[part],
    )  # fmt: skip


def traces_of(workload: str, load: float, size: Size) -> list[Trace]:
    """Choose the rule on validation traces, then meet the test traces."""
    bench = bench_of(load, {"all": workload})
    table, machine = bench.machine.table, bench.machine
    seeds = list(range(FIRST_SEED, FIRST_SEED + size.seeds))

    def problem(seed: int) -> Any:
        return build_problem(first(bench.requests(seed), size.requests), table, machine, OPTIONS)

    validation = [
        ValidationProblem(problem(seed), OPTIONS) for seed in validation_seeds(size.validation, *seeds)
    ]
    rule = choose(RULES, validation).name
    traces = []
    for seed in seeds:
        requests = first(bench.requests(seed), size.requests)
        found = search_schedule(requests, table, machine, OPTIONS, SearchOptions(size.evaluations))
        bound = hit_bound(requests, table, machine)
        hits, plan_us, planning_s = {}, {}, {}
        for name, settings in VARIANTS.items():
            policy = load_policy(f"lookahead(base={rule},{settings})")
            outcome = simulate_problem(problem(seed), policy, OPTIONS)
            hits[name] = int((outcome.results["outcome"] == HIT).sum())
            timed = Timed(policy)
            if seed == seeds[0]:  # the same decisions, asked from Python
                simulate_problem(problem(seed), timed, OPTIONS, stepped=True)
                planning_s[name] = planning_time(problem(seed), policy)
            plan_us[name] = timed.plan_us
        alone = simulate_problem(problem(seed), rule, OPTIONS).results["outcome"]
        traces.append(
            Trace(workload, load, rule, len(requests), int((alone == HIT).sum()), found.hits, bound.value, hits,
                  plan_us, planning_s)
        )  # fmt: skip
    return traces


def gain(traces: Sequence[Trace], variant: str) -> Estimate:
    """Hits in percent of the requests above the rule, paired by trace."""
    return interval([100.0 * (t.hits[variant] - t.rule_hits) / t.requests for t in traces])


def closed(traces: Sequence[Trace], variant: str) -> float:
    """Share of the gap between the rule and the best schedule found, both summed over the traces."""
    return sum(t.hits[variant] - t.rule_hits for t in traces) / max(
        1, sum(t.found - t.rule_hits for t in traces)
    )


def closed_to_bound(traces: Sequence[Trace], variant: str) -> float:
    """The same of the gap to the bound, which no schedule closes and perhaps none can."""
    return sum(t.hits[variant] - t.rule_hits for t in traces) / max(
        1, sum(t.bound - t.rule_hits for t in traces)
    )


def percent(traces: Sequence[Trace], hits: Any) -> str:
    """Mean hit rate."""
    return f"{100.0 * np.mean([hits(t) / t.requests for t in traces]):.1f}"


def overall(traces: list[Trace]) -> list[str]:
    """One line per variant."""
    lines = [
        "| lookahead | gain over the rule, points | share of the gap closed | of the gap to the bound | "
        "cells significantly below the rule | plan p50, us | plan p99, us | measured / charged | planner at work |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    cells = [[t for t in traces if (t.workload, t.load) == key] for key in keys(traces)]
    for name in VARIANTS:
        times = np.concatenate([t.plan_us[name] for t in traces])
        charged, took, length = np.sum([t.planning_s[name] for t in traces if t.planning_s], axis=0)
        below = sum(e.excludes_zero and e.mean < 0.0 for e in (gain(cell, name) for cell in cells))
        lines.append(
            f"| {name} | {gain(traces, name):+.2f} | {100.0 * closed(traces, name):.0f} % | "
            f"{100.0 * closed_to_bound(traces, name):.0f} % | {below} of {len(cells)} | "
            f"{np.percentile(times, 50):.0f} | {np.percentile(times, 99):.0f} | "
            f"{took / charged:.2f} | {100.0 * charged / length:.0f} % |"
        )
    return lines


def keys(traces: Sequence[Trace]) -> list[tuple[str, float]]:
    """Sets and loads, in order."""
    return list(dict.fromkeys((t.workload, t.load) for t in traces))


def by_cell(traces: list[Trace]) -> list[str]:
    """One line per set and load."""
    shown = ("no limit", "500 us", "100 us", "500 us, charged")
    lines = [
        "| set | load | rule chosen on validation | rule % | best found % | bound % | "
        + " | ".join(f"{name}: gain, points" for name in shown) + " | 500 us: closed |",
        "|---" * (7 + len(shown)) + "|",
    ]  # fmt: skip
    for key in keys(traces):
        cell = [t for t in traces if (t.workload, t.load) == key]
        gains = " | ".join(f"{gain(cell, name):+.2f}" for name in shown)
        lines.append(
            f"| {key[0]} | {key[1]:g} | {cell[0].rule} | {percent(cell, lambda t: t.rule_hits)} | "
            f"{percent(cell, lambda t: t.found)} | {percent(cell, lambda t: t.bound)} | {gains} | "
            f"{100.0 * closed(cell, '500 us'):.0f} % |"
        )
    return lines


def page(traces: list[Trace], size: Size) -> str:
    """The first part of the page of results."""
    return f"""# Lookahead between the best single rule and the best clairvoyant schedule

Written by `python -m benchmarks.lookahead --write`. Four Simba-like and four Eyeriss-like accelerators,
36 GB/s, proportional contention, hopeless requests dropped, Poisson arrivals, deadlines of 2.5 isolated
times. The rule is chosen among {len(RULES)} for every set and load on {size.validation} validation
traces; {size.seeds} test traces of the first {size.requests} requests each. Best found: clairvoyant
search of {size.evaluations} evaluations on the trace, or uncharged lookahead where that finds more.
Test seeds from {FIRST_SEED} on: nothing was tried out on them. Bound: linear programme. Intervals are of
95 %, paired by trace. A plan is made when requests arrive; its time is processor time of one core on the
first trace of each cell, stepped (about 10 us of it). Unless said, plans cost no simulated time, like the
rules. *Charged*: a standing plan, corrected in slices, each in force only after the time that it took by
the model: 10 us and 1/8 us per simulated layer end (half as fast: 1/4, twice as fast: 1/16). *Measured /
charged*: processor time of all plans in compiled runs over what that model says. *Planner at work*: what it
says over the length of the trace.

## All sets and loads

{_table(overall(traces))}

## Per set and load

{_table(by_cell(traces))}
"""


def _table(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def write(text: str) -> None:
    """Replace this part of the page and leave what benchmarks.lookahead_tenants wrote."""
    _, found, promises = RESULTS.read_text().partition(PROMISES)
    RESULTS.write_text(f"{text}\n{found}{promises}" if found else text)


def command_line(description: str | None) -> argparse.Namespace:
    """Options of both commands."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="two seeds of short traces")
    parser.add_argument("--processes", type=int, default=2, help="cells simulated at once; 2 unless given")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args()


def in_cells(
    work: Callable[..., list[Found]], cells: Iterable[tuple[Any, ...]], fixed: Sequence[Any], processes: int
) -> Iterator[list[Found]]:
    """``work(*cell, *fixed)`` of all cells, in order, several at once in processes of their own."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, *zip(*cells, strict=True), *map(itertools.repeat, fixed))


def main() -> None:
    """Command line."""
    arguments = command_line(__doc__)
    size = SMALL if arguments.small else Size()
    load_policy("lookahead").decide  # noqa: B018  compiled before any clock runs
    traces: list[Trace] = []
    for cell in in_cells(traces_of, itertools.product(SETS, size.loads), [size], arguments.processes):
        traces += cell
        print(by_cell(cell)[-1], flush=True)
    text = page(traces, size)
    print(text)
    if arguments.write:
        write(text)


if __name__ == "__main__":
    main()
