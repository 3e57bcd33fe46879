"""Tenants and keys over HTTP, for administrators alone: ``/v2/eunomia/tenants``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

from aiohttp import web

from eunomia.core.data import Json
from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.callers import tell_change
from eunomia.serving.fronts.body import control_of
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.lots import json_list
from eunomia.serving.fronts.one_thread import OneThread
from eunomia.serving.fronts.openapi import TENANT, operation
from eunomia.serving.models.looks import Looks
from eunomia.serving.models.repository import MOST_NAMED
from eunomia.serving.protocol.errors import BadRequest, NotFound, Unavailable
from eunomia.serving.service import Service
from eunomia.serving.tenants.content import as_json, is_name, number, only, read_grant
from eunomia.serving.tenants.database import DatabaseDirectory, UnknownTenant
from eunomia.serving.tenants.grants import Grant

P = ParamSpec("P")
T = TypeVar("T")
GRANT_BYTES = 1024**2
EMPTY = "{} gives a tenant all defaults, GET shows what it has now"  # why a tenant is not replaced by nothing
MOST_COMPARED = 300  # names of tenants with one that is unknown
HINT = re.compile(r"[A-Za-z0-9_-]{1,12}")


PATHS: Json = {
    "/v2/eunomia/tenants": {"get": operation("All tenants", keyed=True)},
    "/v2/eunomia/tenants/{tenant}": {
        "get": operation("What a tenant was granted", keyed=True, names=("tenant",)),
        "put": operation("Add a tenant, or replace it whole: what the body leaves out goes back to its default",
                          keyed=True, names=("tenant",), body=TENANT),
        "delete": operation("Forget a tenant", keyed=True, names=("tenant",)),
    },
    "/v2/eunomia/tenants/{tenant}/keys": {
        "get": operation("Keys, never in the clear", keyed=True, names=("tenant",)),
        "post": operation("A new key, shown once; older ones stay", keyed=True, names=("tenant",), body={
            "type": "object", "additionalProperties": False,
            "properties": {"lifetime_s": {"type": "number", "exclusiveMinimum": 0}}}),
        "delete": operation("Revoke all keys, or those of ?hint=, for good", keyed=True, names=("tenant",)),
    },
    "/v2/eunomia/tenants/{tenant}/keys/rotate": {
        "post": operation("A new key; older ones end after grace_s, by default 0: at once", keyed=True,
                           names=("tenant",), body={
            "type": "object", "additionalProperties": False,
            "properties": {"grace_s": {"type": "number", "minimum": 0, "default": 0}}})
    },
}  # fmt: skip


class AdminFront:
    """Handlers; every one needs the role ``admin``, and a directory that can be changed."""

    PATHS = PATHS

    def __init__(self, service: Service) -> None:
        self.service = service
        self._changes = OneThread()
        self._looks = Looks(self._look, lambda _: None, rest=0.0)

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        tenant = "/v2/eunomia/tenants/{tenant}"
        return [
            web.get("/v2/eunomia/tenants", self._list),
            web.get(tenant, self._one),
            web.put(tenant, self._put),
            web.delete(tenant, self._remove),
            web.get(f"{tenant}/keys", self._keys),
            web.post(f"{tenant}/keys", self._issue),
            web.post(f"{tenant}/keys/rotate", self._rotate),
            web.delete(f"{tenant}/keys", self._revoke),
        ]

    async def _list(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        await self._looks.fresh()
        return await json_list(map(as_json, self.service.directory.all()), self.service.rota.begin)

    async def _one(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        await self._looks.fresh()
        name = _name(http)
        grant = self.service.directory.by_name(name)
        if grant is None:
            raise self._unknown(name)
        return web.json_response(as_json(grant))

    async def _put(self, http: web.Request) -> web.Response:
        directory, by = self._directory(http)
        content = await control_of(http, GRANT_BYTES, EMPTY)
        grant = read_grant(http.match_info["tenant"], content)
        self._must_know_networks(grant)
        await self._asked(directory.put, grant)
        tell_change(f"tenant '{grant.name}' is changed", by)
        return web.json_response(as_json(grant))

    async def _remove(self, http: web.Request) -> web.Response:
        name, (directory, by) = _name(http), self._directory(http)
        if not await self._asked(directory.remove, name):
            raise self._unknown(name)
        self.service.regions.unregister(name, "")
        tell_change(f"tenant '{name}' is deleted", by)
        return web.json_response({})

    async def _keys(self, http: web.Request) -> web.Response:
        found = await self._asked(self._directory(http)[0].keys, _name(http))
        return web.json_response(
            [{"hint": k.hint, "created_s": k.created_s, "expires_s": k.expires_s} for k in found]
        )

    async def _issue(self, http: web.Request) -> web.Response:
        directory, by = self._directory(http)
        content = only(await control_of(http), "lifetime_s", what="a new key")
        lifetime_s = number(content, "lifetime_s")
        key = await self._asked(directory.issue_key, name := _name(http), lifetime_s)
        tell_change(f"tenant '{name}' has one more key", by)
        return web.json_response({"key": key})

    async def _rotate(self, http: web.Request) -> web.Response:
        directory, by = self._directory(http)
        content = only(await control_of(http), "grace_s", what="a rotation")
        grace_s = number(content, "grace_s", or_zero=True) or 0.0
        key = await self._asked(directory.rotate_key, name := _name(http), grace_s)
        tell_change(f"tenant '{name}' has a new key, its older ones end after {grace_s:g} s", by)
        return web.json_response({"key": key})

    async def _revoke(self, http: web.Request) -> web.Response:
        (directory, by), tenant = self._directory(http), _name(http)
        only(await control_of(http), what="revoking (which key is said as ?hint=)")
        only(http.query, "hint", what="revoking")
        hint = http.query.get("hint")
        if hint is not None and not HINT.fullmatch(hint):  # an empty one would mean all
            raise BadRequest(f"hint is {hint!r:.50}; it is what the list of keys shows")
        gone = await self._asked(directory.revoke_keys, tenant, hint or "")
        if hint is not None and gone == 0:
            raise NotFound(f"no living key of tenant '{tenant}' has the hint '{hint}'")
        tell_change(f"tenant '{tenant}' has {gone} keys less", by)
        return web.json_response({"revoked": gone})

    def _must_know_networks(self, grant: Grant) -> None:
        """The rule of the server's file: with a folder of networks, any may come yet. Raises BadRequest."""
        networks = self.service.repository
        if networks.grows:
            return
        agreed = dict.fromkeys((model for model in grant.promises if model != "*"), "objectives")
        for model, key in {**dict.fromkeys(sorted(grant.models or ()), "models"), **agreed}.items():
            if not networks.has(model):
                known = ", ".join(entry.name for entry in networks.entries()[:MOST_NAMED])
                raise BadRequest(
                    f"tenant '{grant.name}' names '{model}' ({key}), which is none of the networks: {known}"
                )

    async def _asked(self, question: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What the database answers, asked off the event loop; its troubles as the protocol says them."""
        try:
            return await self._changes.do(question, *arguments, **named)
        except OutputError as error:
            raise Unavailable(str(error), retry_after_s=1.0) from None
        except UnknownTenant as error:
            raise self._unknown(error.name) from None
        except ConfigError as error:
            raise BadRequest(str(error)) from None

    def _unknown(self, name: str) -> NotFound:
        """For administrators, who may know of all."""
        known = [grant.name for grant in self.service.directory.all()[:MOST_COMPARED]]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "GET /v2/eunomia/tenants lists all"
        return NotFound(f"unknown tenant '{name}'; {hint}")

    def _look(self) -> None:
        """What was changed through other servers is seen at once; without the database, the last known."""
        if isinstance(self.service.directory, DatabaseDirectory):
            with contextlib.suppress(OutputError):
                self.service.directory.catch_up()

    def _directory(self, http: web.Request) -> tuple[DatabaseDirectory, Grant]:
        """And who asks: a change may end its key."""
        by = self.service.require_admin(caller_of(http))
        if not isinstance(self.service.directory, DatabaseDirectory):
            raise BadRequest(
                'tenants stand in the server\'s file; give it database = "sqlite:///..." to change them'
            )
        return self.service.directory, by


def _name(http: web.Request) -> str:
    """The tenant of the address; raises NotFound for what can be none's name."""
    name = http.match_info["tenant"]
    if not is_name(name):
        raise NotFound(f"unknown tenant {name!r:.80}")
    return name
