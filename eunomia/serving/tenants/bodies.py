"""Bytes of bodies that arrive or are being read, and of large answers that leave, by tenant.

All tenants share one room, as for tensors (``limits``): none may hold more of it than is left for the others. Callers
that nobody knows yet are one tenant, named by an empty text. Answers that a tenant does not take hold at most twice
its budget, the largest request that it may send; one may always leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eunomia.serving.protocol.errors import Refused
from eunomia.serving.tenants.circle import STRANGERS

AGAIN_S = 0.1
TIMES, LEAST_BYTES = 2, 8 * 1024**2  # a tenant's budget, however small its requests are


def whose(tenant: str) -> str:
    """The beginning of a sentence."""
    return f"tenant '{tenant}' has" if tenant not in ("", STRANGERS) else "callers without a key have"


class Body:
    """One body: ``need`` as soon as so many bytes of it are known to come."""

    def __init__(self, bodies: Bodies, tenant: str) -> None:
        self._bodies, self._tenant, self.size = bodies, tenant, 0

    def need(self, size: int) -> None:
        """It has at least so many bytes; raises Refused."""
        if size > self.size:
            self._bodies.take(self._tenant, size - self.size)
            self.size = size

    def shrink(self, size: int) -> None:
        """No more than so many bytes of it are kept."""
        if size < self.size:
            self._bodies.give_back(self._tenant, self.size - size)
            self.size = size

    def close(self) -> None:
        """It has been read, or taken; a second time is none."""
        self._bodies.give_back(self._tenant, self.size)
        self.size = 0


class Leaving(Body):
    """An answer until it is taken."""

    def need(self, size: int) -> None:
        """It has so many bytes; raises Refused."""
        more = size - self.size
        if more > 0:
            self._bodies.check_answer(self._tenant, more)
            super().need(size)
            self._bodies.untaken[self._tenant] = self._bodies.untaken.get(self._tenant, 0) + more

    def close(self) -> None:
        """It has been taken, or never will be."""
        if self.size:
            self._bodies.untaken[self._tenant] -= self.size
            if not self._bodies.untaken[self._tenant]:
                del self._bodies.untaken[self._tenant]
        super().close()


class Bodies:
    """``most_bytes``: of all together; ``budget``: a tenant's. ``untaken``: of the bytes ``held``, those of answers."""

    def __init__(self, most_bytes: int) -> None:
        self._free = most_bytes
        self.held: dict[str, int] = {}
        self.untaken: dict[str, int] = {}
        self.budget: Callable[[str], int] = lambda tenant: LEAST_BYTES

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

    def leaving(self, tenant: str) -> Body:
        """Room for one answer; whoever opens it closes it."""
        return Leaving(self, tenant)

    @property
    def awaited(self) -> bool:
        """Whether answers are on their way; those to callers without a key may be for ever."""
        return any(tenant not in ("", STRANGERS) for tenant in self.untaken)

    def check_answer(self, tenant: str, size: int) -> None:
        """Whether there is no room for one more answer; raises Refused."""
        self.check(tenant, size)
        untaken, most = self.untaken.get(tenant, 0), TIMES * max(self.budget(tenant), LEAST_BYTES)
        if untaken and untaken + size > most:
            raise Refused(
                f"tenant '{tenant}' has not taken {untaken} bytes of answers, and {size} more are ready; "
                f"at most {most} are kept: take answers sooner",
                retry_after_s=AGAIN_S,
            )

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
                f"{whose(tenant)} {held} bytes of requests and answers on their way, and {size} more would come: "
                "none may hold more than is left for the others",
                retry_after_s=AGAIN_S,
            )

    def give_back(self, tenant: str, size: int) -> None:
        """Hold less."""
        if size:
            self._free += size
            self.held[tenant] -= size
            if not self.held[tenant]:
                del self.held[tenant]
