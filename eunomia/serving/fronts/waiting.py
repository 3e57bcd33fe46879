"""Bytes of a connection that wait for their turn."""

from __future__ import annotations


class Waiting:
    """Added behind, taken from the front; what is taken costs no copy of what stays."""

    __slots__ = ("_at", "_data")

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def add(self, data: bytes) -> None:
        """These come behind the others."""
        self._data = self._data[self._at :] + data if self else data
        self._at = 0

    def find(self, what: bytes) -> int:
        """How many bytes stand before it; less than 0 = it is not there."""
        return self._data.find(what, self._at) - self._at

    def first(self, count: int) -> bytes:
        """So many, or all if there are fewer; they stay."""
        return self._data[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        """So many, or all if there are fewer; they are here no longer."""
        found = self._data[self._at : self._at + count]
        self._at += len(found)
        if self._at == len(self._data):
            self._data, self._at = b"", 0
        return found

    def view(self, count: int) -> memoryview:
        """So many, or all if there are fewer, without a copy: what comes later does not change them. They stay."""
        return memoryview(self._data)[self._at : self._at + count]

    def drop(self, count: int) -> int:
        """So many, or all if there are fewer, are here no longer; returns how many."""
        count = min(count, len(self))
        self._at += count
        if self._at == len(self._data):
            self._data, self._at = b"", 0
        return count

    def take_all(self) -> bytes:
        """Everything."""
        return self.take(len(self._data))
