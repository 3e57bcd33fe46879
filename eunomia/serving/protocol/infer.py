"""Inference requests: JSON with raw tensors behind it, as stock clients send them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eunomia.core.data import Json
from eunomia.serving.devices.messages import DATATYPES, MAX_TENSORS
from eunomia.serving.devices.ports import MAX_NAME, MAX_RANK
from eunomia.serving.devices.strings import BYTES, Strings, Value
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.numbers import NO_NUMBERS, array_of
from eunomia.serving.protocol.pieces import Pieces, ScatteredTensor
from eunomia.serving.protocol.raw import nbytes, raw_tensor
from eunomia.serving.protocol.strange import EXAMPLE, alike, meant_type, no_list
from eunomia.serving.protocol.strings import Bound
from eunomia.serving.tenants.kept import Kept

MAX_TEXT = 200  # letters of an id, or of a region's name
KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
SMALL_BYTES = 32 * 1024  # of JSON that the server's own process reads: at most two milliseconds
Body = TypeVar("Body", memoryview, Pieces)
SHORT = (
    " (Inference-Header-Content-Length ends the JSON after {} of {} bytes; tritonclient adds that header to the dict "
    "of headers that it is given: give each call its own)"
)
KNOWN_BYTES = 1024  # of JSON that is remembered
KNOWN_OBJECTS, FORMS = 40, 256  # in one of these; and so many of them
MAX_ELEMENTS = 2**31


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
    data: Value | SharedRegion | ScatteredTensor

    @property
    def nbytes(self) -> int:
        """Size; of strings in a region, what the client says."""
        if isinstance(self.data, Strings):
            return self.data.nbytes
        if self.datatype == BYTES and isinstance(self.data, SharedRegion):
            return self.data.size
        return nbytes(self.datatype, self.shape)


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """One output that the client asks for, and how it wants it."""

    name: str
    binary: bool = False
    region: SharedRegion | None = None
    classes: int = 0  # of the largest values so many, as texts; 0 = the tensor


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
    form: Form | None = field(default=None, compare=False)  # all of it that clients send again

    @property
    def names_memory(self) -> bool:
        """Whether a tensor lies in shared memory."""
        if self.form is not None:
            return self.form.names_memory
        regions = any(isinstance(t.data, SharedRegion) for t in self.inputs)
        return regions or any(output.region is not None for output in self.outputs)

    @property
    def names_classes(self) -> bool:
        """Whether an output is wanted as classes."""
        if self.form is not None:
            return self.form.names_classes
        return any(output.classes for output in self.outputs)

    @property
    def tensor_bytes(self) -> int:
        """Size of all inputs."""
        size = 0
        for tensor in self.inputs:
            size += tensor.nbytes
        return size


def split_body(body: memoryview | Pieces, header_bytes: int | None) -> tuple[bytes, memoryview | Pieces]:
    """An HTTP body's JSON part, ``header_bytes`` long (None = all of it), and its raw tensors. Raises BadRequest."""
    if isinstance(body, Pieces):
        pieces, raw = split_uncopied(body, header_bytes)
        return bytes(pieces.joined()), raw
    header, rest = split_uncopied(body, header_bytes)
    return bytes(header), rest


def split_uncopied(body: Body, header_bytes: int | None) -> tuple[Body, Body]:
    """The same where it lies: a large one takes long to copy. Raises BadRequest."""
    length = len(body) if header_bytes is None else header_bytes
    if not 0 <= length <= len(body):
        raise BadRequest(f"Inference-Header-Content-Length is {length}; the body holds {len(body)} bytes")
    return body[:length], body[length:]


