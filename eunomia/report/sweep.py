"""``report.html`` of a sweep: ranking, every figure in its unit, and what quality costs in energy; no script."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from eunomia.report.bidi import Names, breakable, visible
from eunomia.report.study.front import Axis, Point, front, front_chart
from eunomia.report.table import Table

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
    more: str = "all numbers, seed by seed: sweep.csv beside this file"


def render_sweep(page: SweepPage) -> str:
    """The report as HTML text; equal results give equal bytes."""
    names = Names(page.names)
    lede, *said = page.said
    sections = [_section(n, *entry) for n, entry in enumerate(page.tables)]
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
        "sections": "\n".join(sections),
        "more": page.more,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _asset("study.html"))


def _section(number: int, title: str, note: str, table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.header)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{breakable(cell)}</th>'
            if place < table.left and cell
            else f"<td>{html.escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return _framed(f"s{number}", title, note, f'<div class="scroll" tabindex="0">{body}</div>')


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
