"""Connections by whose they are: each tenant's are a party, and those that have shown no key are one together.

So a thousand addresses without a key hold no more than one tenant may, and what they do ends none of a tenant's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from eunomia.serving.fronts.crowds import Crowd, Crowds
from eunomia.serving.tenants.circle import STRANGERS
from eunomia.serving.tenants.sizes import Sizes

T = TypeVar("T")


class Parties(Generic[T]):
    """Within each, connections by address."""

    def __init__(self) -> None:
        self._of: dict[str, Crowds[T]] = {}
        self._sizes = Sizes()

    def size(self, party: str) -> int:
        """How many are its."""
        return self._of[party].total if party in self._of else 0

    def join(self, party: str, address: str, one: T) -> None:
        """It waits."""
        crowds = self._of.setdefault(party, Crowds())
        crowds.join(address, one)
        self._sizes.change(party, crowds.total - 1, crowds.total)

    def leave(self, party: str, address: str, one: T) -> None:
        """It is not here any more."""
        crowds = self._of[party]
        before = crowds.total
        crowds.leave(address, one)
        self._sizes.change(party, before, crowds.total)
        if not crowds.total:
            del self._of[party]

    def ask(self, party: str, address: str, one: T) -> None:
        """It has asked for something."""
        self._of[party].ask(address, one)

    def rest(self, party: str, address: str, one: T) -> None:
        """It has its answer, and waits again."""
        self._of[party].rest(address, one)

    def largest_first(self) -> Iterator[Crowd[T]]:
        """The most crowded address of the largest party first; of equal ones that without a key."""
        for party in self._sizes.largest_first(STRANGERS):
            yield from self._of[party].largest_first()
