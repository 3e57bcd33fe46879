"""How accurate is it: the engine against queueing theory, and the spread of every other comparison that is stored.

``theory`` simulates single-layer requests on equal accelerators, 40 seeds (``--seeds``) of 40,000 requests, the first
tenth left out. ``spread`` measures nothing: it reads the stored tables of other benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.page import stored
from benchmarks.table import Cell, Options, Table, table
from eunomia.metrics.statistics import interval
from tests.inference.test_theory import exponential_sizes, queue, responses, warm

Case = tuple[str, float, Callable[[int], float]]


def measure(options: Options) -> Iterator[Table]:
    """One table per part."""
    if options.wants("theory"):
        yield theory(options)
    if options.wants("spread"):
        yield spread()


def theory(options: Options) -> Table:
    """Means over seeds beside the formulas."""
    rows = []
    for name, expected, mean_of in queues():
        found = interval([mean_of(seed) for seed in options.seeds_or(40, 3)])
        covers = found.low <= expected <= found.high
        rows.append((name, expected, found, found.mean / expected - 1.0, covers))
    columns = "queue and figure; theory|.4g; engine|.4g; apart|+.2%; in the interval"
    return table("theory", columns, rows)


def queues() -> Iterator[Case]:
    """Queues with a formula for their mean wait, or response."""
    sizes, one = exponential_sizes(1000), np.ones(1)
    for load in (0.5, 0.8, 0.9):
        yield f"M/M/1, load {load:g}: wait", load / (1.0 - load), _wait(sizes, load, 1)
    for servers, load in ((2, 0.8), (5, 0.7), (8, 0.9)):
        yield (
            f"M/M/{servers}, load {load:g}: wait",
            erlang_wait(servers, load),
            _wait(sizes, servers * load, servers),
        )
    yield "M/D/1, load 0.8: wait", 0.8 / 0.4, _wait(one, 0.8, 1)
    for what, drawn in (("fixed", one), ("exponential", exponential_sizes(500))):
        yield f"M/G/1 processor sharing, {what}, load 0.6: response", 2.5, _shared(drawn, 0.6)


def erlang_wait(servers: int, load: float) -> float:
    """Mean wait of M/M/c with unit work."""
    offered = servers * load
    below = sum(offered**k / math.factorial(k) for k in range(servers))
    full = offered**servers / math.factorial(servers) / (1.0 - load)
    return full / (below + full) / (servers - offered)


def _wait(sizes: np.ndarray, rate: float, servers: int) -> Callable[[int], float]:
    return lambda seed: warm(responses(queue(sizes, rate, 40_000, servers, seed))[1])


def _shared(sizes: np.ndarray, load: float) -> Callable[[int], float]:
    return lambda seed: warm(responses(queue(sizes, load, 8_000, 40, seed, contention="proportional"))[0])


def spread() -> Table:
    """Mean and worst error of each comparison."""
    columns = "what; against; cases; mean error|.1%; worst; worst case"
    return table("spread", columns, [*silicon(), *server(), *gavel()])


def silicon() -> Iterator[Sequence[Cell]]:
    """The cost model."""
    tables = stored("cost-model")
    for key, chip in (
        ("alexnet", "Eyeriss, AlexNet (calibrated)"),
        ("vgg16", "Eyeriss, VGG-16 (one constant fitted)"),
    ):
        yield _errors(
            "latency of a layer", chip, [(row[0], row[3]) for row in tables[key].rows[:-1] if row[0] != "all"]
        )
    for chip in ("NVDLA", "Orin DLA", "TPU"):
        found = [(row[1], row[4]) for row in tables["chips"].rows if row[0] == chip and row[2] is not None]
        yield _errors("latency of a network", f"{chip} (nothing fitted)", found)
    power = [(row[0], row[3]) for row in tables["energy"].rows if str(row[0]).startswith("VGG-16 conv")]
    yield _errors("power of a layer", "Eyeriss, VGG-16", power)


def server() -> Iterator[Sequence[Cell]]:
    """The simulator, from a recording, beside the server that was recorded."""
    rows = stored("serving-fidelity")["all"].rows
    yield _errors("hit rate of a tenant", "live server, points", [(r[0], r[3]) for r in rows], 0.01)
    yield _errors("p95 of a tenant", "live server", [(r[0], r[6]) for r in rows])


def gavel() -> Iterator[Sequence[Cell]]:
    """The cluster simulator."""
    traces = stored("cluster-matrix")["traces"]
    names = [name for name, _ in traces.columns[1:]]
    pairs = [
        (f"{row[0]}, trace {name}", str(cell))
        for row in traces.rows
        for name, cell in zip(names, row[1:], strict=True)
    ]
    jct = [(name, float(cell.rstrip(" %")) / 100.0) for name, cell in pairs if cell.endswith("%")]
    yield _errors("mean completion time", "Gavel's own code", jct)
    windows = stored("gavel-windows")["window"].rows
    ratios = [(f"{r[0]}, {r[1]:g} jobs/h", r[6]) for r in windows if r[6] is not None]
    yield _errors("gain by knowing throughputs", "Gavel's notebook", ratios)


def _errors(what: str, against: str, found: Sequence[tuple[Cell, Cell]], unit: float = 1.0) -> Sequence[Cell]:
    errors = [(str(name), float(str(error)) * unit) for name, error in found if error is not None]
    worst = max(errors, key=lambda each: abs(each[1]))
    mean = sum(abs(error) for _, error in errors) / len(errors)
    return what, against, len(errors), mean, f"{worst[1]:+.1%}", worst[0]
