"""Charts of cluster runs as SVG text: drawn once, no script, readable on paper."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1064.0, 74.0, 16.0, 14.0, 40.0
COLOURS = tuple(f"var(--t{n})" for n in range(8))


def frame(height: float, body: str, title: str) -> str:
    """An SVG with a title for screen readers."""
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{html.escape(title, True)}">'
        f"<title>{html.escape(title)}</title>{body}</svg>"
    )


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers from ``low`` to ``high``."""
    span = high - low
    if not span > 0.0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / count))
    step *= next(m for m in (1.0, 2.0, 5.0, 10.0) if span / (step * m) <= count)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def axis_x(low: float, high: float, height: float, label: str, unit_s: float = 1.0) -> str:
    """Ticks and label below a chart; ``low`` and ``high`` in the unit of the data, shown divided by ``unit_s``."""
    base = height - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{base:g}" y2="{base:g}"/>']
    for value in ticks(low / unit_s, high / unit_s, 10):
        x = scale_x(value * unit_s, low, high)
        parts.append(
            f'<text class="soft small" x="{x:.1f}" y="{base + 17:g}" text-anchor="middle">{value:g}</text>'
        )
    parts.append(
        f'<text class="soft small" x="{WIDTH - RIGHT:g}" y="{base + 34:g}" text-anchor="end">{label}</text>'
    )
    return "".join(parts)


def scale_x(value: float, low: float, high: float) -> float:
    """Position of a value along the x axis."""
    return LEFT + (value - low) / max(high - low, 1e-300) * (WIDTH - LEFT - RIGHT)


def axis_y(values: Sequence[tuple[float, str]]) -> str:
    """Grid lines at (y, label)."""
    return "".join(
        f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="soft small" x="{LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        for y, label in values
    )


def stacked(edges: Floats, shares: Floats, names: Sequence[str], title: str) -> str:
    """Shares (series, E - 1) over time as stacked steps; the top of the chart is 100 %."""
    height = 250.0
    base, room = height - BOTTOM, height - BOTTOM - TOP
    low, high = float(edges[0]), float(edges[-1])
    x = np.array([scale_x(float(e), low, high) for e in edges])
    floor = np.zeros(len(edges) - 1)
    parts = [axis_y([(base - room * part, f"{100 * part:.0f} %") for part in (0.25, 0.5, 0.75, 1.0)])]
    for number, row in enumerate(shares):
        top = floor + row
        upper = [f"{x[i + side]:.1f},{base - room * top[i]:.1f}" for i in range(len(row)) for side in (0, 1)]
        lower = [
            f"{x[i + side]:.1f},{base - room * floor[i]:.1f}"
            for i in range(len(row) - 1, -1, -1)
            for side in (1, 0)
        ]
        parts.append(
            f'<polygon points="{" ".join(upper + lower)}" fill="{COLOURS[number % 8]}" fill-opacity="0.85">'
            f"<title>{html.escape(names[number])}</title></polygon>"
        )
        floor = top
    parts.append(axis_x(low, high, height, "time, hours", 3600.0))
    return frame(height, "".join(parts), title)


def gantt(
    bars: Sequence[tuple[int, float, float, float, int, str]],
    lanes: Sequence[str],
    low: float,
    high: float,
    title: str,
) -> str:
    """Bars (lane, start, end, share of the lane's height from its top, colour, label): what each server did."""
    lane = min(56.0, max(12.0, 700.0 / max(len(lanes), 1)))
    height = TOP + lane * len(lanes) + BOTTOM
    parts = []
    for number, name in enumerate(lanes):
        y = TOP + lane * number
        parts.append(
            f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="soft small" x="{LEFT - 8:g}" y="{y + lane / 2 + 4:.1f}" text-anchor="end">'
            f"{html.escape(name)}</text>"
        )
    for number, start, end, offset, colour, label in bars:
        span, _, part = label.partition("\t")
        x = scale_x(start, low, high)
        width = max(scale_x(end, low, high) - x, 0.6)
        y = TOP + lane * number + offset * lane
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(float(part) * lane - 0.6, 0.6):.1f}" '
            f'fill="{COLOURS[colour % 8]}"><title>{html.escape(span)}</title></rect>'
        )
    parts.append(axis_x(low, high, height, "time, hours", 3600.0))
    return frame(height, "".join(parts), title)


def scatter(x: Floats, y: Floats, labels: Sequence[str], title: str) -> str:
    """rho against size, both logarithmic; the line is rho = 1."""
    height = 320.0
    base, room = height - BOTTOM, height - BOTTOM - TOP
    (low, high), (bottom, top) = _log_range(x), _log_range(np.append(y, 1.0))

    def at_y(value: float) -> float:
        return base - room * (math.log10(value) - bottom) / (top - bottom)

    parts = [axis_y([(at_y(v), f"{v:g}") for v in _log_ticks(bottom, top)])]
    parts.append(
        f'<line x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{at_y(1.0):.1f}" y2="{at_y(1.0):.1f}" stroke="var(--ring)"/>'
    )
    for size, rho, label in zip(x.tolist(), y.tolist(), labels, strict=True):
        colour = "var(--bad)" if rho > 1.05 else "var(--good)"
        parts.append(
            f'<circle cx="{scale_x(math.log10(size), low, high):.1f}" cy="{at_y(rho):.1f}" r="3.2" fill="{colour}" '
            f'fill-opacity="0.65"><title>{html.escape(label)}</title></circle>'
        )
    parts.append(f'<line class="axis" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{base:g}" y2="{base:g}"/>')
    for value in _log_ticks(low, high):
        where = scale_x(math.log10(value), low, high)
        parts.append(
            f'<text class="soft small" x="{where:.1f}" y="{base + 17:g}" text-anchor="middle">{value:,.6g}</text>'
        )
    parts.append(
        f'<text class="soft small" x="{WIDTH - RIGHT:g}" y="{base + 34:g}" text-anchor="end">'
        "size: device-hours alone on the fastest type</text>"
        f'<text class="soft small" x="{LEFT - 8:g}" y="{TOP - 2:g}" text-anchor="end">rho</text>'
    )
    return frame(height, "".join(parts), title)


def _log_range(values: Floats) -> tuple[float, float]:
    """Logarithms of the least and greatest value with a margin, at least a factor of 1.5 apart."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    margin = max(0.05 * (high - low), (math.log10(1.5) - (high - low)) / 2.0, 0.01)
    return low - margin, high + margin


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two logarithms: 1, 2 and 5 of each power, or evenly spaced where those are too few."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    for steps in ((1.0,), (1.0, 2.0, 5.0)):
        found = [m * 10.0**power for power in powers for m in steps if low <= power + math.log10(m) <= high]
        if len(found) >= 4:
            return found[:: math.ceil(len(found) / 8)]
    return ticks(10.0**low, 10.0**high)
