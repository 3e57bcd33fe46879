"""Figures of cluster runs as text."""

from __future__ import annotations

import math

from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.metrics.statistics import Estimate


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


def metric_text(name: str, value: float) -> str:
    """A figure with its unit."""
    unit = CLUSTER_METRICS[name].unit
    if math.isnan(value):
        return "-"
    if unit == "s":
        return duration(value)
    if unit == "%":
        return f"{100.0 * value:.1f} %"
    if unit == "h":
        return f"{value:.4g} h"
    whole = float(value).is_integer() or abs(value) >= 1000.0
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.4g}"


def estimate_text(name: str, estimate: Estimate) -> str:
    """A mean over seeds with half its 95 % interval, both in the same unit."""
    text = metric_text(name, estimate.mean)
    if not estimate.has_interval:
        return text
    number, _, unit = text.partition(" ")
    try:
        shown = float(number.replace(",", ""))
    except ValueError:
        return text
    scale = shown / estimate.mean if estimate.mean else 1.0
    half = abs(estimate.half_width * scale)
    return f"{number} ±{half:{',.0f' if half >= 100.0 else '.2g'}} {unit}".rstrip()
