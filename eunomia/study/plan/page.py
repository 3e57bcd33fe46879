"""The report of a plan: the answer, the Pareto front, rivals, changes by one, and what became of every platform."""

from __future__ import annotations

import numpy as np

from eunomia.report.study.front import Axis, Point, front_chart
from eunomia.report.sweep import SweepPage
from eunomia.report.table import Table
from eunomia.report.units import counted
from eunomia.study.plan.answer import Answer
from eunomia.study.plan.result import PlanResult
from eunomia.study.plan.targets import UNITS
from eunomia.study.plan.words import verdict_of

LISTED = 200  # platforms in the report; plan.csv has them all
LEAST, RIVAL = "least", "rival"


def plan_page(result: PlanResult) -> SweepPage:
    """The report as a value."""
    work = result.answer.work
    trials = counted(work["trials"] + work["reused"], "trial")
    return SweepPage(
        title=result.config.name,
        names=[result.config.name, *result.answer.names, *result.answer.platforms.names],
        said=result.sentences(),
        scope=f"{result.title}. {trials} of {work['platforms']:,} platforms.",
        tables=[table for table in _tables(result) if table[2].rows],
        charts=_charts(result.answer),
        kicker="Eunomia plan",
        more="every platform with its verdict: plan.csv beside this file",
    )


def _tables(result: PlanResult) -> list[tuple[str, str, Table]]:
    return [
        ("Promises", ". ".join(result.footnotes()) + ".", result.table()),
        ("Rivals", "Found otherwise, judged alike.", rivals_table(result.answer)),
        ("One more or less", "On the seeds of the search.", neighbours_table(result.answer)),
        (
            "Platforms",
            f"The first {LISTED} in order of the target; plan.csv has all.",
            platforms_table(result.answer),
        ),
    ]


def rivals_table(answer: Answer) -> Table:
    """What others would have bought."""
    own = float(answer.score[answer.row]) if answer.row is not None else 0.0
    rows = []
    for rival in answer.rivals:
        if rival.row is None:
            rows.append((rival.name, "none keeps the promises", "-", "-", str(rival.steps)))
            continue
        worth = float(answer.score[rival.row])
        more = f"{100.0 * (worth / own - 1.0):+.1f} %" if own else "-"
        label = answer.platforms.label(rival.row)
        rows.append((rival.name, label, answer.worth(worth), more, str(rival.steps)))
    return Table(
        ("way", "platform", _made_least(answer), "against the answer", "platforms tried"), tuple(rows), 2
    )


def neighbours_table(answer: Answer) -> Table:
    """What one device more or less does."""
    rows = []
    for near in answer.near:
        cost = float(answer.platforms.cost[near.row] - answer.platforms.cost[answer.row])
        if near.refuted:
            text, margin = "nobody could run it", "-"
        else:
            text = "keeps every promise" if near.kept else f"breaks {answer.names[near.pair]}"
            margin = f"{100.0 * near.margin:+.1f}"
        rows.append((near.change, text, f"{cost:+,.6g}", margin))
    return Table(
        ("change", "then", f"cost, {answer.config.currency}", "worst margin, points"), tuple(rows), 2
    )


def platforms_table(answer: Answer) -> Table:
    """Platforms that were tried, the least first, and what became of each."""
    rows = sorted(answer.found.tallies, key=lambda row: (float(answer.score[row]), row))[:LISTED]
    cells = [(answer.platforms.label(row), *verdict_of(answer, row), answer.price(row)) for row in rows]
    return Table(("platform", "verdict", "why", "cost"), tuple(cells), 3)


def refuted_table(answer: Answer) -> Table:
    """Each proof, and how many platforms it refutes; the most first."""
    screen = answer.search.screen
    numbers, counts = np.unique(screen.by[screen.by >= 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:LISTED]
    rows = [
        (answer.names[screen.why[n].pair], screen.why[n].sentence, f"{count:,}")
        for n, count in zip(numbers[order].tolist(), counts[order].tolist(), strict=True)
    ]
    return Table(("tenant and network", "why nobody could", "platforms"), tuple(rows), 2)


def _made_least(answer: Answer) -> str:
    """What rivals and points are judged by."""
    return "cost" if answer.config.target == "headroom" else answer.config.target


def _charts(answer: Answer) -> list[tuple[str, str, str]]:
    """Traffic that is carried against the target: the least platforms, and what others would have bought."""
    found = [(c.more, c.row, LEAST, answer.price(c.row)) for c in answer.front if c.row is not None]
    others = [rival for rival in answer.rivals if rival.row not in (None, answer.row)]
    found += [(1.0, rival.row, RIVAL, rival.name) for rival in others if rival.row is not None]
    if len(found) < 2:
        return []
    made_least = _made_least(answer)
    unit = answer.config.currency if made_least == "cost" else UNITS[made_least]
    points, measures = [], {}
    for n, (more, row, family, label) in enumerate(found):
        points.append(Point(str(n), family, label=label))
        measures[str(n)] = (more, float(answer.score[row]))
    chart = front_chart(
        points,
        measures,
        Axis(0, "times the stated traffic"),
        [Axis(1, f"{made_least}, {unit}", more=False)],
    )
    return [
        (
            "Pareto front",
            "The least platform that keeps every promise at so much traffic; rivals at that stated.",
            chart,
        )
    ]