def read_request(
    model: str,
    version: str,
    header: bytes,
    raw: memoryview | Pieces,
    numbers: Sequence[Value | None] = (),
    tenant: str = "",
) -> InferRequest:
    """JSON part and raw tensors; ``numbers``: of inputs that were taken out of it before. Raises BadRequest."""
    try:
        form = _form_again(header, tenant) if is_plain(header) else _form_of(header)
    except BadRequest as error:
        raise BadRequest(
            f"{error}{SHORT.format(len(header), len(header) + len(raw)) if len(raw) else ''}"
        ) from None
    inputs, at, texts = list[InputTensor](), 0, Bound()
    for n, declared in enumerate(form.inputs):
        tensor, at = _read_input(declared, raw, at, numbers[n] if numbers else None)
        inputs.append(tensor)
        texts.add(tensor)
    if at < len(raw):
        raise BadRequest(f"{len(raw) - at} bytes follow the last tensor; sum the sizes again")
    all_binary, parameters = form.parameters.get("binary_data_output") is True, form.parameters
    return InferRequest(
        model, version, form.request_id, tuple(inputs), form.outputs, all_binary, parameters, form
    )


@dataclass(frozen=True, slots=True)
class Declared:
    """An input as the JSON part says; ``size``: of its bytes behind it, None = they are elsewhere; not checked yet."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    region: SharedRegion | None
    size: object
    entry: Json


@dataclass(slots=True, eq=False)
class Form:
    """All that a request says beside the values of its tensors, checked. ``fit``: what it was found to fit last."""

    parameters: Json
    request_id: str
    inputs: tuple[Declared, ...]
    outputs: tuple[WantedOutput, ...]
    model: str = ""  # and its version, where they do not stand elsewhere
    version: str = ""
    fit: object = None
    names_memory: bool = field(init=False)  # whether a tensor lies in shared memory
    names_classes: bool = field(init=False)  # whether an output is wanted so

    def __post_init__(self) -> None:
        regions = [*(one.region for one in self.inputs), *(one.region for one in self.outputs)]
        self.names_memory = any(region is not None for region in regions)
        self.names_classes = any(output.classes for output in self.outputs)


def _form_of(header: bytes) -> Form:
    content = given(read_json(header))
    return Form(
        parameters_of(content),
        _text(content.get("id", ""), "id"),
        tuple(_declared(given(entry)) for entry in entries_of(content, "inputs")),
        tuple(_read_wanted(given(entry)) for entry in entries_of(content, "outputs", missing=True)),
    )


_forms = Kept[Form](FORMS)  # clients send the same again; nobody changes it


def _form_again(header: bytes, tenant: str) -> Form:
    if (form := _forms.find(tenant, header)) is None:
        form = _form_of(header)
        _forms.keep(tenant, header, form)
    return form


def is_plain(header: bytes) -> bool:
    """Whether it may be kept: many small objects that live long make the garbage collector's turns long."""
    return len(header) <= KNOWN_BYTES and header.count(b"[") + header.count(b"{") <= KNOWN_OBJECTS


def read_json(content: bytes) -> Json:
    """A JSON object; raises BadRequest."""
    try:
        value = json.loads(content, parse_constant=NO_NUMBERS.__getitem__)
    except (ValueError, RecursionError) as error:
        found = f"not JSON: {str(error)[:200]}" if content else f"empty: send {EXAMPLE}"
        raise BadRequest(f"the body is {found}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body is {kind_of(value)}; an object is expected")
    return value


def given(content: Json) -> Json:
    """Without nulls: clients whose messages are made of classes write one for each field that is left out."""
    return {name: value for name, value in content.items() if value is not None}


def kind_of(value: object) -> str:
    """What JSON calls it."""
    return "null" if value is None else f"a JSON {KINDS[type(value)]}"


def parameters_of(content: Json) -> Json:
    """The parameters of a message or of a tensor; raises BadRequest."""
    parameters = given(content).get("parameters", {})
    if not isinstance(parameters, dict):
        raise BadRequest(f"parameters is {kind_of(parameters)}; an object is expected, or leave it out")
    return given(parameters)


