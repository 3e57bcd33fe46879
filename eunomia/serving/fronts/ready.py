"""Which of very many descriptors have something to be read, a few at a time: to list all of them takes milliseconds."""

from __future__ import annotations

import select
import selectors
from collections.abc import Iterable
from itertools import islice
from typing import Protocol


class Ready(Protocol):
    """Descriptors that are looked at together; ``fileno``: can be read when one of them can."""

    def fileno(self) -> int:
        """Its own descriptor."""
        ...

    def add(self, descriptor: int) -> None:
        """One more."""
        ...

    def remove(self, descriptor: int) -> None:
        """One less; raises KeyError or OSError for one that has been closed."""
        ...

    def some(self, most: int) -> Iterable[int]:
        """Those that can be read, so many at most."""
        ...

    def close(self) -> None:
        """Look no more."""
        ...


class Polled:
    """By the call of Linux, which begins behind those that it has named before."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self.fileno, self.remove, self.close = self._poll.fileno, self._poll.unregister, self._poll.close

    def add(self, descriptor: int) -> None:
        """One more."""
        self._poll.register(descriptor, select.EPOLLIN)

    def some(self, most: int) -> Iterable[int]:
        """Those that can be read, so many at most."""
        return [descriptor for descriptor, _ in self._poll.poll(0, most)]


class Selected:
    """By whatever the system has."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def fileno(self) -> int:
        """Its own descriptor."""
        return self._selector.fileno()

    def add(self, descriptor: int) -> None:
        """One more."""
        self._selector.register(descriptor, selectors.EVENT_READ)

    def remove(self, descriptor: int) -> None:
        """One less."""
        self._selector.unregister(descriptor)

    def some(self, most: int) -> Iterable[int]:
        """Those that can be read, so many at most."""
        return [key.fd for key, _ in islice(self._selector.select(0), most)]


def ready() -> Ready:
    """Of nobody yet."""
    return Polled() if hasattr(select, "epoll") else Selected()
