"""Connections by the address that they come from; the most crowded address is known at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eunomia.serving.tenants.sizes import Sizes

T = TypeVar("T")


@dataclass(slots=True)
class Crowd(Generic[T]):
    """Of one address, those that came or rest longest first, and those that have asked longest first."""

    waiting: OrderedDict[T, None] = field(default_factory=OrderedDict)
    asking: OrderedDict[T, None] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.asking)

    def __contains__(self, one: object) -> bool:
        return one in self.waiting or one in self.asking


class Crowds(Generic[T]):
    """``total``: of all addresses."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, Crowd[T]] = {}
        self._sizes = Sizes()  # of addresses

    def size(self, address: str) -> int:
        """How many come from there."""
        return len(self._of.get(address, ()))

    def join(self, address: str, one: T) -> None:
        """It waits."""
        crowd = self._of.setdefault(address, Crowd())
        crowd.waiting[one] = None
        self._resized(address, len(crowd) - 1, len(crowd))

    def leave(self, address: str, one: T) -> None:
        """It is not here any more."""
        crowd = self._of.get(address)
        if crowd is None or one not in crowd:
            return
        crowd.waiting.pop(one, None)
        crowd.asking.pop(one, None)
        self._resized(address, len(crowd) + 1, len(crowd))
        if not crowd:
            del self._of[address]

    def ask(self, address: str, one: T) -> None:
        """It has asked for something."""
        crowd = self._of[address]
        crowd.waiting.pop(one, None)
        crowd.asking[one] = None

    def rest(self, address: str, one: T) -> None:
        """It has its answer, and waits again."""
        crowd = self._of[address]
        crowd.asking.pop(one, None)
        crowd.waiting[one] = None

    def largest_first(self) -> Iterator[Crowd[T]]:
        """The crowds, by address."""
        yield from (self._of[address] for address in self._sizes.largest_first())

    def _resized(self, address: str, before: int, now: int) -> None:
        self.total += now - before
        self._sizes.change(address, before, now)
