"""Plans: what the search buys against greedy growth and single types, and whether its promises hold.

Parts: cases (``--set case=moca`` for one), exhaustive. The questions are ``examples/plan_*.toml``. Processor time
counts the main process and its children. *Outside* are ten seeds that no step of a plan has seen, as costed and with
each layer's cost in error by up to 20 %.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.table import Cell, Options, Table, table
from eunomia.study.plan import load_plan, plan
from eunomia.study.plan.answer import Answer
from eunomia.study.plan.catalogue import catalogue
from eunomia.study.plan.crew import Trials
from eunomia.study.plan.ground import ground
from eunomia.study.plan.search import Search
from eunomia.study.plan.targets import score_of
from eunomia.study.plan.trial import run_order, tally

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
CASES = ("server", "edge", "moca", "tight", "azure")
SMALL = ("server", "edge")  # small enough to try everything
OUTSIDE = 777  # block of seeds
EXHAUSTIVE = "case; platforms|,; runs, all tried|,; least of all; answer; excess|.1%"
TABLES = {
    "work": "platforms|,; refuted|,; tried|,; runs|,; processor s|.0f; wall s|.0f; platforms in 60 s|,.0f",
    "answers": "answer; target; greedy, per cost; greedy, largest gain; best single type; worst single type",
    "promises": "policy; least margin, points|.1f; outside|.1f; with costs in error|.1f; more traffic breaks; "
    "longer run times break",
}


def measure(options: Options) -> Iterator[Table]:
    """The tables."""
    if options.wants("cases"):
        usual = ["server"] if options.quick else CASES
        chosen = [options.given["case"]] if "case" in options.given else usual
        found = []
        for name in chosen:  # tables grow case by case, so that what is measured stays
            found.append(_case(name, options))
            for n, (key, columns) in enumerate(TABLES.items()):
                yield table(key, f"case; {columns}", [one[n] for one in found])
    if options.wants("exhaustive"):
        rows = []
        for name in ["server"] if options.quick else SMALL:
            rows.append(_exhaustive(name, options))
            yield table("exhaustive", EXHAUSTIVE, rows)


def _case(name: str, options: Options) -> tuple[list[Cell], list[Cell], list[Cell]]:
    cpu_s, wall_s = _cpu_s(), time.perf_counter()
    answer = plan(EXAMPLES / f"plan_{name}.toml", workers=options.workers).answer
    cpu_s, wall_s = _cpu_s() - cpu_s, time.perf_counter() - wall_s
    work, row = answer.work, answer.row
    assert row is not None and answer.proof is not None, f"{name}: no answer"
    per_minute = 60.0 * work["platforms"] / wall_s
    tried = len(answer.found.tallies)
    counts: list[Cell] = [work["platforms"], work["refuted"], tried, work["runs"]]
    done = [name, *counts, cpu_s, wall_s, per_minute]
    singles = sorted(float(answer.score[r.row]) for r in answer.rivals[2:] if r.row is not None)
    greedy = [
        "none" if r.row is None else _more(answer, float(answer.score[r.row])) for r in answer.rivals[:2]
    ]
    ends = [_more(answer, singles[n]) if singles else "none" for n in (0, -1)]
    worth = answer.worth(float(answer.score[row]))
    told: list[Cell] = [name, answer.platforms.label(row), worth, *greedy, *ends]
    limits = [_limit(answer, limit) for limit in (answer.traffic, answer.costs)]
    outside = _outside(answer, row, answer.proof.fresh.policy)
    margin = 100.0 * answer.proof.margin(answer.targets)
    return done, told, [name, answer.proof.fresh.policy, margin, *outside, *limits]


def _outside(answer: Answer, row: int, policy: str) -> list[float]:
    """The worst promise on seeds outside: mean hit rate minus target in points, exact and in error."""
    search = answer.search
    order = replace(
        search.order(row), policies=(policy,), seeds=tuple(search.on.seeds(10, fresh=OUTSIDE)), race=False
    )
    tallies = [tally(run_order(one)) for one in (order, replace(order, error=0.2))]
    return [100.0 * one.margin(answer.targets) for one in tallies]


def _exhaustive(name: str, options: Options) -> list[Cell]:
    """Every platform in the simulator, none refuted, against the search."""
    config = load_plan(EXAMPLES / f"plan_{name}.toml")
    on = ground(config)
    with Trials(options.workers, None) as trials:
        search = Search(on, catalogue(config, on.names), trials)
        score, _ = score_of(search)
        every = list(range(len(search.platforms)))
        kept = np.flatnonzero(search.tried(every, "exhaustive"))
        held = next(r for r in kept[np.argsort(score[kept], kind="stable")].tolist() if search.prove(r).holds)
        runs = trials.runs
    found = plan(config, workers=options.workers, rivals=False)
    assert found.row is not None
    labels = [search.platforms.label(held), search.platforms.label(found.row)]
    return [name, len(every), runs, *labels, float(score[found.row] / score[held] - 1.0)]


def _more(answer: Answer, worth: float) -> str:
    own = float(answer.score[answer.row])  # type: ignore[index]
    return f"{answer.worth(worth)} ({100.0 * (worth / own - 1.0):+.1f} %)"


def _limit(answer: Answer, limit: object) -> str:
    broken = getattr(limit, "broken", float("inf"))
    if not np.isfinite(broken):
        return "none found"
    return f"{100.0 * (broken - 1.0):.0f} %, {answer.names[limit.pair]}"  # type: ignore[attr-defined]


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
