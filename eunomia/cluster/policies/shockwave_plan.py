"""A window of rounds divided among jobs: most weighted log progress, less a price for the longest job left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints


@dataclass(frozen=True)
class Market:
    """What the plan divides: ``rounds`` of ``devices``, among M jobs."""

    rounds: int
    devices: int
    scale: Ints  # (M,) devices of a job's gang
    done: Floats  # (M,) rounds' worth of work finished
    need: Ints  # (M,) rounds that the rest will take, at least 1
    budget: Floats  # (M,) weight of a job's utility
    makespan_price: float  # utility that one round more of the longest job costs

    @property
    def most(self) -> Ints:
        """(M,) rounds that a job can use in this window."""
        fits = self.scale <= self.devices
        return np.where(fits, np.minimum(self.need, self.rounds), 0)

    def utility(self, given: Ints) -> float:
        """sum_m b_m ln(done + given + 1), less the price of max_m (need - given).

        The 1 is the round after the window: without it a job that never ran would be worth infinitely much.
        """
        nash = float((self.budget * np.log(self.done + given + 1.0)).sum())
        return nash - self.makespan_price * float((self.need - given).max(initial=0))

    def gain(self, ran: Floats) -> Floats:
        """(M,) or (M, K) what one round more is worth to jobs that ran so many: b_m ln(1 + 1 / (ran + 1))."""
        return np.asarray(self.budget.reshape(-1, *[1] * (ran.ndim - 1)) * np.log1p(1.0 / (ran + 1.0)))

    def used(self, given: Ints) -> int:
        """Device-rounds."""
        return int((self.scale * given).sum())


def divide(market: Market) -> Ints:
    """Rounds for each job (M,), at most ``rounds * devices`` device-rounds in all.

    For every number of rounds that the longest job may be left with, jobs first get what that asks of them; the rest
    goes round by round to the largest gain b_m ln(1 + 1 / (done + given + 1)) per device. Gains of a job only fall, so
    for gangs of one size this is optimal; with unequal gangs, some of the last device-rounds may be left over.
    """
    best = _filled(market, np.zeros(len(market.scale), np.int64))
    if not market.makespan_price > 0.0:
        return best
    worth, longest = market.utility(best), int(market.need.max(initial=0))
    for saved in range(1, market.rounds + 1):
        asked = np.maximum(market.need - (longest - saved), 0)
        if (asked > market.most).any() or market.used(asked) > market.rounds * market.devices:
            break
        found = _filled(market, asked)
        if market.utility(found) > worth:
            best, worth = found, market.utility(found)
    return best


def _filled(market: Market, asked: Ints) -> Ints:
    """``asked``, and the rest by gain per device; ties go to the earlier job."""
    rounds = np.arange(market.rounds)[None, :]
    gain = market.gain(market.done[:, None] + rounds)
    open_ = (rounds >= asked[:, None]) & (rounds < market.most[:, None])
    job, number = np.nonzero(open_)
    order = np.lexsort((job, number, -(gain / market.scale[:, None])[job, number]))
    given, free = asked.copy(), market.rounds * market.devices - market.used(asked)
    for m in job[order].tolist():
        if market.scale[m] <= free:
            given[m] += 1
            free -= market.scale[m]
    return given
