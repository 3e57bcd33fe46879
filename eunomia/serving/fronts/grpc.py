"""The Open Inference Protocol over gRPC, in the same event loop as HTTP.

The messages are those that ship with tritonclient, so no file has to be generated.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from eunomia.core.version import __version__
from eunomia.serving.fronts.body import LARGE
from eunomia.serving.fronts.caller import FAIRNESS, is_loopback
from eunomia.serving.fronts.grpc_door import Behaviour, Door, host_of
from eunomia.serving.fronts.http import config_of, extensions_of, reason_for
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.untaken import Untaken
from eunomia.serving.protocol.checks import FILES, check_load
from eunomia.serving.protocol.errors import (
    BadRequest,
    ServingError,
    TooLarge,
    Unauthenticated,
    forget_frames,
    without_folders,
)
from eunomia.serving.protocol.infer import SMALL_BYTES, InferRequest
from eunomia.serving.protocol.rpc import framed, parse_message, read_message, split_message, write_message
from eunomia.serving.protocol.rpc_types import (
    Call,
    Index,
    Managed,
    Named,
    Region,
    Response,
    Versioned,
)
from eunomia.serving.service import Service
from eunomia.serving.visit import Caller

log = logging.getLogger("eunomia.serving")
SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
INFERENCE = ("ModelInfer", "ModelStreamInfer")
UNREAD = ("ServerLive", "ServerReady", "ServerMetadata")  # their messages say nothing: nobody waits for them
KEYLESS = ("ModelReady",)
STREAMED = 2  # infer_response of a ModelStreamInferResponse


class GrpcFront:
    """The RPCs; names are the protocol's."""

    def __init__(self, service: Service, door: Door, json: JsonProcess, max_bytes: int) -> None:
        self.service, self.door, self.json, self._most = service, door, json, max_bytes
        self.untaken = Untaken(service.bodies, door.limits.body_s)

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server serves: every RPC of this class."""
        simple = {
            method.name: self._simple(method.name, getattr(pb, method.input_type.name))
            for method in SERVICE.methods
            if method.name in vars(GrpcFront) and method.name not in INFERENCE
        }
        return self.door.served(
            {"ModelInfer": self.ModelInfer, **simple},
            {"ModelStreamInfer": self.ModelStreamInfer},
            SERVICE.full_name,
        )

    def _simple(self, name: str, kind: Any) -> Behaviour:
        """An RPC with a small message: whose call it is, then the message, then what the method says."""
        method: Callable[[object, Call], Awaitable[Response]] = getattr(self, name)

        async def at_once(_: object, context: Call) -> Response:
            return await method(None, context)

        async def answer(_: object, context: Call) -> Response:
            tenant = self._tenant(context, keyless=name in KEYLESS)
            try:
                data = await self.door.read(context, tenant)
            except TooLarge:
                check_load(FILES if name == "RepositoryModelLoad" else ())
                raise
            try:
                message = kind.FromString(data)
            except DecodeError:
                raise BadRequest(f"the message is no {kind.DESCRIPTOR.name}") from None
            return await method(message, context)

        return at_once if name in UNREAD else answer

    def _tenant(self, context: Call, *, keyless: bool = False) -> str:
        try:
            return self.service.tenant_of(caller_of(context))
        except Unauthenticated:
            if keyless:
                return self.door.stranger(context)
            raise

    # --- inference -------------------------------------------------------------------------------------

    async def ModelInfer(self, _: object, context: Call) -> Response:  # noqa: N802, D102
        caller = caller_of(context)
        tenant = self.service.tenant_of(caller)
        data = await self.door.read(context, tenant, self._most)
        answer = await joined(await self._infer(data, caller, tenant))
        self.untaken.until_taken(context, tenant, len(answer))
        return answer

    async def ModelStreamInfer(self, _: object, context: Call) -> Response:  # noqa: N802, D102
        caller = caller_of(context)
        tenant = self.service.tenant_of(caller)
        async with self.door.stream(context, tenant, self._most) as messages:
            async for data in messages:
                try:
                    pieces = await self._infer(data, caller, tenant)
                    with self.untaken.taking(context, tenant, sum(map(len, pieces))):
                        answer = await joined(framed(STREAMED, pieces))
                        self.door.gave(context, answer)
                        await context.write(answer)
                except ServingError as error:  # it ends a stream no more than a request that does not fail
                    forget_frames(error)
                    await context.write(failed(data, error))
        return None

    async def _infer(self, data: bytes, caller: Caller, tenant: str) -> list[bytes | memoryview]:
        self.service.knock(caller, "")  # before it is read
        with self.service.reading(tenant, ""):
            request = await self._read(data, tenant)
        served = await self.service.infer(request, caller)
        return write_message(request, served.version, served.outputs, served.in_regions)

    async def _read(self, data: bytes, tenant: str) -> InferRequest:
        rest, raw = split_message(data, self.json.most_bytes)
        if len(rest) <= SMALL_BYTES:
            return read_message(parse_message(rest), raw)
        rest, numbers = await self.json.take_out("rpc", rest, tenant)
        return read_message(parse_message(rest), raw, numbers)

    # --- facts -----------------------------------------------------------------------------------------

    async def ServerLive(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        return pb.ServerReadyResponse(ready=self.service.ready)

    async def ServerMetadata(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        extensions = extensions_of(self.service)
        return pb.ServerMetadataResponse(name="eunomia", version=__version__, extensions=extensions)

    async def ModelReady(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        entry = self.service.repository.entry(request.name, request.version)
        return pb.ModelReadyResponse(ready=entry.state == "READY")

    async def ModelMetadata(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        grant = self.service.identify(caller_of(context))
        ports = self.service.repository.ports_for(grant, request.name, request.version)
        metadata = pb.ModelMetadataResponse.TensorMetadata
        return pb.ModelMetadataResponse(
            name=request.name,
            versions=self.service.repository.ready_versions(request.name),
            platform="onnxruntime_onnx",
            inputs=[metadata(**port) for port in ports["inputs"]],
            outputs=[metadata(**port) for port in ports["outputs"]],
        )

    async def ModelConfig(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        from google.protobuf.json_format import ParseDict

        grant = self.service.identify(caller_of(context))
        ports = self.service.repository.ports_for(grant, request.name, request.version)
        config = config_of(request.name, ports, min(self.service.most_bytes(grant), self._most))
        return ParseDict({"config": config}, pb.ModelConfigResponse())

    async def ModelStatistics(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        from google.protobuf.json_format import ParseDict

        grant = self.service.identify(caller_of(context))
        found = self.service.model_statistics(grant, request.name, request.version)
        return ParseDict({"model_stats": found}, pb.ModelStatisticsResponse())

    # --- the repository --------------------------------------------------------------------------------

    async def RepositoryIndex(self, request: Index, context: Call) -> Response:  # noqa: N802, D102
        grant = self.service.identify(caller_of(context))
        self.service.repository.rescan()
        index = pb.RepositoryIndexResponse.ModelIndex
        return pb.RepositoryIndexResponse(
            models=[
                index(name=e.name, version=e.version, state=e.state, reason=reason_for(grant, e.reason))
                for e in self.service.repository.entries_for(grant, ready_only=request.ready)
            ]
        )

    async def RepositoryModelLoad(self, request: Managed, context: Call) -> Response:  # noqa: N802, D102
        self.service.require_admin(caller_of(context))
        check_load(request.parameters)
        await self.service.repository.load(request.model_name)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(self, request: Managed, context: Call) -> Response:  # noqa: N802, D102
        self.service.require_admin(caller_of(context))
        await self.service.repository.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()

    # --- shared memory ---------------------------------------------------------------------------------

    async def SystemSharedMemoryRegister(self, request: Region, context: Call) -> Response:  # noqa: N802, D102
        tenant = self.service.neighbour(caller_of(context))
        self.service.regions.register(tenant, request.name, request.key, request.offset, request.byte_size)
        return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(self, request: Named, context: Call) -> Response:  # noqa: N802, D102
        self.service.regions.unregister(self.service.identify(caller_of(context)).name, request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    async def SystemSharedMemoryStatus(self, request: Named, context: Call) -> Response:  # noqa: N802, D102
        status = pb.SystemSharedMemoryStatusResponse()
        for entry in self.service.regions.status(
            self.service.identify(caller_of(context)).name, request.name
        ):
            region = status.regions[entry["name"]]
            region.name, region.key = entry["name"], entry["key"]
            region.offset, region.byte_size = entry["offset"], entry["byte_size"]
        return status


async def joined(pieces: list[bytes | memoryview]) -> bytes:
    """A message in one piece, as the library wants it; a large one beside the event loop."""
    if sum(map(len, pieces)) < LARGE:
        return b"".join(pieces)
    return await asyncio.to_thread(b"".join, pieces)


def failed(data: bytes, error: ServingError) -> Response:
    """The answer of a stream to a request that failed."""
    return pb.ModelStreamInferResponse(error_message=without_folders(str(error)), infer_response=echo(data))


def echo(data: bytes) -> Response:
    """Name and network of a request that failed, as far as they can be read."""
    try:
        message = parse_message(split_message(data, SMALL_BYTES)[0])
    except ServingError:
        return pb.ModelInferResponse()
    return pb.ModelInferResponse(id=message.id, model_name=message.model_name)


def caller_of(context: Call) -> Caller:
    """Key, names and deadline of a call; of what is given twice the first counts, as over HTTP."""
    given = tuple(context.invocation_metadata() or ())
    metadata = {key: value for key, value in reversed(given) if isinstance(value, str)}
    scheme, _, key = metadata.get("authorization", "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" and key.strip() else None
    fairness = next((metadata[name] for name in FAIRNESS if name in metadata), None)
    left_s = context.time_remaining()
    return Caller(
        bearer or metadata.get("x-api-key"),
        fairness,
        metadata.get("x-tenant-id"),
        math.inf if left_s is None else max(left_s, 1e-3),
        metadata.get("traceparent"),
        is_loopback(host_of(context)),
    )
