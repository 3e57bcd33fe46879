"""The Open Inference Protocol over gRPC, in the same event loop as HTTP.

The messages are those that ship with tritonclient, so no file has to be generated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.callers import tell_change
from eunomia.serving.fronts.exchange import Inference
from eunomia.serving.fronts.http import config_of, extensions_of, reason_for
from eunomia.serving.fronts.reading import reading
from eunomia.serving.http2.call import Call, Taker
from eunomia.serving.protocol import device_regions
from eunomia.serving.protocol.checks import FILES, check_load
from eunomia.serving.protocol.errors import (
    BadRequest,
    ServingError,
    Unauthenticated,
    forget_frames,
    without_folders,
)
from eunomia.serving.protocol.infer import SMALL_BYTES
from eunomia.serving.protocol.pieces import Pieces
from eunomia.serving.protocol.rpc import framed, parse_message, split_message, write_message
from eunomia.serving.protocol.rpc_types import Index, Managed, Named, Region, Response, Versioned
from eunomia.serving.rpc.caller import caller_of
from eunomia.serving.rpc.ending import refuse
from eunomia.serving.rpc.exchange import RpcExchange, read_beside
from eunomia.serving.rpc.foresight import Sight
from eunomia.serving.rpc.serving import Serving
from eunomia.serving.rpc.streams import Piece, Stream
from eunomia.serving.rpc.unary import serialized
from eunomia.serving.tenants.circle import stranger_at

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
KEYLESS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady")
STATED = 20  # networks whose statistics are put into a message in one turn: a millisecond
STREAMED = 2  # infer_response of a ModelStreamInferResponse
Answer = Response | Awaitable[Response]


class GrpcFront:
    """The RPCs; names are the protocol's."""

    def __init__(self, inference: Inference, serving: Serving) -> None:
        self.inference, self.service, self._serving = inference, inference.service, serving

    def methods(self) -> dict[str, Callable[[Call], Taker]]:
        """What serves a call, by path."""
        simple = {
            method.name: partial(self._simple, method.name, getattr(pb, method.input_type.name))
            for method in SERVICE.methods
            if method.name in vars(GrpcFront)
        }
        named: dict[str, Callable[[Call], Taker]] = {
            "ModelInfer": self._infer,
            "ModelStreamInfer": self._stream,
            **simple,
        }
        return {f"/{SERVICE.full_name}/{name}": serve for name, serve in named.items()}

    def _simple(self, name: str, kind: Any, call: Call) -> Taker:
        method: Callable[[Any, Call], Answer] = getattr(self, name)

        def answer(data: bytes, call: Call) -> Answer:
            try:
                message = kind.FromString(data)
            except DecodeError:
                raise BadRequest(f"the message is no {kind.DESCRIPTOR.name}") from None
            return method(message, call)

        taker = self._serving.unary(call, self._tenant(call, keyless=name in KEYLESS), answer)
        if name == "RepositoryModelLoad":
            taker.too_large = partial(check_load, FILES)  # a message with files in it
        return taker

    def _tenant(self, call: Call, *, keyless: bool = False) -> str:
        try:
            call.tenant = self.service.tenant_of(caller_of(call))
        except Unauthenticated:
            if not keyless:
                raise
            return stranger_at(call.host)
        return call.tenant

    # --- inference -------------------------------------------------------------------------------------

    def _infer(self, call: Call) -> Taker:
        return RpcExchange(self.inference, call, refuse)

    def _stream(self, call: Call) -> Taker:
        who, most = self._tenant(call), self.inference.most_bytes
        sight = Sight(self.inference, caller_of(call), who)
        return self._serving.stream(call, who, self._infer_each, most, sight)

    async def _infer_each(self, stream: Stream) -> None:
        async for data in stream.messages():
            try:
                pieces = await self._infer_one(data, stream)
                await stream.write(framed(STREAMED, pieces))
            except ServingError as error:  # it ends a stream no more than a request that does not fail
                forget_frames(error)
                await stream.write([serialized(failed(data, error))])

    async def _infer_one(self, data: Piece, stream: Stream) -> list[bytes | memoryview]:
        if stream.objection is not None:
            raise stream.objection
        caller = caller_of(stream.call)
        self.service.knock(caller, "")  # before it is read
        with reading(self.service, stream.who, ""):
            request = await read_beside(Pieces([data]), self.inference.json, stream.who)
        served = await self.service.infer(request, caller)
        return write_message(request, served.version, served.outputs, served.in_regions)

    # --- facts -----------------------------------------------------------------------------------------

    def ServerLive(self, request: object, call: Call) -> Response:  # noqa: N802, D102
        return pb.ServerLiveResponse(live=True)

    def ServerReady(self, request: object, call: Call) -> Response:  # noqa: N802, D102
        return pb.ServerReadyResponse(ready=self.service.ready)

    def ServerMetadata(self, request: object, call: Call) -> Response:  # noqa: N802, D102
        extensions = extensions_of(self.service)
        return pb.ServerMetadataResponse(name="eunomia", version=__version__, extensions=extensions)

    def ModelReady(self, request: Versioned, call: Call) -> Response:  # noqa: N802, D102
        entry = self.service.readiness(caller_of(call), request.name, request.version)
        return pb.ModelReadyResponse(ready=entry.state == "READY")

    def ModelMetadata(self, request: Versioned, call: Call) -> Response:  # noqa: N802, D102
        grant = self.service.identify(caller_of(call))
        ports = self.service.repository.ports_for(grant, request.name, request.version)
        metadata = pb.ModelMetadataResponse.TensorMetadata
        return pb.ModelMetadataResponse(
            name=request.name,
            versions=self.service.repository.ready_versions(request.name),
            platform="onnxruntime_onnx",
            inputs=[metadata(**port) for port in ports["inputs"]],
            outputs=[metadata(**port) for port in ports["outputs"]],
        )

    def ModelConfig(self, request: Versioned, call: Call) -> Response:  # noqa: N802, D102
        from google.protobuf.json_format import ParseDict

        grant = self.service.identify(caller_of(call))
        ports = self.service.repository.ports_for(grant, request.name, request.version)
        config = config_of(
            request.name, ports, min(self.service.most_bytes(grant), self.inference.most_bytes), grant.name
        )
        return ParseDict({"config": config}, pb.ModelConfigResponse())

    async def ModelStatistics(self, request: Versioned, call: Call) -> Response:  # noqa: N802, D102
        grant = self.service.identify(caller_of(call))
        await self.inference.json.rounds.turn(grant.name)  # as over HTTP: many may have come at once
        return await self._stated(await self.service.model_statistics(grant, request.name, request.version))

    async def _stated(self, found: Sequence[Json]) -> Response:
        """In several turns of the event loop, if they are many."""
        message = pb.ModelStatisticsResponse()
        for n in range(0, len(found), STATED):
            message.MergeFrom(stated(found[n : n + STATED]))
            await asyncio.sleep(0)
            self.service.rota.begin()
        return message

    # --- the repository --------------------------------------------------------------------------------

    async def RepositoryIndex(self, request: Index, call: Call) -> Response:  # noqa: N802, D102
        grant = self.service.identify(caller_of(call))
        await self.service.repository.look()
        await self.inference.json.rounds.turn(grant.name)  # many may have waited
        index = pb.RepositoryIndexResponse.ModelIndex
        return pb.RepositoryIndexResponse(
            models=[
                index(name=e.name, version=e.version, state=e.state, reason=reason_for(grant, e.reason))
                for e in self.service.repository.entries_for(grant, ready_only=request.ready)
            ]
        )

    async def RepositoryModelLoad(self, request: Managed, call: Call) -> Response:  # noqa: N802, D102
        by = self.service.require_admin(caller_of(call))
        check_load(request.parameters)
        await self.service.repository.load(request.model_name)
        tell_change(f"network '{request.model_name}' is loaded", by)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(self, request: Managed, call: Call) -> Response:  # noqa: N802, D102
        by = self.service.require_admin(caller_of(call))
        await self.service.repository.unload(request.model_name)
        tell_change(f"network '{request.model_name}' is unloaded", by)
        return pb.RepositoryModelUnloadResponse()

    # --- shared memory ---------------------------------------------------------------------------------

    def SystemSharedMemoryRegister(self, request: Region, call: Call) -> Response:  # noqa: N802, D102
        tenant = self.service.neighbour(caller_of(call))
        self.service.regions.register(tenant, request.name, request.key, request.offset, request.byte_size)
        return pb.SystemSharedMemoryRegisterResponse()

    def SystemSharedMemoryUnregister(self, request: Named, call: Call) -> Response:  # noqa: N802, D102
        self.service.regions.unregister(self.service.identify(caller_of(call)).name, request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    def SystemSharedMemoryStatus(self, request: Named, call: Call) -> Response:  # noqa: N802, D102
        status = pb.SystemSharedMemoryStatusResponse()
        for entry in self.service.regions.status(self.service.identify(caller_of(call)).name, request.name):
            region = status.regions[entry["name"]]
            region.name, region.key = entry["name"], entry["key"]
            region.offset, region.byte_size = entry["offset"], entry["byte_size"]
        return status

    def CudaSharedMemoryRegister(self, request: Named, call: Call) -> Response:  # noqa: N802, D102
        self.service.identify(caller_of(call))
        device_regions.register(request.name)
        return pb.CudaSharedMemoryRegisterResponse()

    def CudaSharedMemoryUnregister(self, request: Named, call: Call) -> Response:  # noqa: N802, D102
        self.service.identify(caller_of(call))
        return pb.CudaSharedMemoryUnregisterResponse()

    def CudaSharedMemoryStatus(self, request: Named, call: Call) -> Response:  # noqa: N802, D102
        self.service.identify(caller_of(call))
        device_regions.look(request.name)
        return pb.CudaSharedMemoryStatusResponse()


def failed(data: Piece, error: ServingError) -> Response:
    """The answer of a stream to a request that failed."""
    return pb.ModelStreamInferResponse(error_message=without_folders(str(error)), infer_response=echo(data))


def echo(data: Piece) -> Response:
    """Name and network of a request that failed, as far as they can be read."""
    try:
        message = parse_message(bytes(split_message(Pieces([data]), SMALL_BYTES)[0].joined()))
    except ServingError:
        return pb.ModelInferResponse()
    return pb.ModelInferResponse(id=message.id, model_name=message.model_name)


def stated(found: Sequence[Json]) -> pb.ModelStatisticsResponse:
    """Statistics of some networks."""
    from google.protobuf.json_format import ParseDict

    return ParseDict({"model_stats": found}, pb.ModelStatisticsResponse())
