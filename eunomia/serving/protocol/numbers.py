"""Numbers and texts of JSON lists as tensors."""

from __future__ import annotations

import json
import math
import sys

import ml_dtypes
import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.ports import MAX_RANK
from eunomia.serving.devices.strings import BYTES, Value
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.nesting import UNLIKE, check_nesting
from eunomia.serving.protocol.strings import json_strings

SHOWN = 50  # letters of a value in an error message
# what JSON's reader makes of these words, and of nothing else
NO_NUMBERS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
TOO_DEEP = f"its lists are nested too deeply: at most {MAX_RANK} in one another are taken"


def array_of(name: str, datatype: str, shape: tuple[int, ...], data: object) -> Value:
    """Numbers or texts of a JSON list, flat or nested, with ``NO_NUMBERS`` for what is none. Raises BadRequest."""
    if datatype == BYTES:
        return json_strings(name, shape, data)
    try:
        if datatype != "BOOL" and holds_truth(data):
            raise ValueError(f"true and false are no values of {datatype}")
        array = _numbers(datatype, data)
    except ValueError as error:
        raise BadRequest(f"tensor '{name}': {error}") from None
    if array.size != math.prod(shape):
        raise BadRequest(
            f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
        )
    check_nesting(name, array.shape, shape)
    return array.reshape(shape)


def _numbers(datatype: str, data: object) -> Tensor:
    """An array of this type, nested as the list is; raises ValueError."""
    dtype = DATATYPES[datatype]
    whole = dtype.kind in "iu"
    try:
        array = np.array(data)
    except ValueError as error:
        raise ValueError(UNLIKE if "inhomogeneous" in str(error) else TOO_DEEP) from None
    if array.ndim > MAX_RANK:
        raise ValueError(TOO_DEEP)
    if array.size and array.dtype.kind not in ("biu" if whole else "biuf"):
        array = np.array(data, object)  # which NumPy took for floats, from 2^63 on, or for texts
        for value in array.ravel().tolist():
            if not is_value(datatype, value):
                raise ValueError(no_value(datatype, value))
        array = array if whole else array.astype(np.float64)
    elif whole and array.size and not _fits(array, dtype):
        wrong = next(value for value in array.ravel().tolist() if not is_value(datatype, value))
        raise ValueError(no_value(datatype, wrong))
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    if not (whole or datatype == "BOOL"):
        _check_finite(datatype, data, array, found)
    return found


def _check_finite(datatype: str, data: object, given: Tensor, found: Tensor) -> None:
    """No number has become infinite; raises ValueError."""
    ends = ~np.isfinite(found)
    if not ends.any():
        return
    if (lost := ends & np.isfinite(given)).any():
        value = json.dumps(given.ravel()[lost.argmax()].item())
    elif (values := np.array(data, object)[np.isinf(given)].tolist()) and not _all_written(values):
        value = "a number too large to be read"
    else:
        return
    most = float(ml_dtypes.finfo(found.dtype).max)  # type: ignore[no-untyped-call]
    raise ValueError(f"{value} is no value of {datatype}: numbers from {-most:g} to {most:g} are taken")


def _all_written(values: list[object]) -> bool:
    """Whether each is one of ``NO_NUMBERS`` itself: others came of digits."""
    return {*map(id, values)} <= {*map(id, NO_NUMBERS.values())}


def no_value(datatype: str, value: object) -> str:
    """What is wrong with it, and what would be right."""
    text = "an object" if isinstance(value, dict) else json.dumps(value)
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    if DATATYPES[datatype].kind in "iu":
        limits = np.iinfo(DATATYPES[datatype].name)
        return (
            f"{shown} is no value of {datatype}: whole numbers from {limits.min} to {limits.max}, written without a "
            "point, are taken"
        )
    taken = "true and false" if datatype == "BOOL" else "numbers, NaN, Infinity and -Infinity"
    return f"{shown} is no value of {datatype}: {taken} are taken"


def is_value(datatype: str, value: object) -> bool:
    """Whether one number, or what stands in its place, is of this type."""
    if DATATYPES[datatype].kind in "iu":
        limits = np.iinfo(DATATYPES[datatype].name)
        return type(value) is int and limits.min <= value <= limits.max
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= sys.float_info.max)


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


def _fits(array: Tensor, dtype: np.dtype[np.generic]) -> bool:
    limits = np.iinfo(dtype.name)
    return bool(int(array.min()) >= limits.min and int(array.max()) <= limits.max)
