"""Which recorded requests were sent because another one had been answered: clients that wait for their answers.

A client that sends its next request when it has its answer slows down with its server. If its requests came at their
recorded times instead, a replay that is a little slower than the server would pile them up without end.

Each stretch of ``STRETCH`` requests of a pair (or of a tenant, who may take turns with networks) is looked at alone.
Two signs make one suspect. Nearly all (``EVEN``) find the same number under way, or one less; then nearly all
(``NEARLY``) have to come within ``THINKS`` times what an answer takes, behind one. Or: a request that comes by itself
comes anywhere between two answers; here most (``MOST``) come within ``SOON`` of the time to the next, and those wait.
Each suspect follows the latest answer before it that none follows yet. A camera shows both signs, too: it sends a fixed
time after its last picture. Which of both it is, the slope of intervals over answers tells: 0 or 1. Where answers vary
too little to tell (``SURE``), clients that think for less than ``IDLE`` of their answers are taken to wait.

Does badly for clients that think for several times their answers: they count as sending by themselves. So it does for a
camera that keeps its device busy by answers that all take the same time: it counts as waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.study.serving.twin import Twin

FEWEST, FEWEST_SOON = 8, 20  # requests of a pair or a tenant
SOON, MOST = 0.2, 0.6  # the first is what chance gives
SELDOM, EVEN = 0.05, 0.8
STRETCH, THINKS, NEARLY = 64, 3.0, 0.9
SURE, IDLE = 0.5, 0.3  # standard error of a slope that tells

Ints = npt.NDArray[np.int64]


class Following(NamedTuple):
    """By request: the one whose answer it follows (-1 = none: it comes at its own time), and how long after [s]."""

    after: Ints
    think_s: Floats

    def clients(self) -> list[list[int]]:
        """The requests of each client that waits, in order."""
        last = set(np.flatnonzero(self.after >= 0).tolist()) - set(self.after.tolist())
        found = []
        for tail in sorted(last):
            mine = [tail]
            while (before := int(self.after[mine[-1]])) >= 0:
                mine.append(before)
            found.append(mine[::-1])
        return found

    def goes_on(self, client: Sequence[int], sent_s: Floats, answered_s: Floats) -> bool:
        """Whether the recording ends so soon after its last answer that it may have had more to send."""
        longest_s = float(self.think_s[list(client)].max())
        return bool(answered_s[client[-1]] >= sent_s.max() - THINKS * longest_s)

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
    if len(sent_s) < FEWEST or not np.isfinite(answered_s).any():
        return nobody
    stretches = np.array_split(np.argsort(sent_s, kind="stable"), max(1, round(len(sent_s) / STRETCH)))
    for even in (True, False):
        found = _suspects(sent_s, answered_s, stretches, even=even)
        follow = found.after >= 0
        if _wait(found.think_s[follow], (answered_s - sent_s)[found.after[follow]]):
            return found
    return nobody


def _suspects(sent_s: Floats, answered_s: Floats, stretches: Sequence[Ints], *, even: bool) -> Following:
    """By the one sign in each stretch, else by the other; ``even``: numbers under way come first."""
    most_s = np.full(len(sent_s), -1.0)  # after an answer; below 0 = it comes by itself
    enough, took_s = np.full(len(sent_s), np.inf), answered_s - sent_s
    since_s, gap_s, level = _moments(sent_s, answered_s)

    def are_even(mine: Ints) -> bool:
        if top := _even(level[mine]):
            most_s[mine], enough[mine] = THINKS * np.nanmedian(took_s[mine]), NEARLY * (len(mine) - top)
        return bool(top)

    def come_soon(mine: Ints) -> bool:
        soon = _soon(since_s[mine], gap_s[mine])
        if soon.any():
            most_s[mine], enough[mine] = np.where(soon, since_s[mine][soon].max(), -1.0), MOST * soon.sum()
        return bool(soon.any())

    first, second = (are_even, come_soon) if even else (come_soon, are_even)
    seen = [first(mine) for mine in stretches]
    found = _matched(sent_s, answered_s, most_s)
    for mine, fits in zip(stretches, seen, strict=True):
        if not fits or (found.after[mine] >= 0).sum() < enough[mine[0]]:
            most_s[mine], enough[mine] = -1.0, np.inf
            second(mine)
    found = _matched(sent_s, answered_s, most_s)
    for mine in stretches:
        if (found.after[mine] >= 0).sum() < enough[mine[0]]:
            found.after[mine], found.think_s[mine] = -1, 0.0
    return found


def _moments(sent_s: Floats, answered_s: Floats) -> tuple[Floats, Floats, Ints]:
    """(n,): since the answer before each, from there to the next one (inf = none), and how many are under way."""
    answers_s = np.sort(answered_s[np.isfinite(answered_s)])
    before = np.searchsorted(answers_s, sent_s, side="right") - 1
    since_s = np.where(before >= 0, sent_s - answers_s[np.maximum(before, 0)], np.inf)
    gap_s = np.diff(answers_s, append=np.inf)[np.maximum(before, 0)]
    rank = np.argsort(np.argsort(sent_s, kind="stable"))
    return since_s, gap_s, np.maximum(rank - before, 0)


def _soon(since_s: Floats, gap_s: Floats) -> npt.NDArray[np.bool_]:
    """Those that come soon after an answer; none where that may be chance."""
    between = np.isfinite(since_s) & np.isfinite(gap_s)
    soon = between & (since_s <= SOON * np.where(between, gap_s, 0.0))
    if soon.sum() < MOST * between.sum() or between.sum() < FEWEST_SOON - 2:
        soon[:] = False
    return soon


def _even(level: Ints) -> int:
    """The number under way when nearly all have come, or one less; 0 = no such. What few find does not count."""
    count = np.bincount(level)
    top = int(np.flatnonzero(count >= SELDOM * len(level))[-1:].sum())
    return top if count[max(top - 1, 0) : top + 1].sum() >= EVEN * len(level) else 0


def _matched(sent_s: Floats, answered_s: Floats, most_s: Floats) -> Following:
    """Each with the latest answer before it that none follows yet, ``most_s`` before at most."""
    after, think_s = np.full(len(sent_s), -1), np.zeros(len(sent_s))
    events = [(float(t), True, n) for n, t in enumerate(sent_s) if most_s[n] >= 0.0]
    events += [(float(t), False, n) for n, t in enumerate(answered_s) if t > sent_s[n]]
    free: list[int] = []
    for at_s, arrives, n in sorted(events):
        if not arrives:
            free.append(n)
        elif free and at_s - answered_s[free[-1]] <= most_s[n]:
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
