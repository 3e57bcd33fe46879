"""The Open Inference Protocol over gRPC, in the same event loop as HTTP.

The messages are those that ship with tritonclient, so no file has to be generated.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as stubs

from eunomia.core.arrays import Tensor
from eunomia.core.data import Json
from eunomia.core.version import __version__
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES
from eunomia.serving.fronts.caller import FAIRNESS
from eunomia.serving.fronts.grpc_messages import (
    Call,
    Index,
    InferMessage,
    Input,
    Managed,
    Named,
    Parameter,
    Region,
    Response,
    Versioned,
)
from eunomia.serving.fronts.http import config_of, extensions_of
from eunomia.serving.models.repository import VERSION
from eunomia.serving.protocol.errors import BadRequest, ServingError
from eunomia.serving.protocol.infer import (
    MAX_TENSORS,
    InferRequest,
    InputTensor,
    SharedRegion,
    check_tensor,
    raw_array,
    region_of,
    wanted_output,
)
from eunomia.serving.service import Caller, Service

log = logging.getLogger("eunomia.serving")
CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


class GrpcFront(stubs.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """The RPCs; names are the protocol's."""

    def __init__(self, service: Service) -> None:
        self.service = service

    # --- inference -------------------------------------------------------------------------------------

    async def ModelInfer(self, request: InferMessage, context: Call) -> Response:  # noqa: N802, D102
        try:
            return await self._infer(request, caller_of(context))
        except ServingError as error:
            await abort(context, error)

    async def ModelStreamInfer(  # noqa: N802, D102
        self, requests: AsyncIterator[InferMessage], context: Call
    ) -> AsyncIterator[Response]:
        caller = caller_of(context)
        async for request in requests:
            try:
                yield pb.ModelStreamInferResponse(infer_response=await self._infer(request, caller))
            except ServingError as error:
                response = pb.ModelInferResponse(id=request.id, model_name=request.model_name)
                yield pb.ModelStreamInferResponse(error_message=str(error), infer_response=response)

    async def _infer(self, message: InferMessage, caller: Caller) -> Response:
        request = read_message(message)
        outputs, in_regions = await self.service.infer(request, caller)
        return write_message(request, outputs, in_regions)

    # --- facts -----------------------------------------------------------------------------------------

    async def ServerLive(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        return pb.ServerReadyResponse(ready=self.service.ready)

    async def ServerMetadata(self, request: object, context: Call) -> Response:  # noqa: N802, D102
        extensions = extensions_of(self.service)
        return pb.ServerMetadataResponse(name="eunomia", version=__version__, extensions=extensions)

    async def ModelReady(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            entry = self.service.repository.entry(request.name, request.version)
            return pb.ModelReadyResponse(ready=entry.state == "READY")

    async def ModelMetadata(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            grant = self.service.identify(caller_of(context))
            ports = self.service.repository.ports_for(grant, request.name, request.version)
            metadata = pb.ModelMetadataResponse.TensorMetadata
            return pb.ModelMetadataResponse(
                name=request.name,
                versions=[VERSION],
                platform="onnxruntime_onnx",
                inputs=[metadata(**port) for port in ports["inputs"]],
                outputs=[metadata(**port) for port in ports["outputs"]],
            )

    async def ModelConfig(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        from google.protobuf.json_format import ParseDict

        async with answered(context):
            grant = self.service.identify(caller_of(context))
            ports = self.service.repository.ports_for(grant, request.name, request.version)
            return ParseDict({"config": config_of(request.name, ports)}, pb.ModelConfigResponse())

    async def ModelStatistics(self, request: Versioned, context: Call) -> Response:  # noqa: N802, D102
        from google.protobuf.json_format import ParseDict

        async with answered(context):
            grant = self.service.identify(caller_of(context))
            found = self.service.model_statistics(grant, request.name, request.version)
            return ParseDict({"model_stats": found}, pb.ModelStatisticsResponse())

    # --- the repository --------------------------------------------------------------------------------

    async def RepositoryIndex(self, request: Index, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            grant = self.service.identify(caller_of(context))
            self.service.repository.rescan()
            index = pb.RepositoryIndexResponse.ModelIndex
            return pb.RepositoryIndexResponse(
                models=[
                    index(name=e.name, version=VERSION, state=e.state, reason=e.reason)
                    for e in self.service.repository.entries_for(grant, ready_only=request.ready)
                ]
            )

    async def RepositoryModelLoad(self, request: Managed, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            self.service.require_admin(caller_of(context))
            await self.service.repository.load(request.model_name)
            return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(self, request: Managed, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            self.service.require_admin(caller_of(context))
            await self.service.repository.unload(request.model_name)
            return pb.RepositoryModelUnloadResponse()

    # --- shared memory ---------------------------------------------------------------------------------

    async def SystemSharedMemoryRegister(self, request: Region, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            tenant = self.service.identify(caller_of(context)).name
            self.service.regions.register(
                tenant, request.name, request.key, request.offset, request.byte_size
            )
            return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(self, request: Named, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            self.service.regions.unregister(self.service.identify(caller_of(context)).name, request.name)
            return pb.SystemSharedMemoryUnregisterResponse()

    async def SystemSharedMemoryStatus(self, request: Named, context: Call) -> Response:  # noqa: N802, D102
        async with answered(context):
            status = pb.SystemSharedMemoryStatusResponse()
            for entry in self.service.regions.status(
                self.service.identify(caller_of(context)).name, request.name
            ):
                region = status.regions[entry["name"]]
                region.name, region.key = entry["name"], entry["key"]
                region.offset, region.byte_size = entry["offset"], entry["byte_size"]
            return status


class answered:  # noqa: N801
    """Turns a ServingError inside the block into the RPC's status."""

    def __init__(self, context: Call) -> None:
        self._context = context

    async def __aenter__(self) -> None:
        """Nothing to prepare."""

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Abort with the error's status."""
        if isinstance(error, ServingError):
            await abort(self._context, error)


async def abort(context: Call, error: ServingError) -> NoReturn:
    """End an RPC with one sentence, and when to ask again."""
    if error.retry_after_s is not None:
        context.set_trailing_metadata(
            (("retry-after-ms", str(max(1, math.ceil(error.retry_after_s * 1e3)))),)
        )
    await context.abort(getattr(grpc.StatusCode, error.grpc), str(error))


def caller_of(context: Call) -> Caller:
    """Key, names and deadline of a call."""
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
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
    )


def read_message(message: InferMessage) -> InferRequest:
    """A ModelInferRequest as the service takes it; raises BadRequest."""
    if len(message.inputs) > MAX_TENSORS or len(message.outputs) > MAX_TENSORS:
        raise BadRequest(f"at most {MAX_TENSORS} inputs and outputs are taken")
    raw = list(message.raw_input_contents)
    inputs = tuple(_read_input(entry, raw) for entry in message.inputs)
    if raw:
        raise BadRequest(
            f"raw_input_contents has {len(raw)} entries more than inputs without their own contents"
        )
    outputs = tuple(
        wanted_output(entry.name, True, _parameters(entry.parameters)) for entry in message.outputs
    )
    return InferRequest(
        message.model_name,
        message.model_version,
        message.id,
        inputs,
        outputs,
        True,
        _parameters(message.parameters),
    )


def write_message(
    request: InferRequest, outputs: dict[str, Tensor], in_regions: dict[str, SharedRegion]
) -> Response:
    """The response, with raw tensors."""
    response = pb.ModelInferResponse(model_name=request.model, model_version=VERSION, id=request.request_id)
    for name in [o.name for o in request.outputs] or list(outputs):
        array = np.ascontiguousarray(outputs[name])
        entry = response.outputs.add(name=name, datatype=DATATYPE_OF[array.dtype], shape=array.shape)
        region = in_regions.get(name)
        if region is not None:
            entry.parameters["shared_memory_region"].string_param = region.region
            entry.parameters["shared_memory_byte_size"].int64_param = array.nbytes
            if region.offset:
                entry.parameters["shared_memory_offset"].int64_param = region.offset
        response.raw_output_contents.append(b"" if region is not None else array.tobytes())
    return response


def _read_input(entry: Input, raw: list[bytes]) -> InputTensor:
    """One input: in shared memory, typed, or the next of the raw contents, which is taken from the list."""
    name, datatype, shape = check_tensor(entry.name, entry.datatype, [int(d) for d in entry.shape])
    region = region_of(_parameters(entry.parameters), name)
    if region is not None:
        return InputTensor(name, datatype, shape, region)
    if entry.HasField("contents"):
        field = CONTENTS.get(datatype)
        values = getattr(entry.contents, field) if field else []
        try:
            array = np.array(values, DATATYPES[datatype])
        except (OverflowError, ValueError) as error:
            raise BadRequest(f"tensor '{name}': {error}") from None
        if array.size != math.prod(shape):
            raise BadRequest(
                f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
            )
        return InputTensor(name, datatype, shape, array.reshape(shape))
    if not raw:
        raise BadRequest(f"tensor '{name}' has no contents")
    return InputTensor(name, datatype, shape, raw_array(name, datatype, shape, raw.pop(0)))


def _parameters(parameters: Mapping[str, Parameter]) -> Json:
    """InferParameter messages as plain values."""
    return {
        key: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for key, value in parameters.items()
    }
