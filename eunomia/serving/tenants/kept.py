"""What is remembered of tenants' requests, so much in all: one more drives out the oldest of a tenant.

That is the tenant which has most. So whoever never sends the same again drives out nothing of those who do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from eunomia.serving.tenants.sizes import Sizes

V = TypeVar("V")


class Kept(Generic[V]):
    """``most``: of all tenants together."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._of: dict[str, OrderedDict[Hashable, V]] = {}
        self._sizes = Sizes()
        self._lock = threading.Lock()  # several servers may be in one process

    def find(self, tenant: str, key: Hashable) -> V | None:
        """What was kept under this key."""
        with self._lock:
            own = self._of.get(tenant)
            found = own.get(key) if own is not None else None
            if own is not None and found is not None:
                own.move_to_end(key)
            return found

    def keep(self, tenant: str, key: Hashable, value: V) -> None:
        """The newest of this tenant's."""
        with self._lock:
            own = self._of.setdefault(tenant, OrderedDict())
            own.pop(key, None) if key in own else self._resize(tenant, len(own), len(own) + 1)
            own[key] = value
            if self._total > self._most:
                largest = next(self._sizes.largest_first())
                theirs = self._of[largest]
                theirs.popitem(last=False)
                self._resize(largest, len(theirs) + 1, len(theirs))
                if not theirs:
                    del self._of[largest]

    def _resize(self, tenant: str, before: int, now: int) -> None:
        self._total += now - before
        self._sizes.change(tenant, before, now)
