"""Proportional fairness over whole GPUs: argmax of prod_i V_i(G_i), fast, and its exhaustive twin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.themis.division import LEVELS, TOLERANCE, improve, level_of
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError


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
    grant = np.zeros(bids.held.shape, np.int64) if start is None else np.array(start, np.int64, order="C")
    if len(bids) and len(offer.free):
        free = np.array(offer.free - grant.sum(axis=0), np.int64)
        use = np.ascontiguousarray(bids.held + grant)
        improve(np.log(np.ascontiguousarray(bids.value)), use, grant, free, offer.rack.copy(), offer.racks)
    return grant


def log_values(bids: Bids, offer: Offer, grant: Ints) -> Floats:
    """(bidders,) log V_i of held and granted GPUs together."""
    values = np.empty(len(bids))
    for i, use in enumerate(bids.held + grant):
        values[i] = np.log(bids.value[i, int(use.sum()), level_of(use, offer.rack)])
    return values


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
