"""Which recorded requests were sent because another one had been answered: clients that wait for their answers.

A client that sends its next request when it has its answer slows down with its server. If its requests came at their
recorded times instead, a replay that is a little slower than the server would pile them up without end.

Of a pair, each request follows the latest answer before it that none follows yet. The pair is one of waiting clients if
it has the same number of requests under way at nearly all arrivals (``ALIKE``), and nearly all the time (``FULL``).
It is not where gaps make up for what answers took: then requests come by a clock.

Does badly for waiting clients that think longer than a tenth of an answer: they count as sending by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats

FEWEST = 20  # requests of a pair
ALIKE, FULL, BY_CLOCK = 0.8, 0.9, -0.5


class Following(NamedTuple):
    """By request: the one whose answer it follows (-1 = none: it comes at its own time), and how long after [s]."""

    after: npt.NDArray[np.int64]
    think_s: Floats


def following(pair: npt.NDArray[np.int64], sent_s: Floats, answered_s: Floats) -> Following:
    """All (n,): the pair of each request, when it was sent, and when answered; nan = nobody knows."""
    after, think_s = np.full(len(pair), -1), np.zeros(len(pair))
    for number in np.unique(pair):
        mine = np.flatnonzero(pair == number)
        found = _following(sent_s[mine], answered_s[mine])
        if found is not None:
            answered = found.after >= 0
            after[mine[answered]] = mine[found.after[answered]]
            think_s[mine] = found.think_s
    return Following(after, think_s)


def _following(sent_s: Floats, answered_s: Floats) -> Following | None:
    """The same of one pair; None where its clients do not wait."""
    count = len(sent_s)
    if count < FEWEST:
        return None
    after, think_s, level = np.full(count, -1), np.zeros(count), np.zeros(count, np.int64)
    free: list[int] = []
    under_way = 0
    for at_s, arrives, n in sorted(
        [(float(t), True, n) for n, t in enumerate(sent_s)]
        + [(float(t), False, n) for n, t in enumerate(answered_s) if t == t]
    ):
        under_way += 1 if arrives else -1
        if not arrives:
            free.append(n)
            continue
        level[n] = under_way
        if free:
            after[n] = free.pop()
            think_s[n] = at_s - answered_s[after[n]]
    order = np.argsort(sent_s, kind="stable")
    levels = level[order]
    alike = float((levels[1:] == levels[:-1]).mean())
    span_s = float(sent_s.max() - sent_s.min())
    full_s = float(
        (np.diff(sent_s[order]) * levels[:-1]).sum()
    )  # had nobody been answered before the next came
    idle_s = float(think_s[after >= 0].sum())
    if span_s <= 0.0 or alike < ALIKE or idle_s > (1.0 - FULL) * full_s:
        return None
    return None if _by_clock(after, think_s, answered_s - sent_s) else Following(after, think_s)


def _by_clock(after: npt.NDArray[np.int64], think_s: Floats, took_s: Floats) -> bool:
    """Whether gaps are short where answers were long."""
    follow = after >= 0
    gaps_s, answers_s = think_s[follow], took_s[after[follow]]
    if len(gaps_s) < 2 or gaps_s.std() <= 0.0 or answers_s.std() <= 0.0:
        return False
    return bool(np.corrcoef(gaps_s, answers_s)[0, 1] < BY_CLOCK)
