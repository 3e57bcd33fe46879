"""Messages of gRPC, read without copying their tensors: pieces to requests, answers to messages.

A ``ModelInferRequest`` is taken apart before protobuf sees it: raw tensors stay where they are, as parts of the bytes
that arrived. What is left is small, or it holds numbers one by one; those go to the process of ``json_work``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from eunomia.core.data import Json
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, MAX_TENSORS
from eunomia.serving.devices.strings import BYTES, Strings, Value
from eunomia.serving.protocol.errors import BadRequest, TooLarge
from eunomia.serving.protocol.fields import DELIMITED, RAW_FIELD, fields_of
from eunomia.serving.protocol.infer import (
    FORMS,
    KNOWN_BYTES,
    SMALL_BYTES,
    Declared,
    Form,
    InferRequest,
    InputTensor,
    SharedRegion,
    WantedOutput,
    check_tensor,
    region_of,
    wanted_output,
)
from eunomia.serving.protocol.numbers import LIMITS, whole_numbers
from eunomia.serving.protocol.pieces import Coming, Pieces, ScatteredTensor
from eunomia.serving.protocol.raw import nbytes, raw_tensor
from eunomia.serving.protocol.rpc_types import InferMessage, Input, Parameter
from eunomia.serving.protocol.strings import Bound, contiguous, listed_strings, whole_bytes
from eunomia.serving.tenants.kept import Kept

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
    BYTES: "bytes_contents",
}
FIELDS = sorted(set(CONTENTS.values()))
INPUTS_FIELD = 5
RAW_ANSWER = 6  # raw_output_contents
CONTENTS_FIELD = 5  # of an input
REGION = "shared_memory_region"
INPUT_FIELDS = 6 * MAX_TENSORS  # of all inputs together: name, datatype, shape, contents, parameters
Raw = memoryview | bytes | Pieces


def split_message(data: bytes | Pieces, most: int) -> tuple[Pieces, list[Raw]]:
    """A ModelInferRequest without its raw tensors, and those, uncopied. Raises BadRequest; TooLarge above ``most``.

    What is neither a tensor nor its numbers (names, ids, parameters) may be SMALL_BYTES long: nobody copies more.
    """
    whole = data if isinstance(data, Pieces) else Pieces([data])
    rest, raw, begun, words = list[Pieces](), list[Raw](), 0, 0
    inputs: list[tuple[int, int]] = []
    for number, start, at, end in fields_of(whole, 0, len(whole), "the message"):
        if number == RAW_FIELD:
            rest.append(whole[begun:start])
            raw.append(whole[at:end])
            begun = end
            bound_count("raw_input_contents", raw)
        elif number == INPUTS_FIELD:
            inputs.append((at, end))
            bound_count("inputs", inputs)
        else:
            words += end - at
            bound_words(words)
    rest.append(whole[begun:])
    size = sum(map(len, rest))
    if size > SMALL_BYTES:
        left = INPUT_FIELDS
        for at, end in inputs:
            fields = [*fields_of(whole, at, end, "the list of inputs", left, INPUT_FIELDS)]
            left -= len(fields)
            words += end - at - sum(b - a for number, _, a, b in fields if number == CONTENTS_FIELD)
            bound_words(words)
    if size > most:
        raise TooLarge(
            f"the message has {size} bytes beside raw tensors; at most {most} are taken: use raw_input_contents"
        )
    return Pieces([piece for part in rest for piece in part.pieces]), raw


def bound_count(what: str, found: Sequence[object]) -> None:
    """Raises BadRequest for so many of them; each takes microseconds to find."""
    if len(found) > MAX_TENSORS:
        raise BadRequest(f"the message has more than {MAX_TENSORS} {what}; at most {MAX_TENSORS} are taken")


def bound_words(size: int) -> None:
    """Raises BadRequest for so many bytes that are no tensors."""
    if size > SMALL_BYTES:
        raise BadRequest(
            f"the message has {size} bytes of names, ids and parameters; at most {SMALL_BYTES} are taken"
        )


def parse_message(data: bytes) -> InferMessage:
    """What protobuf reads; raises BadRequest."""
    try:
        message: InferMessage = pb.ModelInferRequest.FromString(data)
    except DecodeError:
        raise BadRequest("the message is no ModelInferRequest") from None
    return message


def take_contents_out(data: bytes) -> tuple[bytes, list[Value | None]]:
    """A message without the numbers of its inputs, and those, None where an input has none. Raises BadRequest."""
    message = parse_message(data)
    numbers = []
    for entry in message.inputs:
        numbers.append(_contents(entry) if holds_numbers(entry) else None)
        if numbers[-1] is not None:
            entry.ClearField("contents")
    rest = message.SerializeToString()
    if len(rest) > SMALL_BYTES:
        raise BadRequest(
            f"the message has {len(rest)} bytes beside the numbers of its tensors; at most {SMALL_BYTES} are taken"
        )
    return rest, numbers


def read_message(
    message: InferMessage, raw_tensors: Sequence[Raw] = (), numbers: Sequence[Value | None] = ()
) -> InferRequest:
    """A request as the service takes it; ``numbers``: of inputs that were taken out of it. Raises BadRequest."""
    _bound_tensors(message)
    raw: list[Raw] = [*message.raw_input_contents, *raw_tensors]
    inputs, texts, is_raw = list[InputTensor](), Bound(), bool(raw)
    for n, entry in enumerate(message.inputs):
        inputs.append(_read_input(entry, raw if is_raw else None, numbers[n] if numbers else None))
        texts.add(inputs[-1])
    if raw:
        raise BadRequest(
            f"raw_input_contents has {len(raw)} entries more than inputs that are in no shared memory"
        )
    return InferRequest(
        message.model_name,
        message.model_version,
        message.id,
        tuple(inputs),
        _wanted(message),
        True,
        _parameters(message.parameters),
    )


def read_again(text: bytes, raw: Sequence[Raw], tenant: str = "") -> InferRequest:
    """The request whose message is that, beside its raw tensors: most clients send it again. Raises BadRequest."""
    form = _form_again(text, tenant) if len(text) <= KNOWN_BYTES else None
    if form is None or len(raw) != sum([one.region is None for one in form.inputs]):
        return read_message(parse_message(text), raw)
    inputs, texts, at = list[InputTensor](), Bound(), 0
    for one in form.inputs:
        data: Value | SharedRegion | ScatteredTensor
        if one.region is not None:
            data = one.region
        else:
            data = raw_tensor(one.name, one.datatype, one.shape, raw[at])
            at += 1
        inputs.append(InputTensor(one.name, one.datatype, one.shape, data))
        texts.add(inputs[-1])
    return InferRequest(
        form.model, form.version, form.request_id, tuple(inputs), form.outputs, True, form.parameters, form
    )


_forms = Kept[Form](FORMS)


def _form_again(text: bytes, tenant: str) -> Form | None:
    """None = it holds numbers one by one; raises BadRequest."""
    if (form := _forms.find(tenant, text)) is None and (form := _form_of(text)) is not None:
        _forms.keep(tenant, text, form)
    return form


def _form_of(text: bytes) -> Form | None:
    message = parse_message(text)
    _bound_tensors(message)
    if any(holds_numbers(entry) for entry in message.inputs):
        return None
    return Form(
        _parameters(message.parameters),
        message.id,
        tuple(_declared(entry) for entry in message.inputs),
        _wanted(message),
        message.model_name,
        message.model_version,
    )


def foretold(head: bytes, first: int, left: int) -> InferRequest | None:
    """The request that begins so, if ``first`` bytes of a raw tensor follow, ``left`` behind it, and the others fit.

    None = something else stands there, and may change what was said. Raises BadRequest.
    """
    message = parse_message(head)
    _bound_tensors(message)
    awaited = [e for e in message.inputs if not holds_numbers(e) and REGION not in e.parameters]
    if not awaited or any(e.datatype == BYTES for e in awaited[1:]):
        return None
    tensors = [check_tensor(e.name, e.datatype, [int(d) for d in e.shape]) for e in awaited[1:]]
    sizes = [nbytes(datatype, shape) for _, datatype, shape in tensors]
    if left != sum(1 + len(_number(size)) + size for size in sizes):
        return None
    return read_message(message, [Coming(size) for size in (first, *sizes)])


def _bound_tensors(message: InferMessage) -> None:
    if len(message.inputs) > MAX_TENSORS or len(message.outputs) > MAX_TENSORS:
        raise BadRequest(f"at most {MAX_TENSORS} inputs and outputs are taken")


def write_message(
    request: InferRequest, version: str, outputs: Mapping[str, Value], in_regions: Mapping[str, SharedRegion]
) -> list[bytes | memoryview]:
    """The response in pieces: what protobuf writes, and the raw tensors where they lie."""
    response = pb.ModelInferResponse(model_name=request.model, model_version=version, id=request.request_id)
    pieces: list[bytes | memoryview] = []
    for name in [o.name for o in request.outputs] or list(outputs):
        array = contiguous(outputs[name])
        entry = response.outputs.add(name=name, datatype=DATATYPE_OF[array.dtype], shape=array.shape)
        region = in_regions.get(name)
        if region is not None:
            entry.parameters[REGION].string_param = region.region
            entry.parameters["shared_memory_byte_size"].int64_param = array.nbytes
            if region.offset:
                entry.parameters["shared_memory_offset"].int64_param = region.offset
        pieces += framed(RAW_ANSWER, [b"" if region is not None else whole_bytes(array)])
    return [response.SerializeToString(), *pieces]


def framed(field: int, pieces: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """A field of a message whose value is all that."""
    return [bytes([field << 3 | DELIMITED]) + _number(sum(map(len, pieces))), *pieces]


def _number(value: int) -> bytes:
    """As protobuf writes it: seven bits a byte, the lowest first."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _wanted(message: InferMessage) -> tuple[WantedOutput, ...]:
    return tuple(wanted_output(entry.name, True, _parameters(entry.parameters)) for entry in message.outputs)


