"""Numbers as people read them: spans of time, instants, shares."""

from __future__ import annotations

import math


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
