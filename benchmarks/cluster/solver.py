"""How fast are the cluster programmes, beside Gavel's own way in one run? Parts: speed, warm.

The same instances for both, jobs drawn from Gavel's measured throughputs; every objective is compared before a time
is printed. ``distinct`` perturbs every throughput by 10 %, so that no two jobs are alike and grouping gains nothing.
Gavel's way is a cvxpy model, built anew each time, for ECOS: building it is part of its time. Every cell is a process
of its own, which is stopped after ``CELL_S``. Finished cells are kept in runs/: a run that was stopped goes on. The
quick run leaves out all but the smallest instances.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.cluster.scenes import KINDS, throughputs
from benchmarks.kept import kept
from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.policies.catalogue import allocator
from eunomia.contract.allocation import Allocation, ClusterView
from eunomia.contract.cluster import Cluster
from tests.cluster import gavel_rules
from tests.cluster.views import random_view

CELL_S = 120.0  # for one cell; the longest takes a tenth of that on an idle machine
PEER_AT_MOST = 4096  # jobs; beyond, only ours
PLAIN, PACKED = "max_min_fairness_perf", "max_min_fairness_packed"
TARGETS = (
    (PLAIN, 2048, "as measured", 10.0),
    (PLAIN, 2048, "distinct", 10.0),
    (PACKED, 512, "as measured", 20.0),
)
MOST_MS = 1000.0  # max_min_fairness_perf at 10,000 jobs
Row = tuple[Cell, ...]


def instance(jobs: int, distinct: bool, pairs: bool, seed: int) -> ClusterView:
    """A cluster of 3 types with a device per 8 jobs each (at least 8), weights 1, 2 and 5."""
    cluster = Cluster.of(dict.fromkeys(KINDS, max(8, jobs // 8)), devices_per_server=4)
    view = random_view(throughputs(), cluster, jobs, seed, pairs=pairs)
    if not distinct:
        return view
    noise = np.exp(np.random.default_rng(seed).normal(0.0, 0.1, view.throughput.shape))
    return dataclasses.replace(view, throughput=view.throughput * noise)


def peer(view: ClusterView, packed: bool) -> float:
    """Objective by cvxpy and ECOS, model building included."""
    scale, counts = view.scale.astype(float), view.cluster.counts.astype(float)
    left, keys = view.steps_left, list(range(len(view)))
    facts = gavel_rules.Facts(view.throughput, scale, view.weight, left, view.age_s, counts, keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not packed:
            progress = (facts.speed * gavel_rules.max_min(facts)).sum(axis=1)
            return float((progress * gavel_rules.unit_of(facts)).min())
        first, second = np.triu_indices(len(view), 1)
        speed = view.pair_speed(first, second)
        keep = (speed > 0.0).any(axis=(1, 2))  # kinder to the peer: Gavel keeps rows of zeros
        return gavel_rules.packed_max_min(facts, (first[keep], second[keep], speed[keep]))


def best_ms(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Least processor time and least wall time of several runs."""
    cpu, wall = [], []
    for _ in range(repeats):
        start, clock = time.process_time(), time.perf_counter()
        run()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - clock)
    return 1e3 * min(cpu), 1e3 * min(wall)


def line(policy: str, jobs: int, distinct: bool, repeats: int, with_peer: bool) -> Row:
    """One row: ours and theirs on one instance."""
    packed = policy == PACKED
    view, ours = instance(jobs, distinct, packed, seed=jobs), allocator(policy)
    answer: Allocation = ours.allocate(view)  # loads the machine code

    def fresh() -> None:
        ours.reset(0)  # or a packed policy would begin at its own optimum
        ours.allocate(view)

    cpu, wall = best_ms(fresh, repeats)
    rows = int(answer.notes[0].text.rsplit(", ", 1)[-1].split()[0])
    facts = policy, jobs, "distinct" if distinct else "as measured", rows, cpu, wall
    if not with_peer:
        return *facts, None, None, None, None
    off = abs(peer(view, packed) / (answer.objective or 0.0) - 1.0)
    assert off < 1e-5, f"{policy}, {jobs} jobs: objectives differ by {off}"
    peer_cpu, peer_wall = best_ms(lambda: peer(view, packed), 1 if packed and jobs > 128 else min(repeats, 5))
    return *facts, peer_cpu, peer_wall, peer_cpu / cpu, off


