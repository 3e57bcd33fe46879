"""Kueue's admission: the heads of all ClusterQueues, cycle by cycle, by quota, borrowing and preemption."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.cluster.policies.kueue.book import Book, Workload
from eunomia.cluster.policies.kueue.model import (
    BorrowWithin,
    ClusterQueue,
    QueueSetup,
    Quota,
    Reclaim,
    Strategy,
    Within,
)
from eunomia.cluster.policies.kueue.preemption import classic, fair
from eunomia.cluster.policies.serving_order import Memory, serve
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError, UnknownNameError

COHORT = "all"


@dataclass
class Kueue:
    """Workloads of tenants, whose queues bear their names, admitted as Kueue does it; device types are flavors.

    A queue's pending workloads are ordered by the trait ``priority``, then by arrival. In each cycle every queue's head
    looks for the first flavor where it fits, or where it may preempt. Heads that borrow come last, then low priorities,
    then the young; with ``fair_sharing`` the lowest share comes first. A head that finds nothing blocks its queue
    (``StrictFIFO``) or is passed over (``BestEffortFIFO``). Gangs are admitted whole.

    ``setup`` holds ClusterQueues; without it all tenants form one cohort, with nominal quotas in proportion to their
    weights, and ``strategy``, ``within``, ``reclaim``, ``borrow_within`` and ``fair_sharing`` hold for all.

    Does badly for wide gangs under ``BestEffortFIFO``: smaller ones take every device that becomes free. Without
    ``reclaim`` who borrowed first keeps it, however long.
    """

    strategy: Strategy = "BestEffortFIFO"
    within: Within = "LowerPriority"
    reclaim: Reclaim = "Any"
    borrow_within: BorrowWithin = "Never"
    fair_sharing: bool = False
    setup: QueueSetup | None = None
    needs: Needs = Needs(
        answer="devices", sticky=True, every_event=True
    )  # evicts at events, never in between

    def __post_init__(self) -> None:
        if self.setup is not None and not isinstance(self.setup, QueueSetup):
            raise ConfigError(f"kueue: setup is {self.setup!r}; give queues=FILE, or a QueueSetup")
        ClusterQueue("", {}, COHORT, self.strategy, self.within, self.reclaim, self.borrow_within)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget since when workloads are admitted."""
        self._admitted = Memory()

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices: who stays admitted, who is admitted now; the evicted have none."""
        setup = self.setup or self._even(view)
        devices = serve(view, np.flatnonzero(view.held.any(axis=1)))  # after a failure fewer may fit
        cycle = _Admission(view, setup, devices, self._since(view, devices))
        cycle.run()
        self._since(view, devices)
        return Allocation(devices=devices)

    def _since(self, view: ClusterView, devices: Ints) -> np.ndarray:
        """When each workload was admitted, (M,); nan = pending."""
        since, runs = self._admitted.of(view.key), devices.any(axis=1)
        since = np.where(runs, np.where(np.isnan(since), view.now_s, since), np.nan)
        self._admitted.put(view.key, since)
        return since

    def _even(self, view: ClusterView) -> QueueSetup:
        """One cohort with every device as nominal quota of some tenant, by weight."""
        weight = view.tenant_weight / view.tenant_weight.sum()
        quotas = np.zeros((len(weight), len(view.cluster.names)), np.int64)
        for f, count in enumerate(view.cluster.counts.tolist()):
            exact = count * weight
            quotas[:, f] = np.floor(exact + 1e-9)
            rest = np.argsort(quotas[:, f] - exact, kind="stable")[: count - int(quotas[:, f].sum())]
            quotas[rest, f] += 1
        queues = tuple(
            ClusterQueue(
                name,
                {kind: Quota(int(quotas[q, f])) for f, kind in enumerate(view.cluster.names)},
                COHORT,
                self.strategy,
                self.within,
                self.reclaim,
                self.borrow_within,
                weight=float(view.tenant_weight[q]),
            )
            for q, name in enumerate(view.tenants)
        )
        return QueueSetup(queues, fair_sharing=self.fair_sharing)


class _Admission:
    """The cycles of one moment. ``devices`` (M, J) is changed."""

    def __init__(self, view: ClusterView, setup: QueueSetup, devices: Ints, since: np.ndarray) -> None:
        self.view, self.setup, self.devices = view, setup, devices
        self.book = Book(setup, view.cluster.names, view.capacity)
        queue = _queues(view, setup)
        priority = np.nan_to_num(view.traits.get("priority", np.zeros(len(view))))
        self.admitted: dict[int, Workload] = {}
        self.pending: list[list[Workload]] = [[] for _ in setup.queues]
        for m in np.lexsort((view.key, view.arrival_s, -priority)).tolist():
            one = Workload(m, int(queue[m]), int(view.scale[m]), float(priority[m]), float(view.arrival_s[m]))
            if devices[m].any():
                self._take(one, int(devices[m].argmax()), float(since[m]))
            else:
                self.pending[one.queue].append(one)
        self.passed: set[tuple[object, ...]] = set()  # shapes that found nothing since the last eviction
        self.blocked: set[int] = set()
        self.evicted: set[int] = set()  # rows; they are admitted again only where they fit

    def run(self) -> None:
        """Cycles until no head finds anything."""
        while heads := self._heads():
            offers = [(one, *self._offer(one)) for one in heads]
            admitted = 0
            for one, flavor, targets in sorted(offers, key=lambda offer: self._rank(offer[0], offer[1])):
                if flavor >= 0 and not targets and not self.book.fits(one.queue, flavor, one.count):
                    continue  # another head was quicker: again in the next cycle
                if targets:
                    flavor, targets = self._offer(one)
                if flavor < 0:
                    self._pass(one)
                    continue
                for victim in targets:
                    self._evict(victim)
                self.pending[one.queue].remove(one)
                self._take(one, flavor, self.view.now_s)
                self.devices[one.row, flavor] = one.count
                admitted += 1
            if not admitted and all(flavor >= 0 for _, flavor, _ in offers):
                return

    def _heads(self) -> list[Workload]:
        """The first workload of each queue that may still be tried."""
        found = []
        for q, line in enumerate(self.pending):
            if q not in self.blocked:
                found += [one for one in line if self._shape(one) not in self.passed][:1]
        return found

    def _offer(self, one: Workload) -> tuple[int, list[Workload]]:
        """The flavor that it may have, -1 = none, and whom it must evict there."""
        queue = self.setup.queues[one.queue]
        best: tuple[int, list[Workload]] = (-1, [])
        rank = 3
        for flavor in self._flavors(one):
            if self.book.fits(one.queue, flavor, one.count):
                if queue.when_can_borrow == "Borrow" or self.book.fits(one.queue, flavor, one.count, False):
                    return flavor, []
                if rank > 1:
                    best, rank = (flavor, []), 1
                continue
            if one.row in self.evicted:
                continue
            targets = self._targets(one, flavor)
            if targets and queue.when_can_preempt == "Preempt":
                return flavor, targets
            if targets and rank > 2:
                best, rank = (flavor, targets), 2
        return best

    def _flavors(self, one: Workload) -> list[int]:
        """Flavors in the queue's order on which the gang could run at all."""
        names = self.view.cluster.names
        listed = [names.index(name) for name in self.setup.queues[one.queue].quotas if name in names]
        runs = self.view.usable[one.row]
        return [f for f in listed if runs[f] and self.book.could_ever(one.queue, f, one.count)]

    def _targets(self, one: Workload, flavor: int) -> list[Workload]:
        admitted = list(self.admitted.values())
        if self.setup.fair_sharing:
            return fair(self.book, one, flavor, admitted, self.setup.strategies)
        return classic(self.book, one, flavor, admitted)

    def _rank(self, one: Workload, flavor: int) -> tuple[float, ...]:
        """Order of the heads within a cycle."""
        if flavor < 0:
            return (np.inf,)
        used = self.book.used[one.queue, flavor] + one.count
        if self.setup.fair_sharing:
            with self.book.with_change(one.queue, flavor, one.count):
                return (self.book.share(one.queue), -one.priority, one.arrival_s, one.row)
        borrows = float(used > self.book.nominal[one.queue, flavor])
        return (borrows, -one.priority, one.arrival_s, one.row)

    def _shape(self, one: Workload) -> tuple[object, ...]:
        """Workloads of equal shape find the same; a later one of equal priority finds no more to evict."""
        return one.queue, one.count, one.priority, one.row in self.evicted, self.view.row[one.row]

    def _pass(self, one: Workload) -> None:
        if self.setup.queues[one.queue].strategy == "StrictFIFO":
            self.blocked.add(one.queue)
        self.passed.add(self._shape(one))

    def _take(self, one: Workload, flavor: int, since_s: float) -> None:
        held = Workload(one.row, one.queue, one.count, one.priority, one.arrival_s, flavor, since_s)
        self.admitted[one.row] = held
        self.book.change(one.queue, flavor, one.count)

    def _evict(self, victim: Workload) -> None:
        """Back into its queue, at its old place."""
        del self.admitted[victim.row]
        self.book.change(victim.queue, victim.flavor, -victim.count)
        self.devices[victim.row] = 0
        self.evicted.add(victim.row)
        self.passed.clear()
        self.blocked.clear()
        line = self.pending[victim.queue]
        line.append(Workload(victim.row, victim.queue, victim.count, victim.priority, victim.arrival_s))
        line.sort(key=lambda one: (-one.priority, one.arrival_s, one.row))


def _queues(view: ClusterView, setup: QueueSetup) -> Ints:
    """Queue (M,) of every job: the one that bears its tenant's name. Raises ConfigError, UnknownNameError."""
    names = [queue.name for queue in setup.queues]
    for queue in setup.queues:
        for flavor in queue.quotas:
            if flavor not in view.cluster.names:
                raise UnknownNameError(
                    "flavor", flavor, view.cluster.names, f" of ClusterQueue '{queue.name}'"
                )
    place = {name: number for number, name in enumerate(names)}
    for name in view.tenants:
        if name not in place:
            raise ConfigError(f"tenant '{name}' has no ClusterQueue; queues: {', '.join(names)}")
    return np.array([place[name] for name in view.tenants], np.int64)[view.tenant]
