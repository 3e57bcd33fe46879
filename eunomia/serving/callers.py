"""Who asks: the grant of a caller, by its key or, where callers need none, by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from eunomia.serving.protocol.errors import Forbidden, Unauthenticated
from eunomia.serving.tenants.grants import DEFAULT_TENANT, Directory, Grant
from eunomia.serving.visit import Caller

log = logging.getLogger("eunomia.serving")


def tell_change(what: str, by: Grant) -> None:
    """What an administrator has changed stands in the log: nothing else keeps it."""
    log.warning("%s (by '%s')", what, by.name)


class Callers:
    """``anonymous``: callers without a key have the grant of the tenant that they name, or that of ``default``."""

    directory: Directory
    anonymous: bool

    def identify(self, caller: Caller, parameters: Mapping[str, object] | None = None) -> Grant:
        """The caller's grant; raises Unauthenticated."""
        if caller.key is not None:
            grant = self.directory.by_key(caller.key)
            if grant is None:
                raise Unauthenticated("the API key is not valid")
            return grant
        if not self.anonymous:
            raise Unauthenticated("an API key is needed: Authorization: Bearer <key>")
        told = parameters.get("tenant") if parameters else None
        claimed = told if isinstance(told, str) else None
        for name in (caller.fairness_id, caller.tenant_id, claimed, DEFAULT_TENANT):
            grant = self.directory.by_name(name) if name else None
            if grant is not None:
                return grant
        names = [name for name in (caller.fairness_id, caller.tenant_id, claimed) if name]
        named = f"no tenant is called {names[0]!r:.100}" if names else "the caller names no tenant"
        default = "" if DEFAULT_TENANT in names else f", and the server has no tenant '{DEFAULT_TENANT}'"
        raise Unauthenticated(
            f"{named}{default}: name one of its tenants (header x-tenant-id, --tenant of eunomia load)"
        )

    def tenant_of(self, caller: Caller) -> str:
        """The caller's tenant, ``""`` if only the body of its request may say. Raises Unauthenticated."""
        try:
            return self.identify(caller).name
        except Unauthenticated:
            if self.anonymous and caller.key is None:
                return ""
            raise

    def sees(self, grant: Grant) -> str | None:
        """Of whom it may see what was served; None = of all, as where anybody may give any tenant's name."""
        return None if grant.role == "admin" or self.anonymous else grant.name

    def require_admin(self, caller: Caller) -> Grant:
        """For what changes the server: a key with the role, never a name alone. Raises Unauthenticated or Forbidden."""
        if caller.key is None:
            raise Unauthenticated("an administrator's API key is needed: Authorization: Bearer <key>")
        grant = self.identify(caller)
        if grant.role != "admin":
            raise Forbidden(f"tenant '{grant.name}' is no administrator")
        return grant

    def neighbour(self, caller: Caller) -> str:
        """The tenant of a caller who may name shared memory: one on this machine. Raises Forbidden."""
        tenant = self.identify(caller).name
        if not caller.local:
            raise Forbidden(
                "shared memory is for callers on the server's own machine, without a proxy between"
            )
        return tenant
