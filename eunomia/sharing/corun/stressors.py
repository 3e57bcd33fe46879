"""Loops that load one resource each, compiled; intensity is the part of the time in which they run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from eunomia.core.errors import ConfigError, UnknownNameError

CACHE_BYTES = 1 << 20  # about what a core has of its own
STREAM_BYTES = 64 << 20  # beyond the caches that are shared
PERIOD_S = 0.01
Work = Callable[[], None]


def stressor(name: str) -> Work:
    """One iteration, about a millisecond, of ``KIND`` or ``KIND@INTENSITY``; it sleeps for the rest of its period.

    Raises UnknownNameError, and ConfigError for an intensity that is not within 0 and 1.
    """
    kind, _, text = name.partition("@")
    if kind not in KINDS:
        raise UnknownNameError("stressor", kind, KINDS)
    try:
        intensity = float(text or 1.0)
    except ValueError:
        intensity = -1.0
    if not 0.0 < intensity <= 1.0:
        raise ConfigError(f"stressor '{name}': intensity is '{text}'; more than 0, at most 1")
    work = KINDS[kind]()
    return work if intensity == 1.0 else _paced(work, intensity)


def _paced(work: Work, intensity: float) -> Work:
    began_s = time.perf_counter()

    def paced() -> None:
        nonlocal began_s
        work()
        now_s = time.perf_counter()
        if now_s - began_s >= intensity * PERIOD_S:
            time.sleep(max(0.0, began_s + PERIOD_S - now_s))
            began_s = time.perf_counter()

    return paced


def _compute() -> Work:
    """Dependent multiplications and additions in registers."""
    from numba import njit

    @njit
    def spin(times: int) -> float:
        x = 1.0
        for _ in range(times):
            x = x * 1.0000001 + 1e-9
        return x

    return lambda: spin(250_000)


def _cache() -> Work:
    """Reads along a random cycle through a buffer that a core's own cache holds."""
    from numba import njit

    size = CACHE_BYTES // 8
    order = np.random.default_rng(0).permutation(size)
    following = np.empty(size, np.int64)
    following[order] = np.roll(order, -1)

    @njit
    def chase(table: np.ndarray, place: int, times: int) -> int:
        for _ in range(times):
            place = table[place]
        return place

    place = 0

    def work() -> None:
        nonlocal place
        place = chase(following, place, 200_000)

    return work


def _bandwidth() -> Work:
    """Streams through memory: a scaled copy of a piece at a time."""
    from numba import njit

    size = STREAM_BYTES // 16
    read, written = np.ones(size), np.zeros(size)

    @njit
    def copy(a: np.ndarray, b: np.ndarray, first: int, last: int) -> None:
        for i in range(first, last):
            b[i] = 1.5 * a[i]

    place, piece = 0, 1 << 19

    def work() -> None:
        nonlocal place
        copy(read, written, place, place + piece)
        place = (place + piece) % size

    return work


KINDS: dict[str, Callable[[], Work]] = {"compute": _compute, "cache": _cache, "bandwidth": _bandwidth}
