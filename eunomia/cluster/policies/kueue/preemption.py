"""Whom a pending workload may preempt: Kueue's classic algorithm, and fair sharing."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.cluster.policies.kueue.book import Book, Workload
from eunomia.cluster.policies.kueue.model import FairStrategy


def classic(book: Book, one: Workload, flavor: int, admitted: Sequence[Workload]) -> list[Workload]:
    """The workloads to evict so that ``one`` fits on this flavor; empty = none would do.

    Greedily through the candidates, four ways in turn: all of the own queue, allowing to borrow; with
    ``borrow_within``, allowing to borrow; below the nominal quota, without borrowing; the own queue alone, allowing to
    borrow. Then those that need not go are taken off again, the last first.
    """
    queue = book.queues[one.queue]
    borrow_within = queue.borrow_within != "Never"
    if one.count > book.nominal[one.queue, flavor] and not borrow_within:
        return []
    candidates = _candidates(book, one, flavor, admitted)
    own = [each for each in candidates if each.queue == one.queue]
    if len(own) == len(candidates):
        return _greedy(book, one, flavor, own, borrowing=True)
    found: list[Workload] = []
    if borrow_within:
        weak = [each for each in candidates if each.queue == one.queue or _below(book, one, each)]
        found = _greedy(book, one, flavor, weak, borrowing=True)
    if not found and book.used[one.queue, flavor] < book.nominal[one.queue, flavor]:
        found = _greedy(book, one, flavor, candidates, borrowing=False)
    return found or _greedy(book, one, flavor, own, borrowing=True)


def fair(
    book: Book,
    one: Workload,
    flavor: int,
    admitted: Sequence[Workload],
    strategies: Sequence[FairStrategy],
) -> list[Workload]:
    """The same under fair sharing: from the queue with the largest share, while the strategy holds.

    A workload that fits into its queue's nominal quota may evict from any queue that borrows. Otherwise
    ``LessThanOrEqualToFinalShare`` wants the own share with the workload to be at most the other's without its victim;
    ``LessThanInitialShare`` wants it below the other's with it.
    """
    candidates = _candidates(book, one, flavor, admitted)
    targets: list[Workload] = []
    for strategy in strategies:
        open_yet = [each for each in candidates if each not in targets]
        while open_yet and not book.fits(one.queue, flavor, one.count):
            worst = max((each.queue for each in open_yet), key=lambda q: (book.share(q), -q))
            victim = next(each for each in open_yet if each.queue == worst)
            open_yet.remove(victim)
            if victim.queue == one.queue or (
                book.borrows(worst, flavor) and _allowed(book, one, flavor, victim, strategy)
            ):
                book.change(victim.queue, flavor, -victim.count)
                targets.append(victim)
    return _needed(book, one, flavor, targets, borrowing=True)


def _allowed(book: Book, one: Workload, flavor: int, victim: Workload, strategy: FairStrategy) -> bool:
    if book.used[one.queue, flavor] + one.count <= book.nominal[one.queue, flavor]:
        return True
    with book.with_change(one.queue, flavor, one.count):
        mine = book.share(one.queue)
    if strategy == "LessThanInitialShare":
        return mine < book.share(victim.queue)
    with book.with_change(victim.queue, flavor, -victim.count):
        return mine <= book.share(victim.queue)


def _candidates(book: Book, one: Workload, flavor: int, admitted: Sequence[Workload]) -> list[Workload]:
    """Who may go at all: borrowers of the cohort first, then low priorities, then the newest admitted."""
    queue = book.queues[one.queue]
    found = []
    for each in admitted:
        if each.flavor != flavor:
            continue
        if each.queue == one.queue:
            lower = each.priority < one.priority
            newer = each.priority == one.priority and each.arrival_s > one.arrival_s
            allowed = queue.within != "Never" and (
                lower or (newer and queue.within == "LowerOrNewerEqualPriority")
            )
        else:
            allowed = (
                not book.alone[one.queue]
                and book.cohort[each.queue] == book.cohort[one.queue]
                and book.borrows(each.queue, flavor)
                and queue.reclaim != "Never"
                and (queue.reclaim == "Any" or each.priority < one.priority)
            )
        if allowed:
            found.append(each)
    return sorted(
        found, key=lambda each: (each.queue == one.queue, each.priority, -each.admitted_s, -each.row)
    )


def _below(book: Book, one: Workload, other: Workload) -> bool:
    """Whether a workload of another queue may be evicted although the own queue borrows."""
    most = book.queues[one.queue].max_priority_threshold
    return other.priority < one.priority and (most is None or other.priority <= most)


def _greedy(
    book: Book, one: Workload, flavor: int, candidates: Sequence[Workload], borrowing: bool
) -> list[Workload]:
    """Evict in order until it fits; workloads of queues that no longer borrow stay. The book is left as it was."""
    targets = []
    for each in candidates:
        if book.fits(one.queue, flavor, one.count, borrowing):
            break
        if each.queue != one.queue and not book.borrows(each.queue, flavor):
            continue
        book.change(each.queue, flavor, -each.count)
        targets.append(each)
    return _needed(book, one, flavor, targets, borrowing)


def _needed(
    book: Book, one: Workload, flavor: int, targets: list[Workload], borrowing: bool
) -> list[Workload]:
    """Targets without those that can stay, the last first; none if it does not fit. The book is restored."""
    fits = book.fits(one.queue, flavor, one.count, borrowing)
    kept = list(targets)
    for each in reversed(targets):
        book.change(each.queue, flavor, each.count)
        if fits and book.fits(one.queue, flavor, one.count, borrowing):
            kept.remove(each)
        elif fits:
            book.change(each.queue, flavor, -each.count)
    if fits:
        for each in kept:
            book.change(each.queue, flavor, each.count)
    return kept if fits else []
