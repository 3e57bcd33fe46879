"""The writer of ``report.html``: one self-contained file about a comparison, readable offline, on paper, by keyboard.

What every comparison has stands here: the head, the table of policies, how the figures came about. A wing gives its
sentences and sections as a :class:`Page`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.core.records import Comparison
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate
from eunomia.report.bidi import Names, breakable, visible
from eunomia.report.definitions import SYMBOLS, definitions, heading
from eunomia.report.table import GAIN, Gain, columns_of, gain_text
from eunomia.report.units import half_width_text, value_text

MANY = 10  # columns from which on the table is set smaller


def _nothing(policy: str, metric: str) -> str:
    return ""


@dataclass(frozen=True)
class Summary:
    """The table of policies, with rows and columns of ``estimates_table``.

    ``beside``: HTML that a cell has below its figure, by policy and metric. ``gain``: see there. ``difference``: policy
    minus rival by metric, paired by seed. With it, who differs from the best by less than its interval is marked, too;
    without an interval nobody is.
    """

    metrics: Mapping[str, Metric]
    policies: Sequence[str]
    estimate: Callable[[str, str], Estimate]
    beside: Callable[[str, str], str] = _nothing
    gain: Gain | None = None
    difference: Callable[[str, str, str], Estimate] | None = None
    symbols: str = SYMBOLS

    def html(self) -> str:
        """A row per policy; columns without any figure are left out."""
        names = [name for name in columns_of(self, self.metrics) if name != GAIN or self.gain is not None]
        heads = (
            f'<th scope="col" title="{html.escape(label)}">{text}</th>'
            for label, text in map(self._head, names)
        )
        best = {m: set() if m == GAIN else self._best(m) for m in names}
        rows = (
            f'<tr><th scope="row">{breakable(policy)}</th>'
            f"{''.join(self._cell(policy, m, policy in best[m]) for m in names)}</tr>"
            for policy in self.policies
        )
        head = f'<tr><th scope="col">policy</th>{"".join(heads)}</tr>'
        wide = ' class="many"' if len(names) > MANY else ""
        return f"<table{wide}><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def _head(self, name: str) -> tuple[str, str]:
        """Full label, and HTML of the heading, of a column."""
        if name == GAIN:
            return "hit rate minus that of the baseline, in points, paired by seed", GAIN
        return self.metrics[name].label, heading(name, self.metrics[name])

    def definitions(self) -> str:
        """What its columns mean, as HTML."""
        return definitions(columns_of(self, self.metrics), self.metrics, self.symbols)

    def _best(self, name: str) -> set[str]:
        """Policies with the best mean; none where better has no meaning or all are equal."""
        better = self.metrics[name].better
        values = {p: self.estimate(p, name).mean for p in self.policies}
        known = {p: v for p, v in values.items() if not math.isnan(v)}
        if better == "neither" or len(known) < 2:
            return set()
        top = max(known.values()) if better == "higher" else min(known.values())
        chosen = {p for p, v in known.items() if math.isclose(v, top, rel_tol=1e-9)}
        if self.difference is not None:
            first = next(iter(chosen))
            gaps = {p: self.difference(p, first, name) for p in known if p not in chosen}
            if not all(gap.has_interval for gap in gaps.values()):
                return set()
            chosen |= {p for p, gap in gaps.items() if not gap.excludes_zero}
        return chosen if len(chosen) < len(known) else set()

    def _cell(self, policy: str, name: str, best: bool) -> str:
        """The mean above half its interval."""
        if name == GAIN and self.gain is not None:
            text, _, half = gain_text(self.gain(policy)).partition(" ")
            return f"<td>{text}{_spread(half)}</td>"
        metric, estimate = self.metrics[name], self.estimate(policy, name)
        text = html.escape(_micro(value_text(metric, estimate.mean)))
        interval = _spread(half_width_text(metric, estimate))
        return f"<td{' class=best' if best else ''}>{text}{interval}{self.beside(policy, name)}</td>"


def _spread(half: str) -> str:
    """Half an interval in small type; nothing without one."""
    return f'<span class="ci">{html.escape(half)}</span>' if half else ""


@dataclass(frozen=True)
class Page:
    """What a wing puts into the report of a comparison. Sentences are text, ``summary_end`` and ``sections`` HTML."""

    comparison: Comparison
    kicker: str
    names: Names
    headline: str
    said: Sequence[str]
    scope: str
    note: str  # on the table of policies
    summary: Summary
    sections: str
    formulas: str  # the document that defines the figures
    summary_end: str = ""
    facts: Sequence[tuple[str, str]] = ()
    wall: str = "wall_s"  # key of a run's manifest: seconds that it took
    script: str = ""
    data: Data | None = None  # what the script draws


def write_page(path: str | Path, page: Page) -> None:
    """Write the report in one step. Raises OutputError."""
    write_text(path, render_page(page))


def render_page(page: Page) -> str:
    """The report as HTML. All names are escaped; the file loads nothing and runs one known script, or none."""
    text = page.names.text
    parts = {
        "title": text(page.comparison.name),
        "kicker": html.escape(page.kicker),
        "style": asset("report.css"),
        "scripts": _scripts(page),
        "script_source": f"; script-src '{_content_hash(page.script)}'" if page.script else "",
        "headline": text(page.headline),
        "said": "".join(f"<li>{text(sentence)}</li>" for sentence in page.said),
        "scope": text(page.scope),
        "summary": page.summary.html(),
        "summary_end": page.summary_end,
        "summary_note": html.escape(page.note),
        "sections": page.sections,
        "facts": visible(_facts(page)),
        "formulas": html.escape(page.formulas),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], asset("page.html"))


def asset(name: str) -> str:
    """A file of the package's assets."""
    return (files("eunomia.report") / "assets" / name).read_text(encoding="utf-8")


