"""Inference requests and responses: JSON with raw tensors behind it, as stock clients send them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.data import Json
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES
from eunomia.serving.protocol.errors import BadRequest

MAX_HEADER_BYTES = 1024 * 1024  # the JSON part of a request with raw tensors
MAX_TENSORS = 64
MAX_RANK = 16
MAX_ELEMENTS = 2**31
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """Where a tensor lies in shared memory that the client registered."""

    region: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class InputTensor:
    """One input: ``data`` is an array, or the region that holds it."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Tensor | SharedRegion


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """One output that the client asks for, and how it wants it."""

    name: str
    binary: bool = False
    region: SharedRegion | None = None


@dataclass(frozen=True)
class InferRequest:
    """What both protocols boil down to."""

    model: str
    version: str = ""
    request_id: str = ""
    inputs: tuple[InputTensor, ...] = ()
    outputs: tuple[WantedOutput, ...] = ()  # empty = all
    all_binary: bool = False
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def tensor_bytes(self) -> int:
        """Size of all inputs."""
        return sum(nbytes(t.datatype, t.shape) for t in self.inputs)


def nbytes(datatype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor."""
    return int(DATATYPES[datatype].itemsize * math.prod(shape))


def read_request(model: str, version: str, body: memoryview, header_bytes: int | None) -> InferRequest:
    """An HTTP body; ``header_bytes``: length of its JSON part, None = all of it. Raises BadRequest."""
    length = len(body) if header_bytes is None else header_bytes
    if not 0 <= length <= len(body):
        raise BadRequest(f"Inference-Header-Content-Length is {length}; the body holds {len(body)} bytes")
    if header_bytes is not None and length > MAX_HEADER_BYTES:
        raise BadRequest(f"the JSON part has {length} bytes; at most {MAX_HEADER_BYTES} are taken")
    content = read_json(bytes(body[:length]))
    parameters = parameters_of(content)
    raw = body[length:]
    inputs = []
    for entry in _entries(content, "inputs"):
        tensor, raw = _read_input(entry, raw)
        inputs.append(tensor)
    if len(raw):
        raise BadRequest(f"{len(raw)} bytes follow the last tensor; sum the sizes again")
    return InferRequest(
        model,
        version,
        _text(content.get("id", ""), "id"),
        tuple(inputs),
        tuple(_read_wanted(entry) for entry in _entries(content, "outputs", missing=True)),
        parameters.get("binary_data_output") is True,
        parameters,
    )


def read_json(content: bytes) -> Json:
    """A JSON object; raises BadRequest."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body is a JSON {type(value).__name__}; an object is expected")
    return value


def parameters_of(content: Json) -> Json:
    """The parameters of a message or of a tensor; raises BadRequest."""
    parameters = content.get("parameters", {})
    if not isinstance(parameters, dict):
        raise BadRequest(f"parameters is a JSON {type(parameters).__name__}; an object is expected")
    return parameters


