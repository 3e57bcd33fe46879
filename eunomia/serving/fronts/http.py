"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from functools import partial

from aiohttp import web
from aiohttp.hdrs import CONNECTION
from aiohttp.typedefs import Middleware

from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.callers import tell_change
from eunomia.serving.devices.messages import Port, Ports
from eunomia.serving.devices.strings import BYTES
from eunomia.serving.fronts import fronts
from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.body import body_of, control_of, without_parameters
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.dense import may_lose
from eunomia.serving.fronts.expecting import elsewhere, go_on, is_our_fault, quiet, still_waits, unnamed
from eunomia.serving.fronts.in_turn import InTurn
from eunomia.serving.fronts.in_words import Handler, errors_as_json
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.lots import json_list
from eunomia.serving.fronts.openapi import document_text
from eunomia.serving.fronts.parts import Parts
from eunomia.serving.fronts.reading import reading, writing
from eunomia.serving.fronts.started import must_have_started
from eunomia.serving.protocol.batches import most_rows
from eunomia.serving.protocol.errors import FEWER, BadRequest, ServingError, without_folders
from eunomia.serving.protocol.json_work import as_text
from eunomia.serving.protocol.written import write_response
from eunomia.serving.service import Service
from eunomia.serving.tenants.circle import stranger_at
from eunomia.serving.tenants.grants import Grant

HEADER_LENGTH = "Inference-Header-Content-Length"
LARGE_ANSWER = 256 * 1024  # bytes; the system takes smaller ones at once
EXTENSIONS = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
]


