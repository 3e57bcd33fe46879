"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.devices.messages import Port, Ports
from eunomia.serving.fronts import fronts
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.openapi import document
from eunomia.serving.models.repository import VERSION
from eunomia.serving.protocol.errors import BadRequest, ServingError, TooLarge
from eunomia.serving.protocol.infer import read_json, read_request, write_response
from eunomia.serving.service import Service

log = logging.getLogger("eunomia.serving")
HEADER_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = [
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpFront:
    """Routes and handlers; everything that needs thought is in the service."""

    def __init__(self, service: Service, max_body_bytes: int, connections: Connections | None = None) -> None:
        self.service = service
        self._max_body = max_body_bytes
        self.connections = Connections(ConnectionLimits()) if connections is None else connections

    def application(self) -> web.Application:
        """The application to run."""
        logging.getLogger("aiohttp.server").addFilter(is_our_fault)
        app = web.Application(
            client_max_size=self._max_body,
            middlewares=[self.connections.middleware(), errors_as_json],
            handler_args={"max_field_size": 16384},
        )
        for prefix in (
            "/v2/models/{model}",
            "/v2/models/{model}/versions/{version}",
        ):  # first: looked at first
            app.add_routes([web.post(f"{prefix}/infer", self._infer)])
        app.add_routes(
            [
                web.get("/v2/health/live", self._live),
                web.get("/v2/health/ready", self._ready),
                web.get("/v2", self._server),
                web.post("/v2/repository/index", self._index),
                web.post("/v2/repository/models/{model}/load", self._load),
                web.post("/v2/repository/models/{model}/unload", self._unload),
                web.get("/metrics", self._metrics),
                web.get("/openapi.json", self._openapi),
                web.get("/v2/models/stats", self._statistics),
                web.get("/v2/systemsharedmemory/status", self._regions),
                web.get("/v2/systemsharedmemory/region/{region}/status", self._regions),
                web.post("/v2/systemsharedmemory/region/{region}/register", self._register),
                web.post("/v2/systemsharedmemory/unregister", self._unregister),
                web.post("/v2/systemsharedmemory/region/{region}/unregister", self._unregister),
            ]
        )
        for front in fronts():
            app.add_routes(front(self.service).routes())
        for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            app.add_routes(
                [
                    web.get(prefix, self._model),
                    web.get(f"{prefix}/ready", self._model_ready),
                    web.get(f"{prefix}/config", self._config),
                    web.get(f"{prefix}/stats", self._statistics),
                ]
            )
        return app

    # --- inference -------------------------------------------------------------------------------------

    async def _infer(self, http: web.Request) -> web.Response:
        caller = caller_of(http)
        if not self.service.anonymous:
            self.service.identify(caller)  # before its body is read
        body = memoryview(await body_of(http, self._max_body))
        request = read_request(
            http.match_info["model"], http.match_info.get("version", ""), body, _header_length(http)
        )
        outputs, in_regions = await self.service.infer(request, caller)
        header, raw, length = write_response(request, VERSION, outputs, in_regions)
        if length is None:
            return web.Response(body=header, content_type="application/json")
        headers = {HEADER_LENGTH: str(length), "Content-Type": "application/octet-stream"}
        return web.Response(body=b"".join([header, *raw]), headers=headers)

    # --- facts -----------------------------------------------------------------------------------------

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _ready(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.service.ready else 503)

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
                "versions": [VERSION],
                "platform": "onnxruntime_onnx",
                "inputs": ports["inputs"],
                "outputs": ports["outputs"],
            }
        )

    async def _model_ready(self, http: web.Request) -> web.Response:
        entry = self.service.repository.entry(http.match_info["model"], http.match_info.get("version", ""))
        return web.Response(status=200 if entry.state == "READY" else 503)

    async def _config(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        name, version = http.match_info["model"], http.match_info.get("version", "")
        return web.json_response(config_of(name, self.service.repository.ports_for(grant, name, version)))

    async def _statistics(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        name, version = http.match_info.get("model", ""), http.match_info.get("version", "")
        return web.json_response({"model_stats": self.service.model_statistics(grant, name, version)})

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(document())

    async def _metrics(self, http: web.Request) -> web.Response:
        if not self.service.anonymous:
            self.service.require_admin(caller_of(http))
        page = await self.service.metrics_page()
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    # --- the repository --------------------------------------------------------------------------------

    async def _index(self, http: web.Request) -> web.Response:
        grant = self.service.identify(caller_of(http))
        content = read_json(await http.read() or b"{}")
        self.service.repository.rescan()
        entries = self.service.repository.entries_for(grant, ready_only=content.get("ready") is True)
        return web.json_response(
            [{"name": e.name, "version": VERSION, "state": e.state, "reason": e.reason} for e in entries]
        )

    async def _load(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        await self.service.repository.load(http.match_info["model"])
        return web.Response()

    async def _unload(self, http: web.Request) -> web.Response:
        self.service.require_admin(caller_of(http))
        await self.service.repository.unload(http.match_info["model"])
        return web.Response()

    # --- shared memory ---------------------------------------------------------------------------------

    async def _regions(self, http: web.Request) -> web.Response:
        tenant = self.service.identify(caller_of(http)).name
        return web.json_response(self.service.regions.status(tenant, http.match_info.get("region", "")))

    async def _register(self, http: web.Request) -> web.Response:
        tenant = self.service.identify(caller_of(http)).name
        content = read_json(await http.read())
        key, offset, size = content.get("key"), content.get("offset", 0), content.get("byte_size")
        if not isinstance(key, str) or type(offset) is not int or type(size) is not int:
            raise BadRequest("key must be a string, offset and byte_size whole numbers")
        self.service.regions.register(tenant, http.match_info["region"], key, offset, size)
        return web.Response()

    async def _unregister(self, http: web.Request) -> web.Response:
        tenant = self.service.identify(caller_of(http)).name
        self.service.regions.unregister(tenant, http.match_info.get("region", ""))
        return web.Response()


async def body_of(http: web.Request, most: int) -> bytes:
    """The whole body, joined once (``http.read`` copies it three times); raises HTTPRequestEntityTooLarge."""
    pieces, size = [], 0
    while piece := await http.content.readany():
        size += len(piece)
        if size > most:
            raise web.HTTPRequestEntityTooLarge(most, size)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure as ``{"error": one sentence}``; nothing of the inside leaks."""
    if (request.content_length or 0) > request.client_max_size:
        return error_response(
            TooLarge(f"the body is larger than the {request.client_max_size} bytes that are taken")
        )
    try:
        return await handler(request)
    except ServingError as error:
        return error_response(error)
    except web.HTTPRequestEntityTooLarge as error:
        return error_response(TooLarge(f"the body is larger than the server takes: {error.text or ''}"[:200]))
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return web.json_response({"error": error.reason}, status=error.status)
    except ConnectionResetError:  # the client went away in the middle of its body; nobody reads this
        return web.json_response({"error": "the client has gone away"}, status=499)
    except Exception:
        log.exception("a handler failed")
        return web.json_response({"error": "the server has failed; its log says more"}, status=500)


def is_our_fault(record: logging.LogRecord) -> bool:
    """Logging filter: whoever sends what is no HTTP (a gRPC client at the wrong port) fills no log with tracebacks."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BadHttpMessage):
        log.debug("what a client sent is no HTTP: %.200r", error.message)
        return False
    return True


def error_response(error: ServingError) -> web.Response:
    """The response for a deliberate error."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
        headers["Retry-After-Ms"] = str(max(1, math.ceil(error.retry_after_s * 1e3)))
    body = json.dumps({"error": str(error), "reason": error.reason})
    return web.Response(status=error.http, text=body, content_type="application/json", headers=headers)


def extensions_of(service: Service) -> list[str]:
    """What the server offers beyond the protocol's core."""
    return [*EXTENSIONS, "system_shared_memory"] if service.regions.offered else EXTENSIONS


def config_of(name: str, ports: Ports) -> Json:
    """The configuration extension, in Triton's words."""
    kinds = {"BOOL": "TYPE_BOOL"}

    def port(p: Port, batched: bool) -> Json:
        return {
            "name": p["name"],
            "data_type": kinds.get(p["datatype"], f"TYPE_{p['datatype']}"),
            "dims": p["shape"][1:] if batched else p["shape"],
        }

    batched = all(p["shape"][:1] == [-1] for p in (*ports["inputs"], *ports["outputs"]))
    return {
        "name": name,
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "max_batch_size": 64 if batched else 0,
        "input": [port(p, batched) for p in ports["inputs"]],
        "output": [port(p, batched) for p in ports["outputs"]],
    }


def _header_length(http: web.Request) -> int | None:
    text = http.headers.get(HEADER_LENGTH)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise BadRequest(f"{HEADER_LENGTH} is {text!r:.50}; a number of bytes is expected")
    return int(text)
