"""Whose turn it is among tenants, and among callers who have not shown a key.

Tenants go in turn, one piece of work each. All strangers together are one tenant in that circle, and their addresses go
in turn within it: with a thousand addresses somebody without a key gets the share of one tenant. So are newcomers at
addresses of a tenant's, who have not shown its key yet: a tenant that makes a connection for each request waits for no
stranger, and strangers at its address do not wait as the tenant.

A connection with keys of several tenants, as a proxy's, goes in the turn of one of them: whose turn comes first for it.
There such connections have a queue beside the tenant's own. So tenants that mix their keys have no more turns than each
had alone. A proxy does not wait behind all that one of its tenants sends elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
STRANGERS = "()"  # no tenant has such a name
TOGETHER = "+"  # between the names of tenants that share a connection; in none of them


def stranger_at(address: str) -> str:
    """What stands for the tenant of a caller without a key."""
    return f"({address})"


def newcomer_at(address: str, tenant: str) -> str:
    """The same, at an address of this tenant's; of nobody's where it is empty."""
    return f"{tenant}({address})"


def group_of(who: str, has: Callable[[str], int] = lambda group: 0) -> str:
    """The tenant, its newcomers, or all strangers; of several tenants the first that ``has`` least."""
    if TOGETHER in who:
        return min(who.split(TOGETHER), key=has)
    whose, newcomer, _ = who.partition("(")
    return f"{whose}()" if newcomer else who


class Circle(Generic[T]):
    """Who waits, first come first served for each; ``total``: how many."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, dict[str, deque[T]]] = {}

    def join(self, who: str, one: T) -> None:
        """At the end of the queue of ``who``, or of all those that share a connection in that group."""
        group = group_of(who, self._turns_until_together)
        queue = TOGETHER if TOGETHER in who else who
        self._of.setdefault(group, {}).setdefault(queue, deque()).append(one)
        self.total += 1

    def _turns_until_together(self, group: str) -> int:
        """Turns of the group before one that joins those who share connections."""
        queues = self._of.get(group, {})
        return len(queues) * (1 + len(queues.get(TOGETHER, ())))

    @property
    def groups(self) -> Sequence[str]:
        """Tenants that wait, whose turn is next first."""
        return list(self._of)

    def __contains__(self, group: str) -> bool:
        return group in self._of

    def take(self, group: str = "") -> T:
        """The next one, of this tenant or of whose turn it is, who goes to the end of the circle."""
        group = group or next(iter(self._of))
        queues = self._of.pop(group)
        who = next(iter(queues))
        queue = queues.pop(who)
        one = queue.popleft()
        self.total -= 1
        if queue:
            queues[who] = queue
        if queues:
            self._of[group] = queues
        return one
