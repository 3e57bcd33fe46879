"""Bytes of bodies that arrive or are being read, and of large answers that leave, by tenant.

All tenants share one room, as for tensors (``limits``): none may hold more of it than is left for the others. Callers
that nobody knows yet are one tenant, named by an empty text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eunomia.serving.protocol.errors import Refused

AGAIN_S = 0.1


class Body:
    """One body: ``need`` as soon as so many bytes of it are known to come."""

    def __init__(self, bodies: Bodies, tenant: str) -> None:
        self._bodies, self._tenant, self.size = bodies, tenant, 0

    def need(self, size: int) -> None:
        """It has at least so many bytes; raises Refused."""
        if size > self.size:
            self._bodies.take(self._tenant, size - self.size)
            self.size = size

    def close(self) -> None:
        """It has been read, or taken; a second time is none."""
        self._bodies.give_back(self._tenant, self.size)
        self.size = 0


class Bodies:
    """``most_bytes``: of all together."""

    def __init__(self, most_bytes: int) -> None:
        self._free = most_bytes
        self.held: dict[str, int] = {}

    @contextmanager
    def of(self, tenant: str) -> Iterator[Body]:
        """Room for one body, given back after the block."""
        body = self.open(tenant)
        try:
            yield body
        finally:
            body.close()

    def open(self, tenant: str) -> Body:
        """Room for one body; whoever opens it closes it."""
        return Body(self, tenant)

    def take(self, tenant: str, size: int) -> None:
        """Hold more; raises Refused when it would be more than what is then left; a first body may always try."""
        self.check(tenant, size)
        self._free -= size
        self.held[tenant] = self.held.get(tenant, 0) + size

    def check(self, tenant: str, size: int) -> None:
        """Whether ``take`` would raise Refused."""
        held = self.held.get(tenant, 0)
        if size > self._free or (held and held + size > self._free - size):
            raise Refused(
                f"tenant '{tenant}' has {held} bytes of requests and answers on their way and asks for {size} more; "
                f"{self._free} are free, and none may hold more than is left for the others",
                retry_after_s=AGAIN_S,
            )

    def give_back(self, tenant: str, size: int) -> None:
        """Hold less."""
        if size:
            self._free += size
            self.held[tenant] -= size
            if not self.held[tenant]:
                del self.held[tenant]
