"""The round mechanism: time shares in, an order of service out.

A unit is a job, or a pair of jobs that run on the same devices. Two ways to order units on a type:

* ``ratio``, as Gavel's code (OSDI 2020): share X over f, the part of the type's time that the unit had since the last
  reset. Each unit starts with half a round of credit, so f > 0. Deficits (X * elapsed - received, per reset
  interval) and X
  break ties. All is forgotten when shares are computed anew, so it needs a gap between allocations.
* ``credit``: what X has promised up to the end of the coming round minus what was received, in rounds. Nothing is
  forgotten, so shares may change every round. A unit that stands somewhere has ``stickiness`` rounds more there, so
  turns last longer and fewer jobs move; time taken while nobody else wanted it is owed back for at
  most 1 + stickiness rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.contract.allocation import Allocation
from eunomia.core.arrays import Floats, Ints

FRESH = 1e9  # Gavel's priority per share of a unit that had nothing yet


@dataclass(frozen=True, slots=True)
class Units:
    """Rows of one round: the active jobs first, then the pairs."""

    first: Ints  # (U,) key of the job
    second: Ints  # (U,) key of the other job; -1 = alone
    share: Floats  # (U, J)
    priority: Floats  # (U, J)
    deficit: Floats  # (U, J) s


class RoundQueue:
    """Shares, time received and deficits of every job; arrays by key (N, J), pairs in rows of their own."""

    def __init__(
        self,
        jobs: int,
        types: int,
        round_s: float,
        priority: Literal["credit", "ratio"],
        stickiness: float = 0.0,
    ) -> None:
        shape = (jobs, types)
        self.round_s, self.by_ratio = round_s, priority == "ratio"
        self.share, self.has_share = np.zeros(shape), np.zeros(jobs, np.bool_)
        self.spent = np.full(shape, round_s / 2.0)  # since the last reset, with half a round of credit
        self.deficit = np.zeros(shape)
        self.worker_s = np.zeros(types)
        self.stickiness, self.most_owed_s = stickiness, -(1.0 + stickiness) * round_s
        self.reset_s = 0.0
        self.served_s = 0.0  # up to when credit has been promised
        self.pair_first = self.pair_second = np.zeros(0, np.int64)
        self.pair_share = self.pair_spent = self.pair_deficit = np.zeros((0, types))
        self.pair_speed = np.zeros((0, types, 2))
        self._pair_memory: dict[tuple[int, int], Floats] = {}

    def reset(self, active: Ints, now_s: float) -> None:
        """Begin a new interval: book deficits, forget time received."""
        if not self.by_ratio:
            return
        elapsed = now_s - self.reset_s
        credit = self.round_s / 2.0
        self.deficit[active] += self.share[active] * elapsed - (self.spent[active] - credit)
        self.pair_deficit = self.pair_deficit + self.pair_share * elapsed - (self.pair_spent - credit)
        self.spent[active] = credit
        self.pair_spent = np.full_like(self.pair_spent, credit)
        self.worker_s[:] = credit * (len(active) + len(self.pair_first))
        self.reset_s = now_s

    def set_shares(self, active: Ints, allocation: Allocation) -> None:
        """Take a new answer; row m of it is ``active[m]``."""
        assert allocation.shares is not None
        self.share[active] = allocation.shares
        self.has_share[active] = True
        for key, kept in zip(
            zip(self.pair_first.tolist(), self.pair_second.tolist(), strict=True),
            self.pair_deficit,
            strict=True,
        ):
            self._pair_memory[key] = kept
        pairs, types = allocation.pairs, self.share.shape[1]
        used = np.flatnonzero(pairs.shares.any(axis=1)) if pairs is not None else np.zeros(0, np.int64)
        if pairs is None or not len(used):
            self.pair_first = self.pair_second = np.zeros(0, np.int64)
            self.pair_share = self.pair_spent = self.pair_deficit = np.zeros((0, types))
            self.pair_speed = np.zeros((0, types, 2))
            return
        self.pair_first, self.pair_second = active[pairs.first[used]], active[pairs.second[used]]
        self.pair_share, self.pair_speed = pairs.shares[used], pairs.speed[used]
        self.pair_spent = np.full(self.pair_share.shape, self.round_s / 2.0)
        self.pair_deficit = np.stack(
            [
                self._pair_memory.get((a, b), np.zeros(types))
                for a, b in zip(self.pair_first.tolist(), self.pair_second.tolist(), strict=True)
            ]
        )

    def leave(self, keys: Ints) -> None:
        """Jobs that ended take their pairs with them."""
        if len(self.pair_first):
            kept = ~(np.isin(self.pair_first, keys) | np.isin(self.pair_second, keys))
            for name in ("first", "second", "share", "spent", "deficit", "speed"):
                setattr(self, f"pair_{name}", getattr(self, f"pair_{name}")[kept])
        self._pair_memory.clear()

    def promise(self, active: Ints, now_s: float) -> None:
        """Credit: add X times the time since the last promise."""
        if self.by_ratio:
            return
        elapsed = now_s - self.served_s
        self.served_s = now_s
        self.deficit[active] += self.share[active] * elapsed
        self.pair_deficit = self.pair_deficit + self.pair_share * elapsed
        self.deficit[active] = np.maximum(self.deficit[active], self.most_owed_s)
        self.pair_deficit = np.maximum(self.pair_deficit, self.most_owed_s)

    def receive(self, first: Ints, second: Ints, kind: Ints, seconds: Floats) -> None:
        """Book time that units (jobs, or pairs with ``second`` >= 0) had on their types."""
        alone = second < 0
        keys, own = first[alone], seconds[alone]
        if self.by_ratio:
            np.add.at(self.worker_s, kind, seconds)
            self.spent[keys, kind[alone]] += own
        else:
            self.deficit[keys, kind[alone]] -= own
        for u in np.flatnonzero(~alone).tolist():
            row = (self.pair_first == first[u]) & (self.pair_second == second[u])
            if self.by_ratio:
                self.pair_spent[row, kind[u]] += seconds[u]
            else:
                self.pair_deficit[row, kind[u]] -= seconds[u]

    def units(self, active: Ints, throughput: Floats) -> Units:
        """The units of this round with their priorities; ``throughput`` (M, J): 0 = cannot run there."""
        share = np.concatenate([self.share[active], self.pair_share])
        deficit = np.concatenate([self.deficit[active], self.pair_deficit])
        runs = np.concatenate([throughput > 0.0, (self.pair_speed > 0.0).all(axis=2)])
        if self.by_ratio:
            spent = np.concatenate([self.spent[active], self.pair_spent])
            with np.errstate(divide="ignore", invalid="ignore"):
                fraction = np.where(self.worker_s > 0.0, spent / self.worker_s, 0.0)
                priority = np.where(fraction > 0.0, share / fraction, share * FRESH)
        else:
            priority = (deficit + share * self.round_s) / self.round_s
        priority = np.where(runs, priority, -np.inf)
        first = np.concatenate([active, self.pair_first])
        second = np.concatenate([np.full(len(active), -1, np.int64), self.pair_second])
        return Units(first, second, share, priority, deficit)


def queue_order(units: Units, types: list[int], one_queue: bool) -> tuple[Ints, Ints]:
    """Entries (unit, type) by priority, deficit and share, descending; ties in order of arrival.

    Type by type in the order of ``types``, or in ``one_queue`` over all.
    """
    columns = np.array(types, np.int64)
    count = len(units.first)
    unit = np.tile(np.arange(count), len(columns))
    kind = np.repeat(columns, count)
    keys = [-values[unit, kind] for values in (units.share, units.deficit, units.priority)]
    if not one_queue:
        keys.append(np.repeat(np.arange(len(columns)), count).astype(np.float64))
    order = np.lexsort(keys)
    order = order[units.priority[unit[order], kind[order]] > -np.inf]
    return unit[order], kind[order]
