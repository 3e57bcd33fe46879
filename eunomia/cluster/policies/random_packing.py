"""Gavel's own Gandiva baseline: random pairs, kept while they do not hurt, equal time for all (OSDI 2020)."""

from __future__ import annotations

import random

import numpy as np

from eunomia.cluster.shares import isolated_shares
from eunomia.contract.allocation import Allocation, ClusterView, Needs, PairShares
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

LEAST = 1.0  # a pair whose normalised speeds sum to less is given up


class RandomPacking:
    """Pairs of equal scale factor drawn at random when the jobs need more workers than there are devices.

    A pair, once drawn, stays until one of its jobs ends, it cannot share some type, or its normalised speed
    is below 1. Normalised speed is v_a / v_a alone + v_b / v_b alone, summed over all types. It is computed
    at the next allocation, so bad pairs run until then. A job without a partner of its scale stays alone
    until then. Pairs and single jobs get equal time: x_j = N_j / (units s), rows cut to sum 1. Where all jobs
    fit, nobody shares. Rule: Gavel's public code, where it is called ``gandiva``; the policy of the Gandiva
    paper is :class:`~eunomia.cluster.policies.gandiva.Gandiva`. Pairs that can share no type are never made
    (deviation CP32); ``as_gavel`` makes them, as its code does, so that its draws are met.

    Does badly: a sum over types passes pairs that lose on each of them (0.5 on each of three types is 1.5).
    Good pairs are found by luck alone.
    """

    needs = Needs(pairs=True)

    def __init__(self, as_gavel: bool = False) -> None:
        self.as_gavel = as_gavel
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget all pairs; draw from this seed."""
        self._rng = random.Random(seed)
        self._pairs: list[tuple[int, int]] = []  # job numbers

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares of single jobs and pairs."""
        if view.beside is None:
            raise ConfigError("a packed policy needs throughputs of pairs; this table has none")
        row = {key: m for m, key in enumerate(view.key.tolist())}
        here = [(row[a], row[b]) for a, b in self._pairs if a in row and b in row]
        pairs = [pair for pair in here if normalised_sum(view, *pair) >= LEAST]
        crowded = view.scale.sum() > view.capacity.sum()
        if crowded:
            pairs += self._drawn(view, sorted(set(range(len(view))) - {m for pair in pairs for m in pair}))
        self._pairs = [(int(view.key[a]), int(view.key[b])) for a, b in pairs]
        return equal_time(view, pairs if crowded else [])

    def _drawn(self, view: ClusterView, free: list[int]) -> list[tuple[int, int]]:
        """As many draws as there are jobs without a partner; a draw of unequal scales is lost."""
        drawn = []
        for _ in range(len(free)):
            if len(free) < 2:
                break
            a, b = sorted(self._rng.sample(free, 2))
            if view.scale[a] == view.scale[b] and (self.as_gavel or _speed(view, a, b).any()):
                drawn.append((a, b))
                free = [m for m in free if m not in (a, b)]
        return drawn


def equal_time(view: ClusterView, pairs: list[tuple[int, int]]) -> Allocation:
    """Isolated shares of units: a pair is one, so is every job in none."""
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    alone = np.setdiff1d(np.arange(len(view)), np.concatenate([first, second]))
    share = isolated_shares(view.capacity, np.concatenate([view.scale[alone], view.scale[first]]))
    shares = np.zeros(view.throughput.shape)
    shares[alone] = np.where(view.usable[alone], share[: len(alone)], 0.0)
    if not pairs:
        return Allocation(shares=shares)
    speed = view.pair_speed(first, second)
    able = (speed > 0.0).all(axis=2) & view.usable[first] & view.usable[second]
    return Allocation(
        shares=shares, pairs=PairShares(first, second, np.where(able, share[len(alone) :], 0.0), speed)
    )


def normalised_sum(view: ClusterView, a: int, b: int) -> float:
    """Speeds of a and b together over their speeds alone, summed over jobs and types; 0 if they cannot share a type."""
    together = view.pair_speed(_one(a), _one(b))[0]
    if not (together > 0.0).all():
        return 0.0
    alone = np.stack([view.throughput[a], view.throughput[b]], axis=1)
    return float((together / alone).sum()) if (alone > 0.0).all() else 0.0


def _speed(view: ClusterView, a: int, b: int) -> Floats:
    """(J,) whether, and by the first job how fast, a and b can run together on devices that work."""
    together = view.pair_speed(_one(a), _one(b))[0]
    return np.where(view.usable[a] & view.usable[b], together[:, 0], 0.0)


def _one(m: int) -> Ints:
    return np.array([m], np.int64)
