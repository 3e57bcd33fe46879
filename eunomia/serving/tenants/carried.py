"""Whose a connection is: a proxy's carries requests of several tenants, and then belongs to them together.

So what comes on it waits in a queue of its own, and not behind all that one of them sends elsewhere.
"""

from __future__ import annotations

SIGN = "+"  # in no name of a tenant
MOST = 8  # of those with more there is one kind


class Carried:
    """``name``: of the tenant, or of several together; empty before the first."""

    __slots__ = ("_tenants", "name")

    def __init__(self) -> None:
        self._tenants, self.name = set[str](), ""

    def add(self, tenant: str) -> bool:
        """It carries a request of this tenant's; whether it has another name now."""
        if tenant in self._tenants:
            return False
        before = self.name
        if len(self._tenants) <= MOST:
            self._tenants.add(tenant)
            self.name = SIGN.join(sorted(self._tenants)) if len(self._tenants) <= MOST else SIGN
        return self.name != before