def _declared(entry: Input) -> Declared:
    """An input whose bytes, if it is in no region, are the next of the raw contents."""
    name, datatype, shape = check_tensor(entry.name, entry.datatype, [int(d) for d in entry.shape])
    return Declared(name, datatype, shape, region_of(_parameters(entry.parameters), name), None, {})


def holds_numbers(entry: Input) -> bool:
    """Whether its contents are there, and hold something: an empty one is what some clients send beside raw ones."""
    return entry.HasField("contents") and bool(entry.contents.ListFields())


def _read_input(entry: Input, raw: list[Raw] | None, numbers: Value | None) -> InputTensor:
    """One input: in shared memory, typed, or the next of the raw contents, which is taken from the list.

    ``raw``: None = the message has none.
    """
    declared = _declared(entry)
    name, datatype, shape, region = declared.name, declared.datatype, declared.shape, declared.region
    if region is not None:
        return InputTensor(name, datatype, shape, region)
    if raw is not None and (numbers is not None or holds_numbers(entry)):
        raise BadRequest(
            f"tensor '{name}' has contents, and the message has raw_input_contents too: give all tensors in one of both"
        )
    if raw is None and (numbers is not None or entry.HasField("contents")):
        array = _contents(entry) if numbers is None else numbers
        if array.size != math.prod(shape):
            raise BadRequest(
                f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
            )
        return InputTensor(
            name, datatype, shape, array if isinstance(array, Strings) else array.reshape(shape)
        )
    if not raw:
        raise BadRequest(f"tensor '{name}' has no contents")
    return InputTensor(name, datatype, shape, raw_tensor(name, datatype, shape, raw.pop(0)))


def _contents(entry: Input) -> Value:
    """The numbers or texts that an input holds one by one; raises BadRequest."""
    name, datatype, shape = check_tensor(entry.name, entry.datatype, [int(d) for d in entry.shape])
    if datatype not in CONTENTS:
        raise BadRequest(f"tensor '{name}': contents have no field for {datatype}: use raw_input_contents")
    field = CONTENTS[datatype]
    given = getattr(entry.contents, field)
    if not given and (others := [name for name in FIELDS if getattr(entry.contents, name)]):
        raise BadRequest(
            f"tensor '{name}': its values are in {others[0]}; those of {datatype} belong in {field}"
        )
    if datatype == BYTES:
        return listed_strings(name, shape, given)
    try:
        return (
            whole_numbers(datatype, list(given))
            if datatype in LIMITS
            else np.array(given, DATATYPES[datatype])
        )
    except ValueError as error:
        raise BadRequest(f"tensor '{name}': {error}") from None


def _parameters(parameters: Mapping[str, Parameter]) -> Json:
    """InferParameter messages as plain values."""
    return {
        key: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for key, value in parameters.items()
    }
