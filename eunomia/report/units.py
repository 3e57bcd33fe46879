"""Numbers as people read them: metrics with their units and intervals, spans of time, instants, shares."""

from __future__ import annotations

import math

from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate


def span(seconds: float) -> str:
    """A span of time in the unit that suits it: 12.3 ms, 450 us, 2.50 s."""
    size = abs(seconds)
    if not math.isfinite(seconds):
        return "no limit" if seconds > 0 else "unknown"
    if size == 0.0:
        return "0 ms"
    if size < 0.9995e-3:
        return f"{seconds * 1e6:.3g} us" if size >= 1e-7 else f"{seconds * 1e9:.2g} ns"
    if size < 0.9995:
        return f"{_digits(seconds * 1e3)} ms"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    """Three digits where they matter, never in exponent form."""
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"


def instant(seconds: float) -> str:
    """A moment of the run's clock, to a microsecond."""
    return f"{seconds:.6f} s"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100.0 * share:.0f} %"


def counted(count: int, one: str, many: str = "") -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def value_text(metric: Metric, value: float) -> str:
    """A metric's value with its unit; a dash where there is none."""
    if math.isnan(value):
        return "-"
    if metric.unit == "share":
        return f"{100 * value:.1f} %"
    if metric.unit == "s":
        return span(value) if abs(value) < 120.0 else duration(value)
    if metric.unit == "J":
        return _joules(value)
    if metric.unit == "h":
        return f"{value:.4g} h"
    if metric.unit == "1/s":
        return f"{value:.4g} /s"
    if metric.unit in ("count", "cost"):
        whole = float(value).is_integer() or abs(value) >= 1000.0
        return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def half_width_text(metric: Metric, estimate: Estimate) -> str:
    """``±1.1``: half the 95 % interval, in the unit in which ``value_text`` writes the mean; empty with few seeds."""
    if not estimate.is_shown:
        return ""
    if metric.unit == "share":
        return f"±{100 * estimate.half_width:.1f}"
    number = value_text(metric, estimate.mean).partition(" ")[0]
    try:
        scale = float(number.replace(",", "")) / estimate.mean if estimate.mean else 1.0
    except ValueError:
        return ""
    half = abs(estimate.half_width * scale)
    return f"±{half:{',.0f' if half >= 99.5 else '.2g'}}"


def estimate_text(metric: Metric, estimate: Estimate, short: bool = False) -> str:
    """``71.2 ±1.1 %``: a mean over seeds with half its 95 % interval, both in one unit; ``short``: the mean alone."""
    text = value_text(metric, estimate.mean)
    half = "" if short else half_width_text(metric, estimate)
    number, _, unit = text.partition(" ")
    return f"{number} {half} {unit}".rstrip() if half else text


def duration(seconds: float | None) -> str:
    """A span of time with a fitting unit: ``42 s``, ``13.5 min``, ``2.61 h``, ``4.2 d``."""
    if seconds is None or math.isnan(seconds):
        return "-"
    if seconds < 0.01:
        return f"{1e3 * seconds:.2g} ms" if seconds else "0 s"
    if abs(seconds) < 120.0:
        return f"{seconds:.3g} s"
    if abs(seconds) < 7200.0:
        return f"{seconds / 60.0:.1f} min"
    return f"{seconds / 3600.0:.2f} h" if abs(seconds) < 4 * 86400.0 else f"{seconds / 86400.0:.2f} d"


def _joules(value: float) -> str:
    for factor, unit in ((1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")):
        if abs(value) >= 0.9995 * factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} nJ" if value else "0 J"


def three_digits(value: float) -> str:
    """Three digits that count; from 1,000 on all of the whole number, for a reader and not for a parser."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
