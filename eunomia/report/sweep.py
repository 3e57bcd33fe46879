"""``report.html`` of a sweep: ranking, every figure in its unit, and what quality costs in energy; no script."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from eunomia.metrics.metric import Metric
from eunomia.metrics.table import METRICS
from eunomia.report.bidi import Names, breakable, visible
from eunomia.report.definitions import SYMBOLS, definitions, linked, named
from eunomia.report.study.front import Axis, Point, front, front_chart
from eunomia.report.table import Table

LONG = 24  # characters from which on a cell of words may take several lines
FAMILIES = 5  # policies with a colour of their own in the picture


@dataclass(frozen=True)
class Trade:
    """A policy at a setting: ``good`` (more is better) against what it costs."""

    policy: str
    setting: str
    good: float
    cost: float


@dataclass(frozen=True)
class SweepPage:
    """What the report of a sweep shows. ``axes``: titles of the picture; no ``trades``, no picture."""

    title: str
    names: Sequence[str]
    said: Sequence[str]
    scope: str
    tables: Sequence[tuple[str, str, Table]]  # heading, note, table
    trades: Sequence[Trade] = ()
    axes: tuple[str, str] = ("", "")
    charts: Sequence[tuple[str, str, str]] = ()  # heading, note, SVG: further pictures
    kicker: str = "Eunomia sweep"
    metrics: Mapping[str, Metric] = field(default_factory=lambda: METRICS)  # what columns may be headed by
    symbols: str = SYMBOLS
    more: str = "all numbers, seed by seed: sweep.csv beside this file"


def render_sweep(page: SweepPage) -> str:
    """The report as HTML text; equal results give equal bytes."""
    names = Names(page.names)
    lede, *said = page.said
    sections = [_section(n, entry, page.metrics) for n, entry in enumerate(page.tables)]
    if len(page.trades) > 1:
        sections.insert(min(2, len(sections)), _picture(page))
    for n, (title, note, chart) in enumerate(page.charts):
        sections.insert(
            min(1 + n, len(sections)),
            _framed(f"c{n}", title, note, f'<div class="chart narrow" tabindex="0">{chart}</div>'),
        )
    parts = {
        "kicker": page.kicker,
        "title": names.text(page.title),
        "style": _asset("report.css") + _asset("study.css"),
        "lede": names.text(lede),
        "said": "".join(f"<li>{names.text(text)}</li>" for text in said),
        "scope": names.text(page.scope),
        "sections": "\n".join(sections) + _meanings(page),
        "more": page.more,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _asset("study.html"))


def _section(number: int, entry: tuple[str, str, Table], metrics: Mapping[str, Metric]) -> str:
    """A table: its policies, or else its first column, head the rows; other columns of words are set as text."""
    title, note, table = entry
    first = table.header.index("policy") if "policy" in table.header[: table.left] else 0
    long = {n for n in range(table.left) if any(len(row[n]) > LONG for row in table.rows)}
    styles = [
        "" if n == first or n >= table.left else ' class="words long"' if n in long else ' class="words"'
        for n in range(len(table.header))
    ]
    names = named(table.header, metrics)
    head = "".join(
        f'<th scope="col"{style}>{linked(name, names.get(name))}</th>'
        for name, style in zip(table.header, styles, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{breakable(cell)}</th>'
            if n == first and cell
            else f"<td{styles[n]}>{html.escape(cell)}</td>"
            for n, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return _framed(f"s{number}", title, note, f'<div class="scroll" tabindex="0">{body}</div>')


def _meanings(page: SweepPage) -> str:
    """What the columns of all tables mean that are headed as a metric."""
    columns = [name for _, _, table in page.tables for name in table.header]
    return definitions(dict.fromkeys(named(columns, page.metrics).values()), page.metrics, page.symbols)


def _picture(page: SweepPage) -> str:
    policies = list(dict.fromkeys(trade.policy for trade in page.trades))
    names = [f"{trade.policy} at {trade.setting}" for trade in page.trades]
    xy = [(trade.good, trade.cost) for trade in page.trades]
    kept = set(front(xy, False))
    points = [
        Point(
            name,
            trade.policy if len(policies) <= FAMILIES else "policy at a setting",
            label=name if i in kept else "",
        )
        for i, (name, trade) in enumerate(zip(names, page.trades, strict=True))
    ]
    measures = dict(zip(names, xy, strict=True))
    good, cost = page.axes
    chart = front_chart(points, measures, Axis(0, good), [Axis(1, cost, more=False)])
    note = (
        "Nothing on the dashed line is beaten in both by another policy or setting; points on it have names."
    )
    return _framed(
        "front", f"{good} against {cost}", note, f'<div class="chart narrow" tabindex="0">{chart}</div>'
    )


def _framed(key: str, title: str, note: str, body: str) -> str:
    return (
        f'<section id="{key}" aria-labelledby="h-{key}">\n<h2 id="h-{key}">{html.escape(visible(title))}</h2>\n'
        f'<p class="sub">{html.escape(visible(note))}</p>\n{body}\n</section>'
    )


def _asset(name: str) -> str:
    return (files("eunomia.report") / "assets" / name).read_text(encoding="utf-8")