def warm_line(jobs: int, leaving: int) -> Row:
    """A packed programme after some jobs have left: from nothing, and from the basis before they left."""
    view, ours = instance(jobs, False, True, seed=jobs), allocator(PACKED)
    rest, cells, objectives = view.take(np.arange(leaving, jobs)), [], []
    for warm in (False, True):
        times = []
        for _ in range(5):
            ours.reset(0)
            if warm:
                ours.allocate(view)
            began = time.process_time()
            answer = ours.allocate(rest)
            times.append(time.process_time() - began)
        objectives.append(answer.objective or 0.0)
        cells += [int(answer.notes[0].text.split(", ")[3].split()[0]), 1e3 * min(times)]
    assert abs(objectives[1] / objectives[0] - 1.0) < 1e-7
    return jobs, leaving, *cells


def _sends(pipe: Connection, function: Callable[..., Row], case: tuple[Cell, ...]) -> None:
    pipe.send(function(*case))


def limited(function: Callable[..., Row], *case: Cell) -> dict[str, Row]:
    """The row of a cell, by a process of its own. TimeoutError after ``CELL_S``, ChildProcessError if it fails."""
    spawning = multiprocessing.get_context("spawn")
    mine, its = spawning.Pipe(duplex=False)
    child = spawning.Process(target=_sends, args=(its, function, case), daemon=True)
    child.start()
    its.close()
    try:
        if not mine.poll(CELL_S):
            raise TimeoutError(f"stopped after {CELL_S:g} s")
        return {"row": mine.recv()}
    except EOFError:
        raise ChildProcessError(f"{function.__name__}{case} failed") from None
    finally:
        child.kill()
        child.join()


def rows_of(function: Callable[..., Row], cases: Sequence[tuple[Cell, ...]], cut: list[str]) -> list[Row]:
    """A line of progress for each cell; ``cut`` gets a sentence for each that was stopped."""
    rows: list[Row] = []
    for case in cases:
        name, began = ", ".join(map(str, case)), time.perf_counter()
        try:
            what = {"cell": [function.__name__, *case]}
            rows.append(tuple(kept("cluster-solver", what, lambda c=case: limited(function, *c))["row"]))  # type: ignore[misc]
            said = f"{time.perf_counter() - began:.1f} s"
        except TimeoutError as late:
            said = str(late)
            cut.append(f"Not as promised: {name}: {said}.")
        print(f"cluster-solver: {name}: {said}", flush=True)
    return rows


def verdict(rows: Sequence[Row]) -> Iterator[str]:
    """Which targets the rows of the table meet, and which not, in sentences."""
    found: Mapping[tuple[Cell, ...], Row] = {row[:3]: row for row in rows}
    for policy, jobs, kind, least in TARGETS:
        name = f"`{policy}` at {jobs:,} jobs, throughputs {kind}"
        ratio = found.get((policy, jobs, kind), (None,) * 10)[8]
        if not isinstance(ratio, float):
            yield f"{name}: the peer was not run."
        else:
            yield f"{name}: {ratio:.1f} times faster, {'met' if ratio >= least else 'NOT met'}."
    for kind in ("as measured", "distinct"):
        took_ms = found.get((PLAIN, 10_000, kind), (None,) * 5)[4]
        if isinstance(took_ms, float):
            met = "met" if took_ms < MOST_MS else "NOT met"
            yield f"At 10,000 jobs, throughputs {kind}: {took_ms:.0f} ms, {met}."


def measure(options: Options) -> Iterator[Table]:
    """Plain and packed programmes by size; then warm starts."""
    cut: list[str] = []
    if options.wants("speed"):
        sizes = (128,) if options.quick else (128, 512, 2048, 10_000, 100_000)
        cases: list[tuple[Cell, ...]] = [
            (PLAIN, n, d, 20 if n <= 2048 else 5, n <= PEER_AT_MOST)
            for n, d in itertools.product(sizes, (False, True))
        ]
        for jobs in (32,) if options.quick else (32, 128, 512, 2048):
            cases.append((PACKED, jobs, False, 5 if jobs <= 512 else 2, jobs <= 512))
        columns = (
            "policy; jobs|,; throughputs; rows|,; ours, CPU ms|.2f; wall ms|.2f; cvxpy + ECOS, CPU ms|.1f; "
            "wall ms|.1f; CPU ratio|.1f; objectives differ|.0e"
        )
        rows = rows_of(line, cases, cut)
        yield table("speed", columns, rows, [*verdict(rows), *cut])
    if options.wants("warm"):
        cases = [(32, 1)] if options.quick else [(128, 1), (128, 3), (512, 1), (512, 3), (512, 32)]
        columns = "jobs; left; cold, steps; cold, ms|.1f; warm, steps; warm, ms|.1f"
        cut = []
        yield table("warm", columns, rows_of(warm_line, cases, cut), cut)
