"""Names by how many each has: the largest is known at once, however many names there are."""

from __future__ import annotations

from collections.abc import Iterator


class Sizes:
    """There are few sizes, for together they are no more than all that is counted."""

    def __init__(self) -> None:
        self._names: dict[int, dict[str, None]] = {}

    def change(self, name: str, before: int, now: int) -> None:
        """It has so many now; 0 = it is not here."""
        if before:
            equals = self._names[before]
            del equals[name]
            if not equals:
                del self._names[before]
        if now:
            self._names.setdefault(now, {})[name] = None

    def largest_first(self, first: str = "") -> Iterator[str]:
        """All of them; ``first``: before others that have as many."""
        for size in sorted(self._names, reverse=True):
            names = self._names[size]
            if first in names:
                yield first
            yield from (name for name in names if name != first)
