"""Whose a connection is: a proxy's carries requests of several tenants, and then is each time one of theirs.

Of which one, whoever shares something out says: of the one that has least of it (``circle.group_of``). So what comes
on it does not wait behind all that one of them sends elsewhere. Tenants that mix their keys gain nothing by that.
"""

from __future__ import annotations

from eunomia.serving.tenants.circle import TOGETHER

MOST = 8  # of more the first by name: connections of one proxy shall not be of ever more tenants


class Carried:
    """``name``: of the tenant, or of several together; empty before the first."""

    __slots__ = ("_tenants", "name")

    def __init__(self) -> None:
        self._tenants, self.name = list[str](), ""

    def add(self, tenant: str) -> bool:
        """It carries a request of this tenant's; whether it has another name now."""
        if tenant in self._tenants:
            return False
        before = self.name
        self._tenants = sorted([*self._tenants, tenant])[:MOST]
        self.name = TOGETHER.join(self._tenants)
        return self.name != before
