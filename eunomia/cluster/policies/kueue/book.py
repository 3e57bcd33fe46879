"""Who uses how much of which quota, what a queue may still take, and its share of what is borrowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.kueue.model import ClusterQueue, QueueSetup
from eunomia.core.arrays import Ints


@dataclass(frozen=True, slots=True)
class Workload:
    """A gang of one queue, pending or admitted."""

    row: int  # of the view
    queue: int
    count: int
    priority: float
    arrival_s: float
    flavor: int = -1  # -1 = pending
    admitted_s: float = -np.inf


class Book:
    """Usage (Q, F) of queues on flavors, and devices that are free.

    A queue may take what is left of its guaranteed part, plus what the cohort's lendable parts have left; together at
    most its nominal quota and its borrowing limit.
    """

    def __init__(self, setup: QueueSetup, flavors: tuple[str, ...], capacity: Ints) -> None:
        self.queues: tuple[ClusterQueue, ...] = setup.queues
        shape = (len(self.queues), len(flavors))
        self.nominal, self.guaranteed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.limit = np.full(shape, np.iinfo(np.int64).max // 4)
        self.offered = np.zeros(shape, np.bool_)  # a queue uses only flavors that it lists
        for q, queue in enumerate(self.queues):
            for f, name in enumerate(flavors):
                if name not in queue.quotas:
                    continue
                quota = queue.quotas[name]
                self.offered[q, f] = True
                self.nominal[q, f], self.guaranteed[q, f] = quota.nominal, quota.guaranteed
                if not queue.cohort:
                    self.limit[q, f] = quota.nominal
                elif quota.borrowing_limit is not None:
                    self.limit[q, f] = quota.nominal + quota.borrowing_limit
        cohorts = list(dict.fromkeys(queue.cohort for queue in self.queues))
        self.cohort = np.array([cohorts.index(queue.cohort) for queue in self.queues], np.int64)
        self.alone = np.array([not queue.cohort for queue in self.queues])
        self.pool = np.zeros((len(cohorts), len(flavors)), np.int64)
        np.add.at(self.pool, self.cohort, self.nominal - self.guaranteed)
        for c, name in enumerate(cohorts):
            for f, flavor in enumerate(flavors):
                self.pool[c, f] += setup.cohort_quotas.get(name, {}).get(flavor, 0)
        self.used = np.zeros(shape, np.int64)
        self.taken = np.zeros_like(self.pool)  # of the pools
        self.free = capacity.astype(np.int64).copy()
        self.capacity = capacity

    def change(self, queue: int, flavor: int, count: int) -> None:
        """The queue takes ``count`` devices more; negative: gives back."""
        before = max(self.used[queue, flavor] - self.guaranteed[queue, flavor], 0)
        self.used[queue, flavor] += count
        after = max(self.used[queue, flavor] - self.guaranteed[queue, flavor], 0)
        self.taken[self.cohort[queue], flavor] += after - before
        self.free[flavor] -= count

    @contextmanager
    def with_change(self, queue: int, flavor: int, count: int) -> Iterator[None]:
        """For a moment."""
        self.change(queue, flavor, count)
        yield
        self.change(queue, flavor, -count)

    def available(self, queue: int, flavor: int) -> int:
        """Devices that the queue may take now by its quotas; 0 for a flavor that it does not list."""
        if not self.offered[queue, flavor]:
            return 0
        used = int(self.used[queue, flavor])
        within = int(self.limit[queue, flavor]) - used
        if self.alone[queue]:
            return max(within, 0)
        own = max(int(self.guaranteed[queue, flavor]) - used, 0)
        shared = int(self.pool[self.cohort[queue], flavor] - self.taken[self.cohort[queue], flavor])
        return max(min(own + max(shared, 0), within), 0)

    def fits(self, queue: int, flavor: int, count: int, borrowing: bool = True) -> bool:
        """Whether the queue may take so many, and they exist; ``borrowing``: above its nominal quota as well."""
        if count > self.available(queue, flavor) or count > self.free[flavor]:
            return False
        return borrowing or self.used[queue, flavor] + count <= self.nominal[queue, flavor]

    def could_ever(self, queue: int, flavor: int, count: int) -> bool:
        """Whether it would fit with nobody else there."""
        if not self.offered[queue, flavor] or count > self.capacity[flavor]:
            return False
        if self.alone[queue]:
            return bool(count <= self.nominal[queue, flavor])
        most = int(self.guaranteed[queue, flavor] + self.pool[self.cohort[queue], flavor])
        return count <= min(most, int(self.limit[queue, flavor]))

    def borrows(self, queue: int, flavor: int) -> bool:
        """Whether the queue uses more than its nominal quota."""
        return bool(self.used[queue, flavor] > self.nominal[queue, flavor])

    def share(self, queue: int) -> float:
        """Borrowed devices of all flavors over what the cohort lends, over the weight; 0 = borrows nothing."""
        borrowed = float(np.maximum(self.used[queue] - self.nominal[queue], 0).sum())
        lent = float(self.pool[self.cohort[queue]].sum())
        if self.alone[queue] or borrowed == 0.0:
            return 0.0
        weight = self.queues[queue].weight
        return borrowed / lent / weight if weight > 0.0 and lent > 0.0 else np.inf
