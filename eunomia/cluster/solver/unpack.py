"""From pairs of groups to pairs of jobs."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints


def job_pairs(
    first: Ints, second: Ints, total: Floats, group: Ints, groups: int
) -> tuple[Ints, Ints, Floats]:
    """Deal the time of pairs of groups to pairs of jobs so that jobs of one group get equal time.

    ``total`` (Q, J) is time summed over all pairs of jobs of the two groups. Two groups of a and b jobs are matched
    as along a staircase, with a + b - gcd(a, b) pairs at most; a group with itself as a ring. Few pairs, so that rounds
    can realise them.
    """
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=groups))[:-1])
    firsts, seconds, shares = [], [], []
    # columns of one pair of groups on several types share the same staircase
    busy = np.flatnonzero(total.max(axis=1, initial=0.0) > 1e-12)
    for q in busy.tolist():
        a, b = members[first[q]], members[second[q]]
        if first[q] == second[q]:
            one, two, part = _ring(a)
        else:
            one, two, part = _staircase(a, b)
        firsts.append(one)
        seconds.append(two)
        shares.append(part[:, None] * total[q][None, :])
    if not firsts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, total.shape[1]))
    return _merged(np.concatenate(firsts), np.concatenate(seconds), np.concatenate(shares), len(group))


def _ring(jobs: Ints) -> tuple[Ints, Ints, Floats]:
    if len(jobs) == 2:
        return jobs[:1], jobs[1:], np.ones(1)
    return jobs, np.roll(jobs, -1), np.full(len(jobs), 1.0 / len(jobs))


def _staircase(a: Ints, b: Ints) -> tuple[Ints, Ints, Floats]:
    """Cut [0, 1) at multiples of 1/a and 1/b: every piece is a pair, every job has pieces of equal length."""
    size_a, size_b = len(a), len(b)
    cuts = np.unique(np.concatenate([np.arange(size_a + 1) * size_b, np.arange(size_b + 1) * size_a]))
    at = cuts[:-1]
    return a[at // size_b], b[at // size_a], np.diff(cuts) / (size_a * size_b)


def _merged(first: Ints, second: Ints, shares: Floats, size: int) -> tuple[Ints, Ints, Floats]:
    """One row per pair of jobs, the earlier job first."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    place, at = np.unique(low * size + high, return_inverse=True)
    merged = np.zeros((len(place), shares.shape[1]))
    np.add.at(merged, at, shares)
    return place // size, place % size, merged
