"""Proportional fairness over whole GPUs: argmax of prod_i V_i(G_i), fast, and its exhaustive twin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from eunomia.cluster.policies.themis.layout import LEVELS, level_of, reach, take
from eunomia.errors import PolicyError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PASSES = 20  # rounds of pairwise exchange, at most; 3 are usual
TOLERANCE = 1e-12  # smaller gains of log value are ties


@dataclass(frozen=True)
class Offer:
    """GPUs for sale: ``free`` (machines,) counts and the ``rack`` (machines,) each machine stands in."""

    free: Ints
    rack: Ints

    @property
    def racks(self) -> int:
        """Number of racks."""
        return int(self.rack.max()) + 1 if len(self.rack) else 0


@dataclass(frozen=True)
class Bids:
    """What bidders would pay: ``value`` (bidders, GPUs + 1, levels) > 0, by total GPUs and level of spread.

    ``held`` (bidders, machines) are GPUs a bidder keeps whatever happens here; they count in both indices.
    The table is the bid of section 3.3 of Themis (rho of subsets of the offer), written compactly:
    machines of one size and kind are interchangeable, so a subset is its size and its spread.
    """

    value: Floats
    held: Ints

    def __post_init__(self) -> None:
        if self.value.ndim != 3 or self.value.shape[2] != LEVELS:
            raise PolicyError(f"bids have shape {self.value.shape}, expected (bidders, GPUs + 1, {LEVELS})")
        if not np.all(np.isfinite(self.value)) or not np.all(self.value > 0.0):
            raise PolicyError("a bid is not positive and finite: give a floor to what is worth nothing")

    def __len__(self) -> int:
        return len(self.value)


def proportional(bids: Bids, offer: Offer, start: Ints | None = None) -> Ints:
    """(bidders, machines) grants that (nearly) maximise sum_i log V_i(held_i + grant_i).

    Greedy by gain of log value, where a step may be several GPUs, so that gangs are seen; then pairs of
    bidders split again what the two have and what is free, until no pair gains. The better of two
    starts counts: gain per GPU, gain per step.
    A local optimum: on random small cases against the exhaustive search see docs/cluster-peers.md.
    Deterministic; never worse than ``start``, if given. Does badly where three or more bidders would have
    to swap machines at once.
    """
    grant = np.zeros_like(bids.held) if start is None else start.copy()
    if len(bids) and len(offer.free):
        free = offer.free - grant.sum(axis=0)
        _improve(np.log(bids.value), bids.held + grant, grant, free, offer.rack, offer.racks)
    return grant


def log_values(bids: Bids, offer: Offer, grant: Ints) -> Floats:
    """(bidders,) log V_i of held and granted GPUs together."""
    values = np.empty(len(bids))
    for i, use in enumerate(bids.held + grant):
        values[i] = np.log(bids.value[i, int(use.sum()), level_of(use, offer.rack)])
    return values


@njit(cache=True)
def _improve(logv: Any, use: Any, grant: Any, free: Any, rack: Any, racks: int) -> None:
    """Best of two starts: greedy by gain per GPU, and by gain per step."""
    held, bare, pool = use - grant, use.copy(), free.copy()
    top, steps = _tops(logv), _steps(logv)
    value = _climb(logv, top, steps, held, use, free, rack, racks, True)
    if _climb(logv, top, steps, held, bare, pool, rack, racks, False) > value + TOLERANCE:
        use, free = bare, pool
    grant[:] = use - held


@njit(cache=True)
def _climb(
    logv: Any, top: Any, steps: Any, held: Any, use: Any, free: Any, rack: Any, racks: int, per_gpu: bool
) -> float:
    """Fill, then exchange between pairs until nothing gains; returns the sum of log values."""
    _fill(logv, steps, use, free, rack, racks, per_gpu)
    for _ in range(PASSES):
        changed = False
        for i in range(len(logv)):
            for j in range(i + 1, len(logv)):
                changed |= _exchange(logv, top, steps, held, use, free, rack, racks, i, j)
        if not changed:
            break
        _fill(logv, steps, use, free, rack, racks, per_gpu)
    total = 0.0
    for i in range(len(logv)):
        total += _value(logv[i], use[i], rack)
    return total


@njit(cache=True)
def _value(logv: Any, use: Any, rack: Any) -> float:
    return float(logv[use.sum(), level_of(use, rack)])


@njit(cache=True)
def _tops(logv: Any) -> Any:
    """(bidders,) the most that each could reach: a pair that has it need not be looked at."""
    top = np.empty(len(logv))
    for i in range(len(logv)):
        top[i] = logv[i].max()
    return top


@njit(cache=True)
def _steps(logv: Any) -> Any:
    """(bidders, GPUs + 1) whether one GPU fewer would be worth less at some level: other numbers are idle."""
    steps = np.zeros(logv.shape[:2], np.bool_)
    for i in range(len(logv)):
        for n in range(1, logv.shape[1]):
            for level in range(LEVELS):
                if logv[i, n, level] > logv[i, n - 1, level] + TOLERANCE:
                    steps[i, n] = True
    return steps


@njit(cache=True)
def _fill(logv: Any, steps: Any, use: Any, free: Any, rack: Any, racks: int, per_gpu: bool) -> None:
    """Give away free GPUs, each time to the bidder and in the number that gain most, per GPU or in all."""
    reachable = np.zeros(LEVELS, np.int64)
    while True:
        best, bidder, number, where = TOLERANCE, -1, 0, 0
        for i in range(len(logv)):
            reach(use[i], free, rack, racks, reachable)
            have = use[i].sum()
            now = logv[i, have, level_of(use[i], rack)]
            level = 0
            for q in range(1, min(reachable[LEVELS - 1], logv.shape[1] - 1 - have) + 1):
                if not steps[i, have + q]:
                    continue
                while q > reachable[level]:
                    level += 1
                gain = (logv[i, have + q, level] - now) / (q if per_gpu else 1)
                if gain > best + TOLERANCE:
                    best, bidder, number, where = gain, i, q, level
        if bidder < 0:
            return
        take(use[bidder], free, rack, racks, number, where)


@njit(cache=True)
def _exchange(
    logv: Any, top: Any, steps: Any, held: Any, use: Any, free: Any, rack: Any, racks: int, i: int, j: int
) -> bool:
    """Split anew what i and j were granted and what is free; True if their joint value rose."""
    before = _value(logv[i], use[i], rack) + _value(logv[j], use[j], rack)
    if before > top[i] + top[j] - TOLERANCE:
        return False
    pool = free + use[i] + use[j] - held[i] - held[j]
    total = pool.sum()
    best, best_first, best_second, i_first = before + TOLERANCE, -1, -1, True
    reachable = np.zeros(LEVELS, np.int64)
    for swap in range(2):
        first, second = (i, j) if swap == 0 else (j, i)
        have = held[first].sum()
        for q in range(min(total, logv.shape[1] - 1 - have) + 1):
            if q > 0 and not steps[first, have + q]:
                continue
            mine, left = held[first].copy(), pool.copy()
            _take_tight(mine, left, rack, racks, q, reachable)
            value = logv[first, have + q, level_of(mine, rack)]
            if value + top[second] <= best + TOLERANCE:
                continue
            rest, number = _best_number(logv[second], held[second], left, rack, racks, reachable)
            if value + rest > best + TOLERANCE:
                best, best_first, best_second, i_first = value + rest, q, number, swap == 0
    if best_first < 0:
        return False
    first, second = (i, j) if i_first else (j, i)
    use[first], use[second], free[:] = held[first], held[second], pool
    _take_tight(use[first], free, rack, racks, best_first, reachable)
    _take_tight(use[second], free, rack, racks, best_second, reachable)
    return True


@njit(cache=True)
def _take_tight(use: Any, free: Any, rack: Any, racks: int, wanted: int, reachable: Any) -> None:
    """Take ``wanted`` GPUs at the lowest level that holds them."""
    if wanted == 0:
        return
    reach(use, free, rack, racks, reachable)
    level = 0
    while wanted > reachable[level]:
        level += 1
    take(use, free, rack, racks, wanted, level)


@njit(cache=True)
def _best_number(logv: Any, use: Any, free: Any, rack: Any, racks: int, reachable: Any) -> tuple[float, int]:
    """Best log value of one bidder among what is free, and the fewest GPUs that reach it."""
    reach(use, free, rack, racks, reachable)
    have = use.sum()
    best, number, level = logv[have, level_of(use, rack)], 0, 0
    for q in range(1, min(reachable[LEVELS - 1], logv.shape[0] - 1 - have) + 1):
        while q > reachable[level]:
            level += 1
        if logv[have + q, level] > best + TOLERANCE:
            best, number = logv[have + q, level], q
    return best, number


def exhaustive(
    values: Sequence[Callable[[tuple[int, ...]], float]], free: Sequence[int]
) -> tuple[float, list[tuple[int, ...]]]:
    """The exact optimum by trying every split of every machine: (prod V_i, counts per machine per bidder).

    ``values[i]`` is any function of GPU counts per machine. Grows as prod_m C(free_m + k, k): for tests.
    """
    k = len(values)
    best, chosen = -1.0, [tuple(0 for _ in free) for _ in values]
    for columns in itertools.product(*(list(_splits(count, k)) for count in free)):
        grants = [tuple(column[i] for column in columns) for i in range(k)]
        product = 1.0
        for value, grant in zip(values, grants, strict=True):
            product *= value(grant)
        if product > best * (1.0 + TOLERANCE):
            best, chosen = product, grants
    return best, chosen


def _splits(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to give at most ``count`` to ``parts`` bidders."""
    if parts == 0:
        yield ()
        return
    for first in range(count + 1):
        for rest in _splits(count - first, parts - 1):
            yield (first, *rest)
