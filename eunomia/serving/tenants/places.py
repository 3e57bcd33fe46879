"""Addresses at which a tenant has shown its key: the latest so many of each tenant's."""

from __future__ import annotations

from collections import OrderedDict

MOST = 1024  # of one tenant


class Places:
    """An address belongs to the tenant that has shown its key there last."""

    def __init__(self) -> None:
        self._tenant: dict[str, str] = {}
        self._of: dict[str, OrderedDict[str, None]] = {}

    def shown(self, address: str, tenant: str) -> None:
        """A valid key of this tenant's came from there."""
        before = self._tenant.get(address, tenant)
        if before != tenant:
            self._of[before].pop(address)
        own = self._of.setdefault(tenant, OrderedDict())
        own[address] = None
        own.move_to_end(address)
        self._tenant[address] = tenant
        if len(own) > MOST:
            del self._tenant[own.popitem(last=False)[0]]

    def tenant(self, address: str) -> str:
        """Whose it is; empty = nobody's."""
        return self._tenant.get(address, "")
