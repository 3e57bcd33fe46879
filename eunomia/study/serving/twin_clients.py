"""Which recorded requests were sent because another one had been answered: clients that wait for their answers.

A client that sends its next request when it has its answer slows down with its server. If its requests came at their
recorded times instead, a replay that is a little slower than the server would pile them up without end.

A request that comes by itself comes anywhere between two answers. One that follows an answer comes soon after it:
within ``SOON`` of the time to the next. Where most of a pair's requests do (``MOST``; or of a tenant's, who may take
turns with networks), those follow the latest answer that none follows yet. But a camera that the server just keeps up
with sends a fixed time after its last picture, not after answers. Which of both it is, the slope of intervals over
answers tells: 0 or 1. Where answers vary too little to tell (``SURE``), clients that think for less than ``IDLE`` of
the time are taken to wait.

Does badly for clients that think for longer than a quarter of an answer: they count as sending by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.study.serving.twin import Twin

FEWEST = 20  # requests of a pair or a tenant
SOON, MOST = 0.2, 0.6  # the first is what chance gives
SURE, IDLE = 0.25, 0.1  # standard error of a slope that tells

Ints = npt.NDArray[np.int64]


class Following(NamedTuple):
    """By request: the one whose answer it follows (-1 = none: it comes at its own time), and how long after [s]."""

    after: Ints
    think_s: Floats

    def waiting(self, pair: Ints) -> list[int]:
        """Pairs of which some request follows an answer; ``pair`` (n,): of each request."""
        return [int(number) for number in np.unique(pair[self.after >= 0])]


def clients_of(twin: Twin) -> Following:
    """Of a recording."""
    requests = twin.requests
    names = list(dict.fromkeys(agreement.tenant for agreement in requests.agreements))
    tenant = np.array([names.index(agreement.tenant) for agreement in requests.agreements], np.int64)
    sent_s = requests.arrival_s - twin.reach_s
    return following(requests.pair, tenant[requests.pair], sent_s, sent_s + twin.gone_s)


def following(pair: Ints, tenant: Ints, sent_s: Floats, answered_s: Floats) -> Following:
    """All (n,): pair and tenant of each request, when it was sent, and when answered; nan = nobody knows."""
    found = Following(np.full(len(pair), -1), np.zeros(len(pair)))
    alone = np.ones(len(pair), np.bool_)
    for group in (pair, tenant):
        for number in np.unique(group):
            mine = np.flatnonzero((group == number) & alone)
            after, think_s = _following(sent_s[mine], answered_s[mine])
            follows = after >= 0
            if follows.any():
                alone[mine] = False
                found.after[mine[follows]] = mine[after[follows]]
                found.think_s[mine] = think_s
    return found


def _following(sent_s: Floats, answered_s: Floats) -> Following:
    """The same of those that may follow each other."""
    nobody = Following(np.full(len(sent_s), -1), np.zeros(len(sent_s)))
    answers_s = np.sort(answered_s[np.isfinite(answered_s)])
    if len(sent_s) < FEWEST or not len(answers_s):
        return nobody
    before = np.searchsorted(answers_s, sent_s, side="right") - 1
    between = (before >= 0) & (before + 1 < len(answers_s))
    since_s = sent_s - answers_s[np.maximum(before, 0)]
    gap_s = np.diff(answers_s, append=np.inf)[np.maximum(before, 0)]
    soon = between & (since_s <= SOON * gap_s)
    if soon.sum() < MOST * between.sum() or between.sum() < FEWEST // 2:
        return nobody
    found = _matched(sent_s, answered_s, soon, float(since_s[soon].max()))
    follows = found.after >= 0
    waits = _wait(found.think_s[follows], (answered_s - sent_s)[found.after[follows]])
    return found if waits else nobody


def _matched(sent_s: Floats, answered_s: Floats, soon: npt.NDArray[np.bool_], most_s: float) -> Following:
    """Each of ``soon`` with the latest answer before it that none follows yet, ``most_s`` before at most."""
    after, think_s = np.full(len(sent_s), -1), np.zeros(len(sent_s))
    events = [(float(t), True, n) for n, t in enumerate(sent_s) if soon[n]]
    events += [(float(t), False, n) for n, t in enumerate(answered_s) if t > sent_s[n]]
    free: list[int] = []
    for at_s, arrives, n in sorted(events):
        if not arrives:
            free.append(n)
        elif free and at_s - answered_s[free[-1]] <= most_s:
            after[n] = free.pop()
            think_s[n] = at_s - answered_s[after[n]]
    return Following(after, think_s)


def _wait(think_s: Floats, took_s: Floats) -> bool:
    """Whether intervals follow answers, and no clock: ``think_s`` after answers that took so long."""
    if len(think_s) < 3:
        return False
    spread = float(((took_s - took_s.mean()) ** 2).sum())
    slope = 1.0 + float(((took_s - took_s.mean()) * think_s).sum()) / spread if spread > 0.0 else 1.0
    left = think_s - think_s.mean() - (slope - 1.0) * (took_s - took_s.mean())
    error = float(np.sqrt((left**2).sum() / (len(left) - 2) / spread)) if spread > 0.0 else np.inf
    if error <= SURE:
        return slope > 0.5
    return bool(think_s.sum() <= IDLE * took_s.sum())
