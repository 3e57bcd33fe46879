"""Numbers and texts of JSON lists as tensors."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES, Value
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.strings import json_strings

MAX_RANK = 16


def array_of(name: str, datatype: str, shape: tuple[int, ...], data: object) -> Value:
    """Numbers or texts of a JSON list, flat or nested."""
    if datatype == BYTES:
        return json_strings(name, shape, data)
    dtype = DATATYPES[datatype]
    try:
        if datatype != "BOOL" and holds_truth(data):
            raise ValueError(f"true and false are no values of {datatype}")
        array = np.array(data)
        if (
            datatype == "UINT64" and array.dtype.kind == "f"
        ):  # NumPy makes floats of whole numbers from 2^63 on
            array = _whole(np.array(data, object), dtype)
        if array.dtype.kind not in "biuf" and array.size:
            raise ValueError("it holds something that is not a number")
        if dtype.kind in "iu" and array.size and (array.dtype.kind not in "biu" or not _fits(array, dtype)):
            raise ValueError(f"a value does not fit into {datatype}")
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        why = "lists inside it differ in length" if "inhomogeneous" in str(error) else str(error)[:200]
        raise BadRequest(f"tensor '{name}': {why}") from None
    if array.size != math.prod(shape):
        raise BadRequest(
            f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
        )
    return array.reshape(shape)


def holds_truth(data: object) -> bool:
    """Whether true or false is anywhere in a list, nested at most as deeply as arrays are."""
    for _ in range(MAX_RANK + 1):
        if isinstance(data, bool):
            return True
        if not isinstance(data, list):
            return False
        kinds = set(map(type, data))
        if bool in kinds:
            return True
        data = [one for inner in data if isinstance(inner, list) for one in inner] if list in kinds else None
    return False


def _whole(array: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    """The same as whole numbers, where all are some."""
    return (
        array.astype(dtype)
        if all(type(one) is int for one in array.ravel().tolist())
        else array.astype(float)
    )


def _fits(array: Tensor, dtype: np.dtype[np.generic]) -> bool:
    limits = np.iinfo(dtype.name)
    return bool(int(array.min()) >= limits.min and int(array.max()) <= limits.max)
