"""The policy over HTTP, for administrators alone: ``/v2/eunomia/policy``."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TypeVar

from aiohttp import web

from eunomia.contract.view import Policy
from eunomia.core.data import Json
from eunomia.core.errors import OutputError
from eunomia.serving.dispatch.compiling import MustCompile, compile_aside, prepare_kept
from eunomia.serving.dispatch.shelf import MAX_BYTES, Conflict, Placed, PolicyShelf, check_files, stamped
from eunomia.serving.fronts.body import control_of
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.openapi import POLICY, operation
from eunomia.serving.protocol.errors import BadRequest, Unavailable
from eunomia.serving.service import Service

log = logging.getLogger("eunomia.serving")
T = TypeVar("T")
KEYS = ("name", "files", "evidence", "instead_of")
MAX_EVIDENCE = 64 * 1024
AGAIN_S = 10.0  # until memory may be there again
NOT_KEPT = (
    "some of its machine code is kept nowhere, so the server compiles it itself, and requests wait longer meanwhile; "
    "set NUMBA_CACHE_DIR to a folder that the server may write, if it has none"
)
POLICY_BYTES = MAX_BYTES * 4 // 3 + 2 * MAX_EVIDENCE  # as base64


PATHS: Json = {
    "/v2/eunomia/policy": {
        "get": operation("The policy that serves, and those before it", keyed=True),
        "put": operation("Put another policy in: a registered name, or the files of a checkpoint", keyed=True,
                          also=(409,), body=POLICY),
    },
    "/v2/eunomia/policy/rollback": {"post": operation("Back to the policy before", keyed=True)},
}  # fmt: skip


class PolicyFront:
    """Which policy serves; put another in; take it back."""

    PATHS = PATHS

    def __init__(self, service: Service) -> None:
        self.service = service
        self._preparing = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        place = "/v2/eunomia/policy"
        return [
            web.get(place, self._get),
            web.put(place, self._put),
            web.post(f"{place}/rollback", self._back),
        ]

    async def _get(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        shelf = self._shelf()
        try:
            files = {name: base64.b64encode(content).decode() for name, content in shelf.files().items()}
        except OSError as error:
            why = f"the files of '{shelf.now.label}' cannot be read: {error.strerror}"
            raise Unavailable(why, retry_after_s=1.0) from None
        return web.json_response({**self._facts(shelf), "files": files})

    async def _put(self, http: web.Request) -> web.Response:
        by = self.service.require_admin(caller_of(http)).name
        name, files, evidence, instead_of = read_placing(await control_of(http, POLICY_BYTES))
        shelf, began_s = self._shelf(), time.monotonic()
        async with self._preparing:
            _check_serving(shelf, instead_of)
            try:
                placed, policy, note = await _prepared(shelf, name, files, by)
                _check_serving(shelf, instead_of)  # another may have come meanwhile
                shelf.place(stamped(placed, by, evidence), policy)
            except OutputError as error:
                raise _not_kept(shelf, error) from None
        took_s = round(time.monotonic() - began_s, 3)
        return web.json_response({**self._facts(shelf), "took_s": took_s, **({"note": note} if note else {})})

    async def _back(self, http: web.Request) -> web.Response:
        """At once, whatever is being prepared."""
        self.service.require_admin(caller_of(http))
        shelf = self._shelf()
        try:
            taken = shelf.take_back()
        except OutputError as error:
            raise _not_kept(shelf, error) from None
        return web.json_response({**self._facts(shelf), "taken": taken.label})

    def _shelf(self) -> PolicyShelf:
        if self.service.shelf is None:
            raise BadRequest("this server's policy cannot be changed")
        return self.service.shelf

    def _facts(self, shelf: PolicyShelf) -> Json:
        return {
            "policy": shelf.now.label,
            "now": _as_json(shelf.now),
            "earlier": [_as_json(p) for p in shelf.earlier],
            "fallbacks": dict(self.service.fallbacks()),
        }


async def _prepared(
    shelf: PolicyShelf, name: str, files: dict[str, bytes], by: str
) -> tuple[Placed, Policy, str]:
    """Ready to serve, and what to note. Whoever asked and has gone away meanwhile changes nothing: it is cancelled.

    What is kept nowhere, as in a container without a folder to write to, is compiled here: refused, no such policy
    could ever serve there. Raises Unavailable where the process that compiles fails: this one would fare no better.
    """
    kept = partial(prepare_kept, shelf, name, files)
    try:
        try:
            return (*await _in_thread(kept), "")
        except MustCompile:
            log.warning("policy %r is compiled for '%s'; '%s' serves meanwhile", name, by, shelf.now.label)
        failed = await compile_aside(shelf, name, files)
        try:
            return (*await _in_thread(kept), "")
        except MustCompile:
            if failed:
                why = f"policy {name!r} is not compiled: the process for it {failed}"
                raise Unavailable(why, retry_after_s=AGAIN_S) from None
        log.warning("policy %r: %s", name, NOT_KEPT)
        return (*await _in_thread(partial(shelf.prepare, name, files)), NOT_KEPT)
    except asyncio.CancelledError:
        log.warning(
            "policy %r was not put in: '%s' has gone away; '%s' goes on serving", name, by, shelf.now.label
        )
        raise


async def _in_thread(work: Callable[[], T]) -> T:
    """A thread cannot be stopped: whoever comes next waits for its end, also where nobody waits for it any more."""
    under_way = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.wait([under_way])
        raise


def _check_serving(shelf: PolicyShelf, instead_of: str | None) -> None:
    if instead_of is not None and instead_of != shelf.now.label:
        raise Conflict(f"'{shelf.now.label}' serves, not '{instead_of[:100]}'; judge against that one")


def read_placing(content: Json) -> tuple[str, dict[str, bytes], Json, str | None]:
    """Name, files, evidence and what is to be replaced; raises BadRequest."""
    for key in content:
        if key not in KEYS:
            raise BadRequest(f"unknown key {key!r:.50}; known are {', '.join(KEYS)}")
    name, files, evidence = content.get("name"), content.get("files", {}), content.get("evidence", {})
    instead_of = content.get("instead_of")
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise BadRequest("name must be a registered policy, or the name of the checkpoint among the files")
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise BadRequest("files must be an object: name -> base64")
    if not isinstance(evidence, dict) or len(json.dumps(evidence)) > MAX_EVIDENCE:
        raise BadRequest(f"evidence must be an object of at most {MAX_EVIDENCE} bytes")
    if instead_of is not None and not isinstance(instead_of, str):
        raise BadRequest("instead_of must be the name of a policy")
    try:
        decoded = {file: base64.b64decode(text, validate=True) for file, text in files.items()}
    except (binascii.Error, ValueError):
        raise BadRequest("files must be base64") from None
    check_files(name, decoded)
    return name, decoded, evidence, instead_of


def _not_kept(shelf: PolicyShelf, error: OutputError) -> Unavailable:
    return Unavailable(f"'{shelf.now.label}' goes on serving: {error}", retry_after_s=1.0)


def _as_json(placed: Placed) -> Json:
    return asdict(placed)
