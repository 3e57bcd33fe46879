"""Numbers and texts of JSON lists as tensors."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import cast

import ml_dtypes
import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES, Value
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.nesting import UNLIKE, check_nesting, flattened
from eunomia.serving.protocol.strings import json_strings

SHOWN = 50  # letters of a value in an error message
# what JSON's reader makes of these words, and of nothing else
NO_NUMBERS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
WHOLE = "iu"  # kinds of NumPy's
TAKEN: dict[bool, set[type]] = {True: {int}, False: {int, float, bool}}  # for whole numbers, and for others
LIMITS = {
    name: (int(np.iinfo(dtype.name).min), int(np.iinfo(dtype.name).max))
    for name, dtype in DATATYPES.items()
    if dtype.kind in WHOLE
}


def array_of(name: str, datatype: str, shape: tuple[int, ...], data: object) -> Value:
    """Numbers or texts of a JSON list, flat or nested, with ``NO_NUMBERS`` for what is none. Raises BadRequest."""
    if datatype == BYTES:
        return json_strings(name, shape, data)
    values, kinds, sizes = flattened(name, data)
    try:
        array = _numbers(datatype, values, kinds)
    except ValueError as error:
        raise BadRequest(f"tensor '{name}': {error}") from None
    if array.size != math.prod(shape):
        raise BadRequest(
            f"tensor '{name}': {array.size} values given, {list(shape)} needs {math.prod(shape)}"
        )
    check_nesting(name, sizes, shape)
    return array.reshape(shape)


def _numbers(datatype: str, values: Sequence[object], kinds: set[type]) -> Tensor:
    """A flat array of this type, of values of these types; raises ValueError.

    NumPy sees none but whole numbers and floats: of a text among them it would make a text of each.
    """
    dtype = DATATYPES[datatype]
    if bool in kinds and datatype != "BOOL":
        raise ValueError(f"true and false are no values of {datatype}")
    if list in kinds:
        raise ValueError(UNLIKE)
    if not kinds <= TAKEN[dtype.kind in WHOLE]:
        raise ValueError(no_value(datatype, _of_wrong_kind(datatype, values)))
    if dtype.kind in WHOLE:
        return whole_numbers(datatype, values)
    array = np.array(values)
    if array.dtype.kind not in "biuf":  # of whole numbers beyond 64 bits
        try:
            array = np.array(values, np.float64)
        except OverflowError:
            least, most = -int(sys.float_info.max), int(sys.float_info.max)
            raise ValueError(no_value(datatype, _beyond(least, most, values))) from None
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    if datatype != "BOOL":
        _check_finite(datatype, values, array, found)
    return found


def whole_numbers(datatype: str, values: Sequence[object]) -> Tensor:
    """Whole numbers as an array of this type of them; raises ValueError."""
    try:
        return np.array(values, DATATYPES[datatype])
    except OverflowError:
        raise ValueError(no_value(datatype, _beyond(*LIMITS[datatype], values))) from None


def _check_finite(datatype: str, values: Sequence[object], given: Tensor, found: Tensor) -> None:
    """No number has become infinite; raises ValueError."""
    ends = ~np.isfinite(found)
    if not ends.any():
        return
    if (lost := ends & np.isfinite(given)).any():
        value = json.dumps(given[lost.argmax()].item())
    elif not _all_written([values[at] for at in np.flatnonzero(np.isinf(given)).tolist()]):
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
    if datatype in LIMITS:
        least, most = LIMITS[datatype]
        return (
            f"{shown} is no value of {datatype}: whole numbers from {least} to {most}, written without a point, are "
            "taken"
        )
    taken = "true and false" if datatype == "BOOL" else "numbers, NaN, Infinity and -Infinity"
    return f"{shown} is no value of {datatype}: {taken} are taken"


def _of_wrong_kind(datatype: str, values: Sequence[object]) -> object:
    """The first that is no number, or no whole one, of several of which one is none."""
    kinds = list(map(type, values))
    return values[min(map(kinds.index, set(kinds) - TAKEN[datatype in LIMITS]))]


def _beyond(least: int, most: int, values: Sequence[object]) -> object:
    """The first that does not lie between the two, of several of which one does not; NaN lies everywhere."""
    for value in cast("Sequence[float]", values):
        if value < least or value > most:
            return value
    raise AssertionError("each of them lies between the two")
