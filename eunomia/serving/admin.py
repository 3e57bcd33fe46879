"""Tenants and keys over HTTP, for administrators alone: ``/v2/eunomia/tenants``."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from eunomia.errors import ConfigError, OutputError
from eunomia.serving.http_caller import caller_of
from eunomia.serving.protocol.errors import BadRequest, NotFound, Unavailable
from eunomia.serving.protocol.infer import read_json
from eunomia.serving.repository import NAME
from eunomia.serving.service import Service
from eunomia.serving.tenants.database import DatabaseDirectory, UnknownTenant
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.workload.tenant import Slo

LIMITS = {"weight": float, "rate_per_s": float, "burst": float, "max_concurrency": int, "max_queue": int,
          "max_request_bytes": int}  # fmt: skip
PROMISE = frozenset({"deadline_s", "min_deadline_s", "priority", "slo"})
OR_ZERO = ("grace_s", "min_deadline_s")
SLO = {"target": float, "kind": str, "percentile": float, "window_requests": int, "window_s": float}


T = TypeVar("T")


class AdminFront:
    """Handlers; every one needs the role ``admin``, and a directory that can be changed."""

    def __init__(self, service: Service) -> None:
        self.service = service

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
        await self._catch_up()
        return web.json_response([as_json(grant) for grant in self.service.directory.all()])

    async def _one(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        await self._catch_up()
        name = http.match_info["tenant"]
        grant = self.service.directory.by_name(name)
        if grant is None:
            raise NotFound(f"unknown tenant '{name[:80]}'")
        return web.json_response(as_json(grant))

    async def _put(self, http: web.Request) -> web.Response:
        directory = self._directory(http)
        grant = read_grant(http.match_info["tenant"], read_json(await http.read()))
        await _asked(directory.put, grant)
        return web.json_response(as_json(grant))

    async def _remove(self, http: web.Request) -> web.Response:
        name = http.match_info["tenant"]
        if not await _asked(self._directory(http).remove, name):
            raise NotFound(f"unknown tenant '{name[:80]}'")
        return web.json_response({})

    async def _keys(self, http: web.Request) -> web.Response:
        found = await _asked(self._directory(http).keys, http.match_info["tenant"])
        return web.json_response([
            {"hint": k.hint, "created_s": k.created_s, "expires_s": k.expires_s} for k in found
        ])  # fmt: skip

    async def _issue(self, http: web.Request) -> web.Response:
        content = _only(read_json(await http.read() or b"{}"), "lifetime_s", what="a new key")
        lifetime_s = _number(content, "lifetime_s", None)
        key = await _asked(self._directory(http).issue_key, http.match_info["tenant"], lifetime_s)
        return web.json_response({"key": key})

    async def _rotate(self, http: web.Request) -> web.Response:
        content = _only(read_json(await http.read() or b"{}"), "grace_s", what="a rotation")
        grace_s = _number(content, "grace_s", 0.0)
        key = await _asked(self._directory(http).rotate_key, http.match_info["tenant"], grace_s)
        return web.json_response({"key": key})

    async def _revoke(self, http: web.Request) -> web.Response:
        directory, tenant = self._directory(http), http.match_info["tenant"]
        _only(read_json(await http.read() or b"{}"), what="revoking (which key is said as ?hint=)")
        _only(http.query, "hint", what="revoking")
        gone = await _asked(directory.revoke_keys, tenant, http.query.get("hint", ""))
        return web.json_response({"revoked": gone})

    async def _catch_up(self) -> None:
        """Administrators see at once what was changed through other servers; without the database, the last known."""
        if isinstance(self.service.directory, DatabaseDirectory):
            with contextlib.suppress(OutputError):
                await asyncio.to_thread(self.service.directory.catch_up)

    def _directory(self, http: web.Request) -> DatabaseDirectory:
        self.service.require_admin(caller_of(http))
        if not isinstance(self.service.directory, DatabaseDirectory):
            raise BadRequest(
                'tenants stand in the server\'s file; give it database = "sqlite:///..." to change them'
            )
        return self.service.directory


async def _asked(question: Callable[..., T], *arguments: Any) -> T:
    """What the database answers, asked off the event loop; its troubles as the protocol says them."""
    try:
        return await asyncio.to_thread(question, *arguments)
    except OutputError as error:
        raise Unavailable(str(error), retry_after_s=1.0) from None
    except UnknownTenant as error:
        raise NotFound(str(error)) from None
    except ConfigError as error:
        raise BadRequest(str(error)) from None


def read_grant(name: str, content: dict[str, Any]) -> Grant:
    """A grant from JSON, checked; raises BadRequest."""
    if not NAME.fullmatch(name) or len(name) > 80:
        raise BadRequest(f"tenant {name!r:.100}: letters, digits, '.', '_' and '-' make a name, at most 80")
    known = {*LIMITS, "name", "role", "models", "promises"}
    for key in content:
        if key not in known:
            raise BadRequest(f"unknown key {key!r:.50}; a tenant has {', '.join(sorted(known))}")
    if content.get("name", name) != name:
        raise BadRequest(f"the body is of tenant {content['name']!r:.100}, the address of '{name}'")
    role = content.get("role", "tenant")
    if role not in ("tenant", "admin"):
        raise BadRequest(f"role is {role!r:.50}; it is 'tenant' or 'admin'")
    limits = {
        key: kind(_number(content, key, None)) for key, kind in LIMITS.items() if content.get(key) is not None
    }
    models = content.get("models")
    if models is not None and not (isinstance(models, list) and all(isinstance(m, str) for m in models)):
        raise BadRequest("models must be a list of names, or null for all")
    promises = content.get("promises", {})
    if not isinstance(promises, dict):
        raise BadRequest("promises must be an object: network -> {deadline_s, min_deadline_s, priority, slo}")
    return Grant(
        name, role, models=None if models is None else frozenset(models),
        promises={model: _promise(model, p) for model, p in promises.items()}, **limits,
    )  # fmt: skip


def as_json(grant: Grant) -> dict[str, Any]:
    """A grant as administrators see it."""
    return {
        "name": grant.name, "role": grant.role,
        **{key: (value if math.isfinite(value := getattr(grant, key)) else None) for key in LIMITS},
        "models": None if grant.models is None else sorted(grant.models),
        "promises": {
            model: {
                "deadline_s": p.deadline_s, "min_deadline_s": p.min_deadline_s, "priority": p.priority,
                "slo": {key: getattr(p.slo, key) for key in SLO} if p.slo else None,
            }
            for model, p in grant.promises.items()
        },
    }  # fmt: skip


def _promise(model: str, content: Any) -> Promise:
    if not isinstance(content, dict) or not set(content) <= PROMISE:
        raise BadRequest(
            f"promise for '{model[:100]}': an object with {', '.join(sorted(PROMISE))} is expected"
        )
    deadline_s = _number(content, "deadline_s", None)
    if deadline_s is None:
        raise BadRequest(f"promise for '{model[:100]}' has no deadline_s")
    min_deadline_s = _number(content, "min_deadline_s", None)
    if min_deadline_s is not None and min_deadline_s > deadline_s:
        raise BadRequest(
            f"promise for '{model[:100]}': min_deadline_s ({min_deadline_s:g}) is the shortest deadline that a client "
            f"may claim; it is at most deadline_s ({deadline_s:g})"
        )
    slo = content.get("slo")
    if slo is not None:
        if not isinstance(slo, dict) or not set(slo) <= set(SLO):
            raise BadRequest(f"slo of '{model[:100]}': an object with {', '.join(SLO)} is expected")
        try:
            slo = Slo(**slo)
        except (ConfigError, TypeError) as error:
            raise BadRequest(f"slo of '{model[:100]}': {error}") from None
    return Promise(deadline_s, slo, _number(content, "priority", 1.0) or 1.0, min_deadline_s)


def _only(content: Mapping[str, Any], *known: str, what: str) -> Mapping[str, Any]:
    """The same; raises BadRequest for a name that would have no effect: a slip of the pen costs keys here."""
    for name, value in content.items():
        if name not in known:
            takes = ", ".join(known) or "no body"
            raise BadRequest(f"unknown key {name!r:.50} ({value!r:.50}); {what} takes {takes}")
    return content


def _number(content: Mapping[str, Any], key: str, missing: float | None) -> float | None:
    value = content.get(key)
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        if key in OR_ZERO and value == 0:
            return 0.0
        wanted = "0 or a positive number" if key in OR_ZERO else "a positive number"
        raise BadRequest(f"{key} is {value!r:.50}; {wanted} is expected")
    return value