def _scripts(page: Page) -> str:
    if not page.script:
        return ""
    data = visible(_embedded(page.data))
    return f'<script type="application/json" id="data">{data}</script>\n<script>{page.script}</script>'


def _micro(text: str) -> str:
    """Units with the proper sign: terminals get u, a page can show \u00b5."""
    return re.sub(r" u(?=[sJ]\b)", " \u00b5", text)


def _facts(page: Page) -> str:
    comparison, manifest = page.comparison, page.comparison.manifest
    first = comparison.runs[0].manifest if comparison.runs else {}
    facts = {**first, **manifest}
    versions, machine = facts.get("versions") or {}, facts.get("machine") or {}
    rows = [
        ("policies", ", ".join(comparison.policies)),
        ("seeds", ", ".join(map(str, comparison.seeds))),
        *page.facts,
        ("commit", facts.get("commit") or "not from a checkout"),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items()) or "not recorded"),
        ("machine", _machine(machine) or "not recorded"),
        ("time to simulate", _wall(comparison, page.wall)),
    ]
    if facts.get("failures"):
        rows.append(("runs that failed", "; ".join(f"{k}: {v}" for k, v in facts["failures"].items())))
    listed = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd>" for k, v in rows)
    boxes = [("Configuration, as resolved", facts.get("config")), ("Manifest of the comparison", manifest)]
    if comparison.runs and comparison.runs[0].manifest is not manifest:
        boxes.append(("Manifest of the first run", _without_config(first)))
    details = "".join(
        f'<details><summary>{title}</summary><pre tabindex="0">{html.escape(_json(value))}</pre></details>'
        for title, value in boxes
        if value
    )
    return f'<dl class="pairs">{listed}</dl>{details}'


def _machine(facts: Data) -> str:
    cores = facts.get("cores")
    number = f"{cores} core{'' if cores == 1 else 's'}" if cores else ""
    return ", ".join(str(part) for part in (facts.get("system"), facts.get("processor"), number) if part)


def _wall(comparison: Comparison, key: str) -> str:
    seconds = [run.manifest.get(key) for run in comparison.runs]
    known = [float(value) for value in seconds if isinstance(value, int | float)]
    return f"{sum(known):.2f} s for {len(known)} runs" if known else "not recorded"


def _without_config(manifest: Data) -> Data:
    return {key: value for key, value in manifest.items() if key != "config"}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _embedded(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    unsafe = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return re.sub("[<>&\u2028\u2029]", lambda match: unsafe[match.group()], text)


def _content_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
