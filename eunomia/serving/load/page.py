"""The result of a load as one offline page: the table, and latency against percentile for every stream."""

from __future__ import annotations

import html
import math

from eunomia.serving.load.result import Result, StreamResult, lateness

LIGHT = (
    "#3a6ea5",
    "#d08a1d",
    "#2b8a74",
    "#a8507e",
    "#6c5fa8",
    "#7d8a2e",
    "#4aa3c7",
    "#8b6848",
)  # as in reports
DARK = ("#7fb0e6", "#eab558", "#5fc4a8", "#df8ab6", "#a99be6", "#b6c35f", "#8bd3ee", "#c9a27e")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 64, 40, 12
TICKS = (50.0, 90.0, 99.0, 99.9)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2937; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } div { overflow-x: auto } table { border-collapse: collapse; width: 100% }
.soft { color: #4b5563; margin-bottom: .3rem }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e5e7eb }
th:first-child, td:first-child { text-align: left }
svg { width: 100%; min-width: 36rem; height: auto } .key { margin-right: 1.2rem }
polyline { fill: none; stroke: var(--c); stroke-width: 2 } .key { white-space: nowrap }
.key i { background: var(--c); display: inline-block }
.key i { width: .8rem; height: .8rem; margin-right: .35rem; border-radius: 2px }
@media (prefers-color-scheme: dark) {
  body { color: #e5e7eb; background: #111827 } th, td { border-color: #374151 } .soft { color: #9ca3af }
}
@media (max-width: 640px) { div { border-right: 1px dashed #9ca3af } }
"""
STYLE += "".join(f".s{n} {{ --c: {colour} }} " for n, colour in enumerate(LIGHT))
DIM = "".join(f".s{n} {{ --c: {colour} }} " for n, colour in enumerate(DARK))
STYLE += f"@media (prefers-color-scheme: dark) {{ {DIM}}}"


def render(result: Result, title: str) -> str:
    """The page."""
    rows = "".join(_row(stream) for stream in result["streams"])
    lag, early = result["generator_lag_ms"], "Ended early, by Ctrl-C. " if result["ended_early"] else ""
    late = lateness(result)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><main><h1>{html.escape(title)}</h1>"
        f"<p>{early}{result['total']['sent']} requests offered at {result['offered_per_s']:.1f}/s, "
        f"{result['goodput_per_s']:.1f}/s within their deadline ({result['total']['hit_rate']:.1%}). "
        f"Latency counts from the intended send time to the answer at the client; the generator was late by "
        f"{lag['p99']:.1f} ms (p99).</p>{f'<p>{late[0].upper()}{late[1:]}.</p>' if late else ''}"
        f"<p class=soft>Per stream; a request without an answer is a miss.</p><div tabindex=0><table>"
        f"<tr><th>tenant, model<th>sent"
        f"<th>answered<th>deadline<th>hit rate<th>p50<th>p95<th>p99<th>errors</tr>{rows}</table></div>"
        f"<h2>Latency against percentile</h2>{_chart(result['streams'])}</main>"
    )


def _row(stream: StreamResult) -> str:
    latency = stream["latency_ms"]
    times = "".join(f"<td>{_ms(latency.get(p))}" for p in ("p50", "p95", "p99"))
    errors = "; ".join(f"{html.escape(text)} ({count})" for text, count in stream["errors"].items()) or "none"
    rate = f"{stream['hit_rate']:.1%}" if stream["sent"] else "-"
    return (
        f"<tr><td>{html.escape(stream['tenant'])}, {html.escape(stream['model'])}<td>{stream['sent']}"
        f"<td>{stream['answered']}<td>{_ms(stream['deadline_ms'])}<td>{rate}{times}<td>{errors}</tr>"
    )


def _chart(streams: list[StreamResult]) -> str:
    """Lines over a percentile axis that stretches towards 100, latency on a logarithmic axis."""
    values = [v for s in streams for v in s["latency_ms"].values() if v > 0]
    if not values:
        return "<p>No request was answered.</p>"
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low * 10)

    def y(value: float) -> float:
        share = (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def x(percentile: float) -> float:
        return LEFT + min(-math.log10(1 - min(percentile, 99.97) / 100), 3.5) / 3.5 * (WIDTH - LEFT - 12)

    parts, decade = [], low
    while decade <= high * 1.001:
        parts.append(
            _line(LEFT, y(decade), WIDTH - 12, y(decade)) + _text(LEFT - 6, y(decade) + 4, _ms(decade), "end")
        )
        decade *= 10
    for tick in TICKS:
        parts.append(
            _line(x(tick), TOP, x(tick), HEIGHT - BOTTOM)
            + _text(x(tick), HEIGHT - 14, f"p{tick:g}", "middle")
        )
    keys = []
    for n, stream in enumerate(streams):
        style = f"s{n % len(LIGHT)}"
        points = " ".join(f"{x(float(p[1:])):.1f},{y(v):.1f}" for p, v in stream["latency_ms"].items())
        parts.append(f"<polyline class={style} points='{points}'/>")
        name = html.escape(f"{stream['tenant']}, {stream['model']}")
        keys.append(f"<span class='key {style}'><i></i>{name}</span>")
    what = "aria-label='Latency against percentile, a line per stream'"
    drawing = f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img {what}>{''.join(parts)}</svg>"
    return f"<div tabindex=0>{drawing}</div><p>{' '.join(keys)}</p>"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"<line x1={x1:.1f} y1={y1:.1f} x2={x2:.1f} y2={y2:.1f} stroke='#9ca3af' stroke-opacity=.4 />"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x={x:.1f} y={y:.1f} text-anchor={anchor} font-size=12 fill=currentColor>{text}</text>"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1e3:.3g} s" if value >= 1000 else f"{value:.3g} ms"
