"""How wide is the bracket? Best schedule found .. bound, on tiny cases of known optimum and on middle-size ones.

Parts: ``known``: 34 cases of five requests on two accelerators, optimum by trying every start at every event
(tests/metrics/tiny.py, which shares no code with the search). ``middle``: 250 requests each, hopeless ones dropped;
beside found and bound what lookahead without a budget reaches that samples the future, or does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.inference.contest import Machine
from benchmarks.inference.lookahead import FIRST_SEED, OPTIONS, SETS, problem_of
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.options import EngineOptions
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.bounds import BoundOptions, hit_bound
from tests.metrics.tiny import Tiny, exhaustive, tiny

MODES, LATE, CASES, LOADS = ("none", "proportional", "max_min"), ("drop", "last"), 34, (1.0, 1.3)
FUTURES = ("futures=0", "futures=8", "futures=8,price=0")


def crowded(seed: int) -> Tiny:
    """Five requests of two networks of one or two layers on two accelerators; whole numbers."""
    rng = np.random.default_rng([seed, 15])
    types = int(rng.integers(1, 3))
    rows = [
        [[float(x) for x in rng.integers(1, 5, types)] for _ in range(int(rng.integers(1, 3)))]
        for _ in range(2)
    ]
    asks = [[[float(rng.choice([0.0, 0.5, 1.0, 1.5])) for _ in row] for row in model] for model in rows]
    requests = [
        (int(rng.integers(2)), float(rng.integers(0, 7)), float(rng.integers(3, 9))) for _ in range(5)
    ]
    lanes = [0, types - 1]
    return tiny(rows, requests, lanes, asks, bandwidth=1.0, contention=MODES[seed % len(MODES)])


def known(seed: int) -> Result:
    """One tiny case: both ends of the bracket, the optimum, and the bound of the linear program alone."""
    case, late = crowded(seed), LATE[seed % len(LATE)]
    parts = case.request_table, case.table, case.platform
    found = search_schedule(*parts, EngineOptions(late=late))  # type: ignore[arg-type]
    bound, relaxed = (hit_bound(*parts, BoundOptions(tight=tight)).value for tight in (None, False))
    return {
        "mode": case.contention, "late": late, "requests": len(case.requests), "rule": found.rule_hits,
        "found": found.hits, "optimum": exhaustive(case), "bound": bound, "relaxed": relaxed,
    }  # fmt: skip


@dataclass(frozen=True)
class Middle:
    """One trace of a set at a load, hopeless requests dropped."""

    models: str
    load: float
    evaluations: int
    requests: int


def middle(at: Middle) -> Result:
    """Both ends, and lookahead over the learned policy without a budget, by its futures."""
    p = problem_of({"all": at.models}, at.load, FIRST_SEED, at.requests)
    parts = p.requests, p.table, Machine(p)
    found = search_schedule(*parts, OPTIONS, SearchOptions(at.evaluations, seed=FIRST_SEED))
    reached = {}
    for futures in FUTURES:
        outcome = simulate_problem(p, f"lookahead(base=eunomia,budget_us=0,{futures})", OPTIONS)
        reached[futures] = int((outcome.results["outcome"] == HIT).sum())
    return {"rule": found.rule_hits, "found": found.hits, "bound": hit_bound(*parts).value, **reached}


def measure(options: Options) -> Iterator[Table]:
    """Both parts."""
    shown = ("requests", "rule", "found", "optimum", "bound", "relaxed")
    if options.wants("known"):
        ran = kept_all("bracket-known", known, list(options.seeds_or(CASES, 3)), options.workers)
        rows: list[tuple[Cell, ...]] = []
        for what in [*product(MODES, LATE), ("all", "")]:
            mine = [one for one in ran if what[0] == "all" or (one["mode"], one["late"]) == what]
            rows.append((*what, len(mine), *(int(sum(one[name] for one in mine)) for name in shown)))
        columns = "contention; late; cases; requests; best rule; found; optimum; bound; linear program alone"
        yield table("known", columns, rows)
    if options.wants("middle"):
        size = (100, 60) if options.quick else (2_000, 250)
        at = [Middle(*place, *size) for place in product(SETS[: 1 if options.quick else 3], LOADS)]
        ran = kept_all("bracket-middle", middle, at, options.workers)
        names = ("rule", *FUTURES, "found", "bound")
        rows = [(p.models, p.load, *(int(one[n]) for n in names)) for p, one in zip(at, ran, strict=True)]
        rows.append(("all", None, *(int(sum(one[n] for one in ran)) for n in names)))
        columns = "set; load; best rule; " + "; ".join((*FUTURES, "found", "bound"))
        yield table("middle", columns, rows)
