"""Passes over the flat arrays of the compiled embedding: sums, steps and ratio tests. See :mod:`embedding_core`."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.solver.embedding_step import REGULAR, jitted

GAMMA = 0.99  # part of the longest step that is taken


@jitted
def greatest(array):  # type: ignore[no-untyped-def]
    """The largest entry, or 0 if all are negative.

    Bits of positive floats are ordered as integers are, and integers have a vector instruction for it.
    """
    bits, most, top = array.view(np.int64), np.empty(1, np.int64), np.int64(0)
    for i in range(len(bits)):
        top = max(top, bits[i])
    most[0] = top
    return most.view(np.float64)[0]


@jitted
def largest(array, part):  # type: ignore[no-untyped-def]
    """Largest size of an entry; ``part`` is room as long. By squares, which take a third of the time of abs()."""
    for i in range(len(array)):
        part[i] = array[i] * array[i]
    return np.sqrt(greatest(part))


@jitted
def dot(n, a, b):  # type: ignore[no-untyped-def]
    """Sum of n a b."""
    total = 0.0
    for i in range(len(n)):
        total += n[i] * a[i] * b[i]
    return total


@jitted
def worth(n, cut, row, cost, point):  # type: ignore[no-untyped-def]
    """Sum of n cost point; signs, from ``cut`` to ``row``, cost nothing."""
    return dot(n[:cut], cost[:cut], point[:cut]) + dot(n[row:], cost[row:], point[row:])


@jitted
def add(to, what, times):  # type: ignore[no-untyped-def]
    """to += times what."""
    for i in range(len(to)):
        to[i] += times * what[i]


@jitted
def put(to, what, times):  # type: ignore[no-untyped-def]
    """to = times what."""
    for i in range(len(to)):
        to[i] = times * what[i]


@jitted
def blend(live, what, factor, lines, times, to):  # type: ignore[no-untyped-def]
    """to = factor what + times lines, 0 where not alive."""
    for i in range(len(to)):
        to[i] = live[i] * (factor * what[i] + times * lines[i])


@jitted
def sums(n, a, b, c, d):  # type: ignore[no-untyped-def]
    """Sums of n times a b, a c, a a, b b and d d in one pass."""
    ab, ac, aa, bb, dd = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(n)):
        ab += n[i] * a[i] * b[i]
        ac += n[i] * a[i] * c[i]
        aa += n[i] * a[i] * a[i]
        bb += n[i] * b[i] * b[i]
        dd += n[i] * d[i] * d[i]
    return ab, ac, aa, bb, dd


@jitted
def turned(s, z, over_s, over_z, soft, over_soft):  # type: ignore[no-untyped-def]
    """Reciprocals of slacks and multipliers, from one division, and soft = W^2 + regularisation with W^2 = s / z."""
    for i in range(len(s)):
        over_soft[i] = 1.0 / (s[i] * z[i])
    for i in range(len(s)):
        over_s[i] = z[i] * over_soft[i]
    for i in range(len(s)):
        over_z[i] = s[i] * over_soft[i]
    for i in range(len(s)):
        soft[i] = s[i] * over_z[i] + REGULAR
    for i in range(len(s)):
        over_soft[i] = 1.0 / soft[i]


@jitted
def into_cone(live, r):  # type: ignore[no-untyped-def]
    """Shift so that everything is positive, by 0.01 where it already is; what is not alive becomes 1."""
    least = np.inf
    for i in range(len(r)):
        least = min(least, r[i] if live[i] > 0.0 else np.inf)
    shift = 1.0 + max(-GAMMA, -least)
    for i in range(len(r)):
        r[i] = live[i] * (r[i] + shift - 1.0) + 1.0


@jitted
def pull(over_z, dz, toward, times, part, room):  # type: ignore[no-untyped-def]
    """Put dz / z into ``part``, where dz is dz + times toward; return the reciprocal of the longest affine step.

    That is the largest of -dz / z and 1 + dz / z, or |dz / z + 0.5| + 0.5; ``room`` is as long.
    """
    for i in range(len(dz)):
        part[i] = (dz[i] + times * toward[i]) * over_z[i]
    for i in range(len(dz)):
        room[i] = (part[i] + 0.5) * (part[i] + 0.5)
    return np.sqrt(greatest(room)) + 0.5


@jitted
def aimed(live, s, over_z, part, mu, to):  # type: ignore[no-untyped-def]
    """Slack aimed at, corrected to second order: s (1 - a (1 + a)) - mu / z with a = ``part`` = dz / z."""
    for i in range(len(s)):
        a = part[i]
        to[i] = live[i] * (s[i] * (1.0 - a * (1.0 + a)) - mu * over_z[i])


@jitted
def slack_steps(live, s, over_s, over_z, dz, to, part):  # type: ignore[no-untyped-def]
    """Turn slacks aimed at into steps, -(to + s / z dz), in place; returns the largest -ds / s and -dz / z, or 0."""
    for i in range(len(s)):
        part[i] = -dz[i] * over_z[i]
    for i in range(len(s)):
        to[i] = live[i] * (s[i] * part[i] - to[i])
    for i in range(len(s)):
        other = -to[i] * over_s[i]
        part[i] = other if other > part[i] else part[i]
    return greatest(part)
