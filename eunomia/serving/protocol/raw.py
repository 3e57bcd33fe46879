"""Tensors that arrive as their bytes, little-endian: how many there must be, and arrays without a copy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES, LENGTH, Value
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.pieces import Coming, Pieces, ScatteredTensor
from eunomia.serving.protocol.strings import check_texts, raw_strings


def nbytes(datatype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor; of strings the least."""
    size = LENGTH.size if datatype == BYTES else DATATYPES[datatype].itemsize
    return int(size * math.prod(shape))


def raw_tensor(
    name: str, datatype: str, shape: tuple[int, ...], raw: memoryview | bytes | Pieces
) -> Value | ScatteredTensor:
    """A tensor's bytes: an array, or pieces to be read; raises BadRequest."""
    if not isinstance(raw, Pieces):
        return raw_array(name, datatype, shape, raw)
    if datatype == BYTES:
        check_texts(name, math.prod(shape), len(raw))
    else:
        _check_length(name, datatype, shape, len(raw))
    if isinstance(raw, Coming) or (len(raw.pieces) > 1 and datatype != BYTES):
        return ScatteredTensor(DATATYPES[datatype], shape, raw)
    return raw_array(name, datatype, shape, raw.joined())


def _check_length(name: str, datatype: str, shape: tuple[int, ...], given: int) -> None:
    if given != (need := nbytes(datatype, shape)):
        raise BadRequest(f"tensor '{name}': {given} bytes given, {datatype} {list(shape)} needs {need}")


def raw_array(name: str, datatype: str, shape: tuple[int, ...], raw: memoryview | bytes) -> Value:
    """Little-endian bytes as an array, without a copy; raises BadRequest."""
    if datatype == BYTES:
        return raw_strings(name, shape, raw)
    _check_length(name, datatype, shape, len(raw))
    return np.frombuffer(raw, DATATYPES[datatype]).reshape(shape)
