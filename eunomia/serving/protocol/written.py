"""Responses: JSON with raw tensors behind it, as stock clients read them."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.data import Json
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, Ports
from eunomia.serving.devices.strings import Strings, Value
from eunomia.serving.protocol.errors import TooLarge
from eunomia.serving.protocol.infer import InferRequest, WantedOutput
from eunomia.serving.protocol.strings import contiguous, raw_bytes

LEAST = 2  # bytes of a number in a list
ALL = WantedOutput("")  # each output, where none is named


@dataclass(frozen=True)
class Written:
    """A response: its JSON without numbers, the numbers of each output (None = none), the raw tensors behind it."""

    content: Json
    numbers: list[Value | None]
    raw: list[memoryview]


def write_response(
    request: InferRequest,
    version: str,
    outputs: Mapping[str, Value],
    in_regions: Container[str],
) -> Written:
    """What to send; ``put_numbers_in`` of ``json_work`` makes the JSON part."""
    wanted = request.outputs or [WantedOutput(name, request.all_binary) for name in outputs]
    entries: list[Json] = []
    numbers: list[Value | None] = []
    raw: list[memoryview] = []
    for want in wanted:
        array = contiguous(outputs[want.name])
        entry: Json = {"name": want.name, "datatype": DATATYPE_OF[array.dtype], "shape": list(array.shape)}
        elsewhere = want.name in in_regions  # parameters there would be a size to stock clients in C++
        if want.binary and not elsewhere:
            entry["parameters"] = {"binary_data_size": array.nbytes}
            raw.append(raw_bytes(array))
        numbers.append(None if elsewhere or want.binary else array)
        entries.append(entry)
    content: Json = {"model_name": request.model, "model_version": version, "outputs": entries}
    if request.request_id:
        content["id"] = request.request_id
    return Written(content, numbers, raw)


def check_text(request: InferRequest, ports: Ports, most: float) -> None:
    """Before it runs: raises TooLarge where its answer takes more bytes as JSON, by the sizes that never change."""
    wanted, count = {output.name: output for output in request.outputs}, 0
    for port in ports["outputs"]:
        want = wanted.get(port["name"], None if wanted else ALL)
        if want is not None and not (want.binary or want.classes or want.region or request.all_binary):
            count += math.prod([size for size in port["shape"] if size >= 0])
    if count * LEAST > most:
        raise too_long(count, most)


def too_long(count: int, most: float) -> TooLarge:
    """The error of an answer of so many numbers."""
    return TooLarge(
        f"the answer holds {count} numbers, more than {most:.0f} bytes as JSON, which is the most that is written "
        "(max_json_mib): ask for raw tensors (binary_data)"
    )


def plain_numbers(array: Value) -> Sequence[float | str]:
    """Numbers or texts for JSON; NaN and infinity as they are, as requests may have them: ``null`` would be neither."""
    if isinstance(array, Strings):
        return array.texts()
    flat = array.ravel()
    if flat.dtype == DATATYPES["BF16"]:
        flat = flat.astype(np.float32)
    return flat.tolist()
