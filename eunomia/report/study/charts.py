"""The drawings of a study as SVG text: lines against load, dots with intervals. No script, nothing loaded."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eunomia.metrics.statistics import Estimate
from eunomia.report.bidi import visible


@dataclass(frozen=True)
class Line:
    """One line of a panel: points (x, mean, low, high); ``style`` is a class of the page's style sheet."""

    name: str
    points: tuple[tuple[float, Estimate], ...]
    style: str


@dataclass(frozen=True)
class Band:
    """A shaded range per x: the bracket."""

    points: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One small chart."""

    title: str
    lines: tuple[Line, ...]
    band: Band | None = None


@dataclass(frozen=True)
class Dots:
    """One row of a dot chart: several estimates on one scale, each with a style and what it is."""

    label: str
    dots: tuple[tuple[Estimate, str, str], ...]  # (estimate, style, title)


Scale = Callable[[float], float]
PANEL_W, PANEL_H = 340.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 12.0, 30.0, 34.0
ROW_H = 24.0


def _esc(text: str) -> str:
    return html.escape(visible(text))


def _num(value: float) -> str:
    return f"{value:.1f}"


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{_num(x)}" y="{_num(y)}">{_esc(text)}</text>'


def _rule(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    name = f'class="{style}" ' if style else ""
    return f'<line {name}x1="{_num(x1)}" x2="{_num(x2)}" y1="{_num(y1)}" y2="{_num(y2)}"/>'


def panels(found: Sequence[Panel], x_name: str, columns: int = 3) -> str:
    """Small multiples on one scale from 0 to 100 %, ``columns`` per row."""
    rows = math.ceil(len(found) / columns)
    width, height = columns * PANEL_W, rows * PANEL_H
    parts = [
        _panel(panel, (index % columns) * PANEL_W, (index // columns) * PANEL_H, x_name)
        for index, panel in enumerate(found)
    ]
    names = ", ".join(panel.title for panel in found)
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{_esc(f"Hit rate against {x_name}: {names}")}">{"".join(parts)}</svg>'
    )


def _panel(panel: Panel, left: float, top: float, x_name: str) -> str:
    xs = sorted({x for line in panel.lines for x, _ in line.points})
    low, high = (xs[0], xs[-1]) if xs else (0.0, 1.0)
    inner_w, inner_h = PANEL_W - LEFT - RIGHT, PANEL_H - TOP - BOTTOM

    def at_x(value: float) -> float:
        share = 0.5 if high == low else (value - low) / (high - low)
        return left + LEFT + share * inner_w

    def at_y(value: float) -> float:
        return top + TOP + (1.0 - min(max(value, 0.0), 1.0)) * inner_h

    parts = [f'<text class="strong" x="{_num(left + LEFT)}" y="{_num(top + 16)}">{_esc(panel.title)}</text>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at_y(tick)
        parts.append(_rule("grid", left + LEFT, y, left + PANEL_W - RIGHT, y))
        parts.append(_text("soft small end", left + LEFT - 6, y + 4, f"{100 * tick:.0f}"))
    for x in xs:
        parts.append(_text("soft small mid", at_x(x), top + PANEL_H - BOTTOM + 16, f"{x:g}"))
    parts.append(_text("soft small mid", left + LEFT + inner_w / 2, top + PANEL_H - 4, x_name))
    if panel.band:
        there = [f"{_num(at_x(x))},{_num(at_y(top_))}" for x, _, top_ in panel.band.points]
        back = [f"{_num(at_x(x))},{_num(at_y(bottom))}" for x, bottom, _ in reversed(panel.band.points)]
        title = "<title>best schedule found .. bound, on short windows</title>"
        parts.append(f'<polygon class="band" points="{" ".join(there + back)}">{title}</polygon>')
    for line in panel.lines:
        parts.append(_line(line, at_x, at_y))
    return "".join(parts)


def _line(line: Line, at_x: Scale, at_y: Scale) -> str:
    known = [(x, estimate) for x, estimate in line.points if not math.isnan(estimate.mean)]
    path = " ".join(f"{_num(at_x(x))},{_num(at_y(e.mean))}" for x, e in known)
    bars = "".join(
        f'<line x1="{_num(at_x(x))}" x2="{_num(at_x(x))}" y1="{_num(at_y(e.low))}" y2="{_num(at_y(e.high))}"/>'
        for x, e in known
        if e.has_interval
    )
    said = "; ".join(f"{x:g}: {100 * e.mean:.1f} %" for x, e in known)
    dots = "".join(f'<circle cx="{_num(at_x(x))}" cy="{_num(at_y(e.mean))}" r="2.2"/>' for x, e in known)
    title = f"<title>{_esc(f'{line.name}: {said}')}</title>"
    return f'<g class="series {line.style}">{title}<polyline points="{path}"/>{bars}{dots}</g>'


def dot_chart(
    rows: Sequence[Dots], label: str, unit: str = "%", zero: bool = False, width: float = 1040.0
) -> str:
    """One row per name, one dot per estimate with its interval, on a common scale.

    ``zero``: differences, with a line where there is none; otherwise shares, whose intervals are cut at 0 and at 100 %.
    """
    known = [e for row in rows for e, _, _ in row.dots if not math.isnan(e.mean)]
    if not known:
        return '<p class="empty">No data.</p>'
    low = 100.0 * min(e.low if e.has_interval else e.mean for e in known)
    high = 100.0 * max(e.high if e.has_interval else e.mean for e in known)
    most = max(100.0, *(100.0 * e.mean for e in known))
    low, high = (min(low, 0.0), max(high, 0.0)) if zero else (max(low, 0.0), min(high, most))
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    left, height = 290.0, ROW_H * len(rows) + 34.0
    span = width - left - 44.0

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low or 1.0) * span

    parts = []
    for tick in ticks:
        style = "axis" if zero and tick == 0 else "grid"
        parts.append(_rule(style, at(tick), 4.0, at(tick), height - 26))
        parts.append(_text("soft small mid", at(tick), height - 10, f"{tick:g} {unit}"))
    for index, row in enumerate(rows):
        y = 4.0 + ROW_H * (index + 0.5)
        parts.append(_text("end", left - 12, y + 4, _cut(row.label)))
        for estimate, style, title in row.dots:
            if math.isnan(estimate.mean):
                continue
            ends = (estimate.low, estimate.high) if estimate.has_interval else (estimate.mean, estimate.mean)
            x1, x2 = (at(100.0 * end) for end in ends)
            parts.append(
                f'<g class="series {style}"><title>{_esc(f"{row.label}, {title}: {estimate:.1%}")}</title>'
                f'<line x1="{_num(x1)}" x2="{_num(x2)}" y1="{_num(y)}" y2="{_num(y)}"/>'
                f'<circle cx="{_num(at(100.0 * estimate.mean))}" cy="{_num(y)}" r="4.5"/></g>'
            )
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{_esc(label)}">{"".join(parts)}</svg>'


def _cut(text: str, length: int = 42) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _ticks(low: float, high: float, count: int = 7) -> list[float]:
    """Round numbers that enclose [low, high]."""
    raw = max(high - low, 1e-9) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(step * i, 10) for i in range(first, last + 1)]
