"""Whose turn it is among tenants, and among callers who have not shown a key.

Tenants go in turn, one piece of work each. All strangers together are one tenant in that circle, and their addresses go
in turn within it: with a thousand addresses somebody without a key gets the share of one tenant. So are newcomers at
addresses of a tenant's, who have not shown its key yet: a tenant that makes a connection for each request waits for no
stranger, and strangers at its address do not wait as the tenant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
STRANGERS = "()"  # no tenant has such a name


def stranger_at(address: str) -> str:
    """What stands for the tenant of a caller without a key."""
    return f"({address})"


def newcomer_at(address: str, tenant: str) -> str:
    """The same, at an address of this tenant's; of nobody's where it is empty."""
    return f"{tenant}({address})"


def group_of(who: str) -> str:
    """The tenant, its newcomers, or all strangers."""
    whose, newcomer, _ = who.partition("(")
    return f"{whose}()" if newcomer else who


class Circle(Generic[T]):
    """Who waits, first come first served for each; ``total``: how many."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, dict[str, deque[T]]] = {}

    def join(self, who: str, one: T) -> None:
        """At the end of the queue of ``who``."""
        self._of.setdefault(group_of(who), {}).setdefault(who, deque()).append(one)
        self.total += 1

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
