"""The classification extension: of an output the largest values, each as ``value:index`` or ``value:index:label``.

Of a network with batches they are those of each row, of another those of the whole output. Source: Triton's
documentation, extension_classification, which leaves open which of equal values come: here the first ones.

Unlike Triton, which writes all digits of the largest numbers, this writes those of 1e15 and more with six: ``1e+300``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.strings import BYTES, Strings, Value
from eunomia.serving.protocol.batches import has_batches
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import WantedOutput

MOST_VALUES, MOST_TEXTS = 102_400, 1024  # of a request
AT_ONCE_VALUES = 16_384  # that are ranked in the event loop: more beside it
LONG = 1e15  # numbers that would have more digits than anybody reads
UNRANKED = (BYTES, "BOOL")


def with_classes(
    wanted: Sequence[WantedOutput], outputs: Mapping[str, Value], ports: Ports
) -> Mapping[str, Value]:
    """The outputs, those as classes that are wanted so; raises BadRequest."""
    ranked = {output.name: output.classes for output in wanted if output.classes}
    if not ranked:
        return outputs
    rows = has_batches(ports)
    tables = {name: _table(name, outputs[name], rows) for name in ranked}
    counts = {name: min(count, tables[name].shape[1]) for name, count in ranked.items()}
    values = sum(table.size for table in tables.values())
    texts = sum(len(table) * counts[name] for name, table in tables.items())
    if values > MOST_VALUES or texts > MOST_TEXTS:
        raise BadRequest(
            f"it wants {texts} classes of {values} values; at most {MOST_TEXTS} of {MOST_VALUES} are ranked in a "
            "request: send fewer rows or ask for the tensor"
        )
    labels = ports.get("labels", {})
    ranked_so = {n: _classes(table, counts[n], rows, labels.get(n, ())) for n, table in tables.items()}
    return {**outputs, **ranked_so}


def to_rank(wanted: Sequence[WantedOutput], outputs: Mapping[str, Value]) -> tuple[int, int]:
    """How many values are to be ranked, and their bytes."""
    ranked = {output.name: outputs[output.name] for output in wanted if output.classes}
    return sum(value.size for value in ranked.values()), sum(value.nbytes for value in ranked.values())


def check_classes(wanted: WantedOutput, datatype: str) -> None:
    """Whether there are numbers to rank; raises BadRequest."""
    if wanted.classes and datatype in UNRANKED:
        raise BadRequest(
            f"output '{wanted.name}' is {datatype}, of which there are no classes: ask for the tensor"
        )


def _table(name: str, output: Value, rows: bool) -> Tensor:
    if isinstance(output, Strings):
        raise BadRequest(f"output '{name}' has no numbers to rank: ask for the tensor")
    return output.reshape(len(output) if rows else 1, -1) if output.size else output.reshape(0, 0)


def _classes(table: Tensor, count: int, rows: bool, labels: Sequence[str]) -> Strings:
    places = largest(table, count)
    values = np.take_along_axis(table, places, 1)
    text = str if np.issubdtype(table.dtype, np.integer) else _text
    pairs = zip(values.ravel().tolist(), places.ravel().tolist(), strict=True)
    texts = [f"{text(value)}:{place}{_label(labels, place)}" for value, place in pairs]
    return Strings.of(np.array(texts, object).reshape(places.shape if rows else -1))


def _text(value: float) -> str:
    return f"{value:f}" if -LONG < value < LONG else f"{value:.6g}"


def _label(labels: Sequence[str], place: int) -> str:
    """What stands behind the place; nothing where the class has no name."""
    return f":{labels[place]}" if place < len(labels) and labels[place] else ""


def largest(table: Tensor, count: int) -> npt.NDArray[np.intp]:
    """Of each row the places of so many values, the largest first, of equal ones the first; NaN is as -inf."""
    down: npt.NDArray[Any]
    if np.issubdtype(table.dtype, np.integer):
        down = np.invert(table)
    else:
        down = np.negative(table, dtype=np.promote_types(table.dtype, np.float32))
        down[np.isnan(down)] = np.inf
    if not 0 < count < down.shape[1]:
        return np.argsort(down, 1, kind="stable")[:, :count]
    last = np.partition(down, count - 1, 1)[:, count - 1, None]
    before, equal = down < last, down == last
    room = count - before.sum(1, keepdims=True)
    places = np.nonzero(before | equal & (np.cumsum(equal, 1) <= room))[1].reshape(-1, count)
    order = np.argsort(np.take_along_axis(down, places, 1), 1, kind="stable")
    return np.take_along_axis(places, order, 1)
