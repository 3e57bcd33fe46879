"""What one objective costs in another: policies as points, one panel per objective, the Pareto front as a line."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunomia.report.cluster.svg import ticks

WIDTH, HEIGHT = 520.0, 380.0  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 56.0, 16.0, 56.0, 44.0
LABEL_H = 11.0
COLOURS = ("#1f6fb2", "#c4501b", "#3b8a3e", "#6b6b6b", "#8a4fa3")  # readable on white, told apart in grey


@dataclass(frozen=True)
class Point:
    """A policy. ``family`` gives the colour; points of one ``line`` are joined in the order given.

    ``label``: what is written beside it; None = its name.
    """

    name: str
    family: str
    line: str = ""
    label: str | None = None

    @property
    def text(self) -> str:
        """What is written beside it."""
        return self.name if self.label is None else self.label


@dataclass(frozen=True)
class Axis:
    """Which of the measures, what it is called, whether more is better."""

    measure: int
    title: str
    more: bool = True


def front(xy: Sequence[tuple[float, float]], more: bool) -> list[int]:
    """Indices of points that none beats in both (x: more is better; y: as ``more`` says), by x."""
    better = [(x, y if more else -y) for x, y in xy]
    kept = [
        i for i, (x, y) in enumerate(better)
        if not any((u >= x and v >= y) and (u > x or v > y) for u, v in better)
    ]  # fmt: skip
    return sorted(kept, key=lambda i: xy[i])


def front_chart(
    points: Sequence[Point], measures: Mapping[str, Sequence[float]], x: Axis, panels: Sequence[Axis]
) -> str:
    """A whole SVG file, without script. ``measures``: by name of a point. Crowded labels are moved, not dropped."""
    families = list(dict.fromkeys(point.family for point in points))
    colour = {family: COLOURS[n % len(COLOURS)] for n, family in enumerate(families)}
    width, height = WIDTH * len(panels), HEIGHT
    body = [
        _panel(points, measures, x, axis, n * WIDTH, colour) for n, axis in enumerate(panels)
    ]  # fmt: skip
    for n, family in enumerate(families):
        at = LEFT + 170.0 * n
        body.append(
            f'<circle cx="{at:.1f}" cy="16" r="5" fill="{colour[family]}"/>{_text(at + 10, 20, family)}'
        )
    at = LEFT + 170.0 * len(families)
    body.append(_path("front", [(at - 8, 16), (at + 12, 16)], "") + _text(at + 20, 20, "Pareto front"))
    style = ("text{font:12px sans-serif;fill:#222}.small{font-size:10px}.grid{stroke:#ddd}.joined{fill:none;opacity:.6}"
             ".front{fill:none;stroke:#222;stroke-dasharray:4 3}")  # fmt: skip
    titles = ", ".join(axis.title for axis in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{html.escape(f'{x.title} against {titles}')}</title><style>{style}</style>"
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>{"".join(body)}</svg>\n'
    )


def _panel(
    points: Sequence[Point], measures: Mapping[str, Sequence[float]], x: Axis, y: Axis, left: float,
    colour: Mapping[str, str],
) -> str:  # fmt: skip
    xy = [(measures[point.name][x.measure], measures[point.name][y.measure]) for point in points]
    low_x, high_x = _room([a for a, _ in xy], 0.18)
    low_y, high_y = _room([b for _, b in xy], 0.06)
    at = [
        (left + LEFT + (a - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT),
         HEIGHT - BOTTOM - (b - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM))
        for a, b in xy
    ]  # fmt: skip
    sense = "more" if y.more else "less"
    base, right = HEIGHT - BOTTOM, left + WIDTH - RIGHT
    parts = [
        _text(left + LEFT, TOP - 12, f"{y.title} ({sense} is better)"),
        _text(right, HEIGHT - 8, x.title, "end"),
    ]
    for value in _marks([b for _, b in xy], low_y, high_y):
        row = base - (value - low_y) / (high_y - low_y) * (base - TOP)
        parts.append(f'<path class="grid" d="M{left + LEFT:.1f} {row:.1f}H{right:.1f}"/>')
        parts.append(_text(left + LEFT - 6, row + 4, f"{value:g}", "end", "small"))
    for value in _marks([a for a, _ in xy], low_x, high_x):
        column = left + LEFT + (value - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)
        parts.append(_text(column, base + 16, f"{value:g}", "middle", "small"))
    for line in dict.fromkeys(point.line for point in points if point.line):
        joined = [(at[i], point) for i, point in enumerate(points) if point.line == line]
        parts.append(_path("joined", [place for place, _ in joined], colour[joined[0][1].family]))
    parts.append(_path("front", [at[i] for i in front(xy, y.more)], ""))
    for (px, py), point, label_y in zip(at, points, _spread(at, points), strict=True):
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour[point.family]}"/>')
        parts.append(_text(px + 7, label_y + 3.5, point.text, "start", "small"))
    return "".join(parts)


def _marks(values: Sequence[float], low: float, high: float) -> list[float]:
    """Where an axis is labelled: at round numbers, or at the one value that all points share."""
    return [values[0]] if min(values) == max(values) else ticks(low, high)


def _text(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    own = f' class="{style}"' if style else ""
    return f'<text{own} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _path(style: str, at: Sequence[tuple[float, float]], stroke: str) -> str:
    own = f' stroke="{stroke}"' if stroke else ""
    return f'<polyline class="{style}"{own} points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in at)}"/>'


def _room(values: Sequence[float], share: float) -> tuple[float, float]:
    """Least and greatest with some room; the greater share on the right is for labels."""
    low, high = min(values), max(values)
    span = max(high - low, 1e-9)
    return low - 0.06 * span, high + max(share, 0.06) * span


def _spread(at: Sequence[tuple[float, float]], points: Sequence[Point]) -> list[float]:
    """Heights of labels: each moved down until it is clear of those placed before it."""
    placed: list[tuple[float, float]] = []
    heights = [0.0] * len(at)
    for i in sorted(range(len(at)), key=lambda i: at[i][1]):
        x, heights[i] = at[i]
        if not points[i].text:
            continue
        y = heights[i]
        while any(abs(x - a) < 110.0 and abs(y - b) < LABEL_H for a, b in placed):
            y += 1.0
        placed.append((x, y))
        heights[i] = y
    return _lifted(at, points, heights)


def _lifted(at: Sequence[tuple[float, float]], points: Sequence[Point], heights: list[float]) -> list[float]:
    """The same with labels that ran below the axis back above it, and those in their way with them."""
    placed: list[tuple[float, float]] = []
    for i in sorted(range(len(at)), key=lambda i: -heights[i]):
        if not points[i].text:
            continue
        x, y = at[i][0], min(heights[i], HEIGHT - BOTTOM - 4.0)
        while any(abs(x - a) < 110.0 and abs(y - b) < LABEL_H for a, b in placed):
            y -= 1.0
        placed.append((x, y))
        heights[i] = y
    return heights