class HttpFront:
    """Routes and handlers; everything that needs thought is in the service."""

    def __init__(
        self,
        service: Service,
        max_body_bytes: int,
        connections: Connections | None = None,
        max_json_bytes: int = 32 * 1024**2,
    ) -> None:
        self.service = service
        self._max_body = max_body_bytes
        self.json = JsonProcess(max_json_bytes, service.rota.begin)
        self.connections = Connections(ConnectionLimits()) if connections is None else connections

    def application(self) -> web.Application:
        """The application to run."""
        logging.getLogger("aiohttp.server").addFilter(is_our_fault)
        app = web.Application(
            client_max_size=self._max_body,
            middlewares=[self.connections.middleware(), errors_as_json, self._in_turn()],
            handler_args={"max_field_size": 16384, "auto_decompress": False},  # ``body_of`` inflates, bounded
        )
        for prefix in (
            "/v2/models/{model}",
            "/v2/models/{model}/versions/{version}",
        ):  # first: looked at first
            app.add_routes(quiet([web.post(f"{prefix}/infer", self._infer)]))
        app.add_routes(
            quiet(
                [
                    web.get("/v2/health/live", self._live),
                    web.get("/v2/health/ready", self._ready),
                    web.get("/v2", self._server),
                    web.post("/v2/repository/index", self._index),
                    web.post("/v2/repository/models/{model}/load", self._load),
                    web.post("/v2/repository/models/{model}/unload", self._unload),
                    web.get("/metrics", self._metrics),
                    web.get("/metrics/triton", self._metrics),
                    web.get("/openapi.json", self._openapi),
                    web.get("/v2/models/stats", self._statistics),
                    web.get("/v2/systemsharedmemory/status", self._regions),
                    web.get("/v2/systemsharedmemory/region/{region}/status", self._regions),
                    web.post("/v2/systemsharedmemory/region/{region}/register", self._register),
                    web.post("/v2/systemsharedmemory/unregister", self._unregister),
                    web.post("/v2/systemsharedmemory/region/{region}/unregister", self._unregister),
                ]
            )
        )
        for front in fronts():
            app.add_routes(quiet(front(self.service).routes()))
        for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            app.add_routes(
                quiet(
                    [
                        web.get(prefix, self._model),
                        web.get(f"{prefix}/ready", self._model_ready),
                        web.get(f"{prefix}/config", self._config),
                        web.get(f"{prefix}/stats", self._statistics),
                    ]
                )
            )
        app.add_routes(elsewhere())
        app.on_response_prepare.extend([unnamed, self._may_be_last])
        return app

    async def _may_be_last(self, request: web.Request, response: web.StreamResponse) -> None:
        """Before an answer leaves: the client has to hear whether its connection ends."""
        if self.service.leaving or still_waits(request) or may_lose(request):
            response.headers[CONNECTION] = "close"
            response.force_close()

    def _in_turn(self) -> Middleware:
        """Takes up one request of a caller at a time; callers without a valid key go by their address."""

        @web.middleware
        async def waiting(request: web.Request, handler: Handler) -> web.StreamResponse:
            must_have_started(self.service, request.path)
            try:
                who = self.service.tenant_of(caller_of(request))
            except ServingError:
                who = ""
            await self.json.rounds.turn(who or stranger_at(place_of(request.remote or "")))
            if who:
                if isinstance(request.protocol, InTurn):
                    request.protocol.knows(who)
                go_on(request)
            return await handler(request)

        return waiting

    # --- inference -------------------------------------------------------------------------------------

    async def _infer(self, http: web.Request) -> web.StreamResponse:
        caller, model = caller_of(http), http.match_info["model"]
        tenant = self.service.knock(caller, model)  # before its body is read
        with reading(self.service, tenant, model), self.service.bodies.of(tenant) as room:
            unpack = partial(self.json.inflate, tenant=tenant)
            body = memoryview(await body_of(http, self._max_body, room, unpack, FEWER))
            version = http.match_info.get("version", "")
            request = await self.json.read(
                model, version, body, header_length(http.headers.get(HEADER_LENGTH)), tenant
            )
        served = await self.service.infer(request, caller)
        written = write_response(request, served.version, served.outputs, served.in_regions)
        with writing(self.service, tenant, request):
            header = await self.json.write(written, tenant)
        headers = {"Content-Type": "application/json"}
        if written.raw:
            headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
        return await self._answer(http, tenant, [header, *written.raw], headers)

    async def _answer(
        self, http: web.Request, tenant: str, pieces: list[bytes | memoryview], headers: dict[str, str]
    ) -> web.StreamResponse:
        """A large answer holds room of its tenant's until it is taken, and no longer than a body may take."""
        size = sum(map(len, pieces))
        if size <= LARGE_ANSWER:
            return web.Response(body=b"".join(pieces), headers=headers)
        response = web.StreamResponse(headers={**headers, "Content-Length": str(size)})
        with closing(self.service.bodies.leaving(tenant)) as room:
            room.need(size)
            try:
                async with asyncio.timeout(self.connections.limits.body_s):
                    await response.prepare(http)
                    for piece in Parts(pieces):
                        await response.write(piece)
                        await asyncio.sleep(0)
                    await response.write_eof()
            except TimeoutError:
                if http.transport is not None:
                    http.transport.abort()
        return response

    # --- facts -----------------------------------------------------------------------------------------

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        why = self.service.unready
        return web.json_response(
            {"ready": False, "error": why} if why else {"ready": True}, status=503 if why else 200
        )

    async def _server(self, _: web.Request) -> web.Response:
        extensions = extensions_of(self.service)
        return web.json_response({"name": "eunomia", "version": __version__, "extensions": extensions})

    async def _model(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        name, version = http.match_info["model"], http.match_info.get("version", "")
        ports = self.service.repository.ports_for(grant, name, version)
        return web.json_response(
            {
                "name": name,
                "versions": self.service.repository.ready_versions(name),
                "platform": "onnxruntime_onnx",
                "inputs": ports["inputs"],
                "outputs": ports["outputs"],
            }
        )

    async def _model_ready(self, http: web.Request) -> web.Response:
        name, version = http.match_info["model"], http.match_info.get("version", "")
        entry = self.service.readiness(caller_of(http), name, version)
        ready = entry.state == "READY"
        return web.json_response({"name": entry.name, "ready": ready}, status=200 if ready else 503)

    async def _config(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        name, version = http.match_info["model"], http.match_info.get("version", "")
        ports = self.service.repository.ports_for(grant, name, version)
        return web.json_response(config_of(name, ports, self.service.most_bytes(grant), grant.name))

    async def _statistics(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        name, version = http.match_info.get("model", ""), http.match_info.get("version", "")
        found = await self.service.model_statistics(grant, name, version)
        text = as_text({"model_stats": found, "front_end": self.service.books.front.facts()})
        return web.Response(body=text, content_type="application/json", charset="utf-8")

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(text=document_text())

    async def _metrics(self, http: web.Request) -> web.Response:
        if not self.service.anonymous:
            self.service.require_admin(caller_of(http))
        accepts, triton = http.headers.get("Accept", ""), http.path.endswith("triton")
        page, kind = await self.service.metrics_page(accepts, triton=triton)
        return web.Response(body=page, headers={"Content-Type": kind})

    # --- the repository --------------------------------------------------------------------------------

    async def _index(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        content = await control_of(http)
        await self.service.repository.look()
        await self.json.rounds.turn(grant.name)  # many may have waited
        entries = self.service.repository.entries_for(grant, ready_only=content.get("ready") is True)
        shown = (
            {"name": e.name, "version": e.version, "state": e.state, "reason": reason_for(grant, e.reason)}
            for e in entries
        )
        return await json_list(shown, self.service.rota.begin)

    async def _load(self, http: web.Request) -> web.Response:
        by, name = self.service.require_admin(caller_of(http)), http.match_info["model"]
        await without_parameters(http)
        await self.service.repository.load(name)
        tell_change(f"network '{name}' is loaded", by)
        return web.Response()

    async def _unload(self, http: web.Request) -> web.Response:
        by, name = self.service.require_admin(caller_of(http)), http.match_info["model"]
        await self.service.repository.unload(name)
        tell_change(f"network '{name}' is unloaded", by)
        return web.Response()

    # --- shared memory ---------------------------------------------------------------------------------

    async def _regions(self, http: web.Request) -> web.Response:
        tenant = self.service.identify(caller_of(http)).name
        return web.json_response(self.service.regions.status(tenant, http.match_info.get("region", "")))

    async def _register(self, http: web.Request) -> web.Response:
        tenant = self.service.neighbour(caller_of(http))
        content = await control_of(http)
        key, offset, size = content.get("key"), content.get("offset", 0), content.get("byte_size")
        if not isinstance(key, str) or type(offset) is not int or type(size) is not int:
            raise BadRequest(
                f"key is {key!r:.50}, offset {offset!r:.50}, byte_size {size!r:.50}; a text and two whole numbers are "
                "expected"
            )
        self.service.regions.register(tenant, http.match_info["region"], key, offset, size)
        return web.Response()

    async def _unregister(self, http: web.Request) -> web.Response:
        tenant = self.service.identify(caller_of(http)).name
        self.service.regions.unregister(tenant, http.match_info.get("region", ""))
        return web.Response()


def reason_for(grant: Grant, reason: str) -> str:
    """Why a network is not ready, as this tenant may know it."""
    return reason if grant.role == "admin" else without_folders(reason)


def extensions_of(service: Service) -> list[str]:
    """What the server offers beyond the protocol's core."""
    return [*EXTENSIONS, "system_shared_memory"] if service.regions.offered else EXTENSIONS


def config_of(name: str, ports: Ports, most_bytes: int, tenant: str) -> Json:
    """The configuration extension, in Triton's words, for a tenant whose request holds ``most_bytes`` of tensors.

    Its parameters say who the caller is.
    """
    kinds, formats = {BYTES: "TYPE_STRING"}, ports.get("formats", {})

    def port(p: Port, batched: bool) -> Json:
        return {
            "name": p["name"],
            "data_type": kinds.get(p["datatype"], f"TYPE_{p['datatype']}"),
            "dims": p["shape"][1:] if batched else p["shape"],
        }

    rows = most_rows(ports, most_bytes)
    batched = rows > 0
    return {
        "name": name,
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "max_batch_size": rows,
        "input": [
            {**port(p, batched), "format": formats.get(p["name"], "FORMAT_NONE")} for p in ports["inputs"]
        ],
        "output": [port(p, batched) for p in ports["outputs"]],
        "parameters": {"tenant": {"string_value": tenant}},
    }


def header_length(text: str | None) -> int | None:
    """Bytes of JSON before raw tensors, as the header says; raises BadRequest."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise BadRequest(f"{HEADER_LENGTH} is {text!r:.50}; a number of bytes is expected")
    return int(text)