def check_tensor(name: object, datatype: object, shape: object) -> tuple[str, str, tuple[int, ...]]:
    """Name, datatype and shape within bounds; raises BadRequest."""
    name = _text(name, "a tensor's name", MAX_NAME)
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        meant = meant_type(datatype) if isinstance(datatype, str) else ""
        known = ", ".join(DATATYPES)
        raise BadRequest(f"tensor '{name}': datatype {datatype!r:.50} is not one of {known}{meant}")
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise BadRequest(f"tensor '{name}': the shape is {shape!r:.50}; a list of sizes is expected")
    if len(shape) > MAX_RANK:
        raise BadRequest(f"tensor '{name}': the shape has {len(shape)} sizes; at most {MAX_RANK} are taken")
    for size in shape:
        if type(size) is not int or not 0 <= size <= MAX_ELEMENTS:
            raise BadRequest(
                f"tensor '{name}': the shape holds {size!r:.50}; whole numbers from 0 to {MAX_ELEMENTS} are sizes"
            )
    if math.prod(shape) > MAX_ELEMENTS:
        raise BadRequest(f"tensor '{name}': {math.prod(shape)} elements; at most {MAX_ELEMENTS} are taken")
    return name, datatype, tuple(shape)


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


def entries_of(content: Json, key: str, *, missing: bool = False) -> list[Json]:
    """A list of objects within bounds; ``missing``: it may be left out. Raises BadRequest."""
    entries = content.get(key, [] if missing else None)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadRequest(no_list(key, content))
    if len(entries) > MAX_TENSORS:
        raise BadRequest(f"'{key}' has {len(entries)} entries; at most {MAX_TENSORS} are taken")
    return entries


def tensor_of_json(entry: Json) -> Value:
    """The numbers or texts of an input; raises BadRequest."""
    return array_of(*_checked(given(entry)), entry["data"])


def _checked(entry: Json) -> tuple[str, str, tuple[int, ...]]:
    for key in ("name", "datatype", "shape"):
        if key not in entry:
            named = f"tensor {entry.get('name')!r:.50}" if "name" in entry else "a tensor"
            raise BadRequest(f"{named} has no '{key}'{alike(key, entry)}: send {EXAMPLE}")
    return check_tensor(entry["name"], entry["datatype"], entry["shape"])


def _declared(entry: Json) -> Declared:
    name, datatype, shape = _checked(entry)
    parameters = parameters_of(entry)
    region = region_of(parameters, name)
    return Declared(name, datatype, shape, region, parameters.get("binary_data_size"), entry)


def _read_input(
    one: Declared, raw: memoryview | Pieces, at: int, numbers: Value | None
) -> tuple[InputTensor, int]:
    """An input, and where the bytes of the next one begin."""
    name, datatype, shape, size = one.name, one.datatype, one.shape, one.size
    if one.region is not None:
        return InputTensor(name, datatype, shape, one.region), at
    if size is not None:
        left = len(raw) - at
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= left:
            raise BadRequest(
                f"tensor '{name}': binary_data_size is {size!r:.50}; {left} bytes are left in the body"
            )
        data = raw_tensor(name, datatype, shape, raw[at : at + size])
        return InputTensor(name, datatype, shape, data), at + size
    if numbers is not None:
        return InputTensor(name, datatype, shape, numbers), at
    if "data" not in one.entry:
        raise BadRequest(f"tensor '{name}' has neither data nor binary_data_size nor a shared memory region")
    return InputTensor(name, datatype, shape, array_of(name, datatype, shape, one.entry["data"])), at


def _read_wanted(entry: Json) -> WantedOutput:
    parameters = parameters_of(entry)
    name = _text(entry.get("name"), "an output's name", MAX_NAME)
    return wanted_output(name, parameters.get("binary_data") is True, parameters)


def wanted_output(name: str, binary: bool, parameters: Mapping[str, object]) -> WantedOutput:
    """What its parameters ask for; raises BadRequest."""
    classes = parameters.get("classification", 0)
    if type(classes) is not int or classes < 0:
        said = json.dumps(classes, default=str)
        raise BadRequest(
            f"output '{name}': classification is {said:.50}; a whole number from 1 on is expected"
        )
    return WantedOutput(name, binary, region_of(parameters, name), classes)


def _text(value: object, what: str, most: int = MAX_TEXT) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"{what} is {value!r:.50}; a text is expected")
    if len(value) > most:
        raise BadRequest(f"{what} has {len(value)} letters; at most {most} are taken")
    return value