def check_tensor(name: object, datatype: object, shape: object) -> tuple[str, str, tuple[int, ...]]:
    """Name, datatype and shape within bounds; raises BadRequest."""
    name = _text(name, "a tensor's name")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise BadRequest(f"tensor '{name}': datatype {datatype!r:.50} is not one of {', '.join(DATATYPES)}")
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) > MAX_RANK:
        raise BadRequest(f"tensor '{name}': the shape must be a list of at most {MAX_RANK} sizes")
    if not all(isinstance(d, int) and not isinstance(d, bool) and 0 <= d <= MAX_ELEMENTS for d in shape):
        raise BadRequest(f"tensor '{name}': the shape must hold whole numbers from 0 to {MAX_ELEMENTS}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise BadRequest(f"tensor '{name}': {math.prod(shape)} elements; at most {MAX_ELEMENTS} are taken")
    return name, datatype, tuple(shape)


def raw_array(name: str, datatype: str, shape: tuple[int, ...], raw: memoryview | bytes) -> Tensor:
    """Little-endian bytes as an array, without a copy; raises BadRequest."""
    need = nbytes(datatype, shape)
    if len(raw) != need:
        raise BadRequest(f"tensor '{name}': {len(raw)} bytes given, {datatype} {list(shape)} needs {need}")
    return np.frombuffer(raw, DATATYPES[datatype]).reshape(shape)


def raw_bytes(array: Tensor) -> memoryview:
    """The bytes of a contiguous array of any type and size, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def region_of(parameters: Mapping[str, object], name: str) -> SharedRegion | None:
    """Shared memory named in a tensor's parameters; raises BadRequest."""
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    offset = _size(parameters.get("shared_memory_offset", 0), "offset", name)
    size = _size(parameters.get("shared_memory_byte_size"), "byte_size", name)
    return SharedRegion(_text(region, "shared_memory_region"), offset, size)


def _size(value: object, what: str, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequest(
            f"tensor '{name}': shared_memory_{what} is {value!r:.50}; a size in bytes is expected"
        )
    return value


def write_response(
    request: InferRequest,
    version: str,
    outputs: Mapping[str, Tensor],
    in_regions: Mapping[str, SharedRegion],
) -> tuple[bytes, list[bytes | memoryview], int | None]:
    """The JSON part, the raw tensors behind it, and the JSON's length if there are raw tensors."""
    wanted = request.outputs or tuple(WantedOutput(name, request.all_binary) for name in outputs)
    entries: list[Json] = []
    raw: list[bytes | memoryview] = []
    for want in wanted:
        array = np.ascontiguousarray(outputs[want.name])
        entry: Json = {"name": want.name, "datatype": DATATYPE_OF[array.dtype], "shape": list(array.shape)}
        if want.name in in_regions:
            region = in_regions[want.name]
            entry["parameters"] = {
                "shared_memory_region": region.region,
                "shared_memory_byte_size": array.nbytes,
                **({"shared_memory_offset": region.offset} if region.offset else {}),
            }
        elif want.binary:
            entry["parameters"] = {"binary_data_size": array.nbytes}
            raw.append(raw_bytes(array))
        else:
            entry["data"] = _plain(array)
        entries.append(entry)
    content: Json = {"model_name": request.model, "model_version": version, "outputs": entries}
    if request.request_id:
        content["id"] = request.request_id
    header = json.dumps(content, separators=(",", ":")).encode()
    return header, raw, len(header) if raw else None


def _plain(array: Tensor) -> list[float | None]:
    """Numbers for JSON, which has neither NaN nor infinity: those become null."""
    flat = array.ravel()
    if array.dtype.kind == "f" and not np.isfinite(flat).all():
        return [value if math.isfinite(value) else None for value in flat.tolist()]
    return flat.tolist()


def _entries(content: Json, key: str, *, missing: bool = False) -> list[Json]:
    entries = content.get(key, [] if missing else None)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadRequest(f"'{key}' must be a list of objects")
    if len(entries) > MAX_TENSORS:
        raise BadRequest(f"'{key}' has {len(entries)} entries; at most {MAX_TENSORS} are taken")
    return entries


def _read_input(entry: Json, raw: memoryview) -> tuple[InputTensor, memoryview]:
    name, datatype, shape = check_tensor(entry.get("name"), entry.get("datatype"), entry.get("shape"))
    parameters = parameters_of(entry)
    region = region_of(parameters, name)
    if region is not None:
        return InputTensor(name, datatype, shape, region), raw
    size = parameters.get("binary_data_size")
    if size is not None:
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(raw):
            raise BadRequest(
                f"tensor '{name}': binary_data_size is {size!r:.50}; {len(raw)} bytes are left in the body"
            )
        return InputTensor(name, datatype, shape, raw_array(name, datatype, shape, raw[:size])), raw[size:]
    if "data" not in entry:
        raise BadRequest(f"tensor '{name}' has neither data nor binary_data_size nor a shared memory region")
    return InputTensor(name, datatype, shape, _from_json(name, datatype, shape, entry["data"])), raw


def _from_json(name: str, datatype: str, shape: tuple[int, ...], data: object) -> Tensor:
    """Numbers of a JSON list, flat or nested."""
    dtype = DATATYPES[datatype]
    try:
        array = np.array(data)
        if array.dtype.kind not in "biuf" and array.size:
            raise ValueError("it holds something that is not a number")
        if dtype.kind in "iu" and array.size and (array.dtype.kind not in "biu" or not _fits(array, dtype)):
            raise ValueError(f"a value does not fit into {datatype}")
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(f"tensor '{name}': {str(error)[:200]}") from None
    if array.size != math.prod(shape):
        raise BadRequest(
            f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
        )
    return array.reshape(shape)


def _fits(array: Tensor, dtype: np.dtype[np.generic]) -> bool:
    limits = np.iinfo(dtype.name)
    return bool(int(array.min()) >= limits.min and int(array.max()) <= limits.max)


def _read_wanted(entry: Json) -> WantedOutput:
    parameters = parameters_of(entry)
    name = _text(entry.get("name"), "an output's name")
    return wanted_output(name, parameters.get("binary_data") is True, parameters)


def wanted_output(name: str, binary: bool, parameters: Mapping[str, object]) -> WantedOutput:
    """What its parameters ask for; raises BadRequest."""
    if parameters.get("classification"):
        raise BadRequest(f"output '{name}': the classification extension is not offered; ask for the tensor")
    return WantedOutput(name, binary, region_of(parameters, name))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise BadRequest(f"{what} must be a string of at most {MAX_NAME} letters")
    return value
