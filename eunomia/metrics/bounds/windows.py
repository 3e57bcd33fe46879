"""When requests may run, and the intervals into which a bound cuts time."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

GRACE_S = 1e-9  # a request that ends this late is still a hit (docs/engine.md)
CLOCK = 4e-12  # relative error that an engine's clock may have at one event (docs/engine.md: 1e-12), doubled twice
AUTO_EVENTS = 300  # up to so many requests all release and deadline points are used
AUTO_UNIFORM = 100  # beyond, so many uniform intervals
NEAR = 1e-6  # points nearer than this share of the whole span are one


def cut_points(starts_s: Floats, ends_s: Floats, intervals: int | None) -> Floats:
    """(intervals + 1,) ascending points that cover all windows.

    ``intervals``: so many of equal length; 0 = every release and deadline is a point; None = by the
    number of requests. Any cut gives a valid bound; a finer one gives a tighter bound.
    """
    if intervals is not None and intervals < 0:
        raise ConfigError(
            f"intervals is {intervals}; give 0 for all release and deadline points, or a number"
        )
    if intervals is None:
        intervals = 0 if len(starts_s) <= AUTO_EVENTS else AUTO_UNIFORM
    first, last = float(starts_s.min()), float(ends_s.max())
    if intervals:
        return np.linspace(first, last, intervals + 1)
    points = np.unique(np.concatenate([starts_s, ends_s]))
    kept = np.concatenate([[True], np.diff(points) > NEAR * (last - first)])
    inner: Floats = points[kept]
    inner[-1] = last  # the last point must stay: windows end there
    return inner


def overlaps(starts_s: Floats, ends_s: Floats, points_s: Floats) -> tuple[Ints, Ints, Floats]:
    """Pairs (window, interval) that overlap, and for how long: sparse |window and interval|."""
    low = np.searchsorted(points_s, starts_s, side="right") - 1
    high = np.searchsorted(points_s, ends_s, side="left")
    count = np.maximum(high - low, 0)
    window = np.repeat(np.arange(len(starts_s)), count)
    offset = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    interval = np.repeat(low, count) + offset
    length = np.minimum(ends_s[window], points_s[interval + 1]) - np.maximum(
        starts_s[window], points_s[interval]
    )
    some = length > 0.0
    return window[some], interval[some], length[some]
