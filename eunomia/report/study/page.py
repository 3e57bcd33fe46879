"""``report.html`` of a study: one file, no script, drawn on the server's side, readable offline and on paper."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib.resources import files

from eunomia.metrics.table import METRICS
from eunomia.report.bidi import Names, visible
from eunomia.report.definitions import SYMBOLS, definitions, linked, named
from eunomia.report.study.charts import Band, Dots, Line, Panel, dot_chart, panels
from eunomia.report.study.table import StudyTable, Where
from eunomia.report.study.words import percent, plural, survives, verdict

DRAWN = 6  # lines with a colour in each panel; the others are grey


def render_page(table: StudyTable) -> str:
    """The report as HTML text; equal results give equal bytes."""
    names = Names([table.name, *table.policies])
    lede, *said = verdict(table)
    places = table.places()
    sections = [
        _section("load", "Hit rate against load", _load_note(table), _legend(table) + _load_panels(table)),
        _section("all", "All policies, all places of the main grid", _ALL_NOTE, _overall(table)),
        _section("bracket", "Place in the bracket", _BRACKET_NOTE, _places(table))
        if table.bracketed(places)
        else "",
        _section("worst", "The worst tenant, at the highest load", _WORST_NOTE, _worst(table)),
        _section("gain", f"Against {table.champion}", _GAIN_NOTE, _gains(table)) if _champion(table) else "",
        *(_sensitivity(table, grid) for grid in table.grids[1:]),
    ]
    parts = {
        "kicker": "Eunomia study",
        "more": "the protocol: docs/study.md; all numbers: study.csv beside this file",
        "title": names.text(table.name),
        "style": _asset("report.css") + _asset("study.css"),
        "lede": names.text(lede),
        "said": "".join(f"<li>{names.text(text)}</li>" for text in said),
        "scope": html.escape(_scope(table)),
        "sections": "\n".join(section for section in sections if section),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], _asset("study.html"))


def _asset(name: str) -> str:
    return (files("eunomia.report") / "assets" / name).read_text(encoding="utf-8")


def _section(key: str, title: str, note: str, body: str) -> str:
    return (
        f'<section id="{key}" aria-labelledby="h-{key}">\n<h2 id="h-{key}">{html.escape(visible(title))}</h2>\n'
        f'<p class="sub">{html.escape(visible(note))}</p>\n{body}\n</section>'
    )


def _scope(table: StudyTable) -> str:
    runs = sum(len(row.metrics["hit_rate"]) for row in table.rows)
    requests = sum(sum(row.metrics["requests"]) for row in table.rows)
    return (
        f"{plural(len(table.policies), 'policy row')}, {plural(len(table.grids), 'grid')}, {runs:,} runs, "
        f"{requests:,.0f} requests measured, the same requests for every policy at a place."
    )


def _champion(table: StudyTable) -> str | None:
    return table.champion if table.champion in table.present(table.places()) else None


def _chart(body: str) -> str:
    return f'<div class="chart" tabindex="0">{body}</div>'


# --- hit rate against load ----------------------------------------------------------------------------


def styles(table: StudyTable) -> dict[str, str]:
    """Which policies have a colour: champion, those of the claim, then the best; all others are grey."""
    places = table.places()
    ranked = table.ranked(places)
    wanted = [name for name in (table.champion, *table.claimed, *ranked) if name in ranked]
    chosen = list(dict.fromkeys(wanted))[:DRAWN]
    colours = {name: f"c{index}" for index, name in enumerate(chosen)}
    return {name: colours.get(str(name), "other") for name in ranked}


def _legend(table: StudyTable) -> str:
    drawn = [(name, style) for name, style in styles(table).items() if style != "other"]
    entries = [
        f'<li class="{style}"><i class="line"></i>{html.escape(visible(name))}</li>'
        for name, style in sorted(drawn, key=lambda pair: pair[1])
    ]
    entries.append('<li class="other"><i class="line"></i>each other policy</li>')
    if table.bracketed(table.places()):
        entries.append('<li class="band"><i></i>best schedule found .. bound</li>')
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _load_note(table: StudyTable) -> str:
    return (
        "Hit rate in %, mean of the replications with its 95 % interval. Load 1 is "
        "what first come, first "
        "served can carry. The shaded band is the clairvoyant bracket of short windows from an empty platform: "
        "no policy "
        "can know what a point inside it would need to know. Names appear when the pointer rests on a line."
    )


def _load_panels(table: StudyTable) -> str:
    look = styles(table)
    order = sorted(look, key=lambda name: (look[name] != "other", look[name] != "c0", look[name]))
    order = [name for name in order if look[name] != "c0"] + [name for name in order if look[name] == "c0"]
    drawn = []
    for key, mine in _groups(table.places()):
        lines = [
            Line(name, tuple((w.load, table.estimate([w], name)) for w in mine), look[name]) for name in order
        ]
        limits = [(w.load, table.limit(w)) for w in mine]
        band = [
            (x, sum(found.found) / sum(found.total), sum(found.bound) / sum(found.total))
            for x, found in limits
            if found
        ]
        drawn.append(Panel(key, tuple(lines), Band(tuple(band)) if len(band) > 1 else None))
    return _chart(panels(drawn, "load"))


def _groups(places: Sequence[Where]) -> list[tuple[str, list[Where]]]:
    """Places of one panel each: all loads of a set, QoS and bandwidth."""
    several = len({where.bandwidth_gb_s for where in places}) > 1
    found: dict[str, list[Where]] = {}
    for where in places:
        key = f"{where.workload}, QoS-{where.qos.upper()}" + (
            f", {where.bandwidth_gb_s:g} GB/s" if several else ""
        )
        found.setdefault(key, []).append(where)
    return [(key, sorted(mine, key=lambda where: where.load)) for key, mine in found.items()]


# --- means over the grid ------------------------------------------------------------------------------

_ALL_NOTE = "Means over all places of equal weight. Names with a dagger were chosen on validation traces."
_BRACKET_NOTE = (
    "Hits on the short windows as a share of the best schedule that a search knowing all arrivals "
    "found (filled), and "
    "of the bound that nobody can exceed (ring). The optimum lies between the two yardsticks."
)
_WORST_NOTE = (
    "Hit rate of the tenant served worst (filled) beside that of all requests (ring), mean over sets and QoS at "
    "the highest load. "
    "Shedding the requests that cost most raises the second at the expense of the first."
)
_GAIN_NOTE = (
    "Difference of hit rates on the same requests, with its paired 95 % interval. Left of zero: behind."
)


def _overall(table: StudyTable) -> str:
    places = table.places()
    bracketed = table.bracketed(places)
    head = [
        "policy",
        "hit rate, %",
        "worst tenant, %",
        "Jain",
        "energy per hit, mJ",
        "time lost to contention, %",
    ]
    head += ["of best found, %"] if bracketed else []
    rows = []
    for name in table.ranked(places):
        shown = html.escape(visible(name)) + (" &dagger;" if name in table.rivals else "")
        cells = [percent(table.estimate(places, name, key)) for key in ("hit_rate", "worst_tenant")]
        cells += [f"{table.estimate(places, name, 'jain_hit_rate').mean:.3f}"]
        cells += [f"{1e3 * table.estimate(places, name, 'energy_per_hit_j').mean:.2f}"]
        cells += [percent(table.estimate(places, name, "contention_share"))]
        cells += [percent(table.of_found(places, name))] if bracketed else []
        rows.append(f'<tr><th scope="row">{shown}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    names = named(head, METRICS)
    top = "".join(f'<th scope="col">{linked(title, names.get(title))}</th>' for title in head)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of policies, scrolls sideways">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        + definitions(names.values(), METRICS, SYMBOLS)
    )


def _places(table: StudyTable) -> str:
    places, look = table.places(), styles(table)
    rows = [
        Dots(name, ((table.of_bound(places, name), f"{look[name]} ring", "of the bound"),
                    (table.of_found(places, name), look[name], "of the best schedule found")))
        for name in table.ranked(places)
    ]  # fmt: skip
    return _chart(
        dot_chart(rows, "Hits of each policy as a share of the best schedule found and of the bound")
    )


def _worst(table: StudyTable) -> str:
    places, look = table.places(), styles(table)
    top = max(where.load for where in places)
    mine = [where for where in places if where.load == top]
    rows = [
        Dots(name, ((table.estimate(mine, name), f"{look.get(name, 'other')} ring", "all requests"),
                    (table.estimate(mine, name, "worst_tenant"), look.get(name, "other"), "worst tenant")))
        for name in table.ranked(mine, "worst_tenant")
    ]  # fmt: skip
    return _chart(dot_chart(rows, f"Hit rate of the worst tenant and of all requests at load {top:g}"))


def _gains(table: StudyTable) -> str:
    places, look, champion = table.places(), styles(table), _champion(table) or ""
    rows = [
        Dots(name, ((table.gain(places, name, champion), look[name], f"minus {champion}"),))
        for name in table.ranked(places)
        if name != champion
    ]
    return _chart(dot_chart(rows, f"Difference of each policy to {champion}", "points", zero=True))


# --- other grids --------------------------------------------------------------------------------------


def _sensitivity(table: StudyTable, grid: str) -> str:
    places = table.places(grid)
    champion = table.champion
    present = table.present(places)
    if not places or champion not in present or champion is None:
        return ""
    rivals = [name for name in present if name != champion]
    look, rows, said = styles(table), [], []
    for variation, bandwidth in dict.fromkeys((w.variation, w.bandwidth_gb_s) for w in places):
        mine = [w for w in places if (w.variation, w.bandwidth_gb_s) == (variation, bandwidth)]
        label = variation or f"{bandwidth:g} GB/s"
        dots = [
            (table.gain(mine, champion, name), look.get(name, "other"), f"over {name}") for name in rivals
        ]
        rows.append(Dots(label, tuple(dots)))
        said.append(f"{label}: {survives(table, mine, rivals)}")
    keys = "".join(
        f'<li class="{look.get(name, "other")}"><i></i>over {html.escape(visible(name))}</li>'
        for name in rivals
    )
    listed = "".join(f"<li>{html.escape(visible(text))}</li>" for text in said)
    note = (
        f"How far {champion} is ahead of each other policy (points, paired 95 % interval). Right of zero: ahead. "
        "Rivals are chosen for each bandwidth, and not anew for a variation."
    )
    body = f'<ul class="legend">{keys}</ul>' + _chart(
        dot_chart(rows, f"Gain of {champion} in grid {grid}", "points", zero=True)
    )
    return _section(
        f"grid-{table.grids.index(grid)}",
        f"Does it hold? {grid}",
        note,
        body + f"<ul class='said'>{listed}</ul>",
    )
