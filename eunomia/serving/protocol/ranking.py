"""The classification extension: of an output the largest values, each as the text ``value:index``.

Of a network with batches they are those of each row, of another those of the whole output. Source: Triton's
documentation, extension_classification, which leaves open which of equal values come: here the first ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.strings import Strings, Value
from eunomia.serving.protocol.batches import has_batches
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import WantedOutput

MOST_VALUES, MOST_TEXTS = 131_072, 1024  # of an output: some two milliseconds of the event loop


def with_classes(
    wanted: Sequence[WantedOutput], outputs: Mapping[str, Value], ports: Ports
) -> Mapping[str, Value]:
    """The outputs, those as classes that are wanted so; raises BadRequest."""
    if not any(output.classes for output in wanted):
        return outputs
    rows = has_batches(ports)
    return {**outputs, **{o.name: _classes(o, outputs[o.name], rows) for o in wanted if o.classes}}


def _classes(wanted: WantedOutput, output: Value, rows: bool) -> Strings:
    if isinstance(output, Strings) or output.dtype == np.bool_:
        raise BadRequest(f"output '{wanted.name}' has no numbers to rank: ask for the tensor")
    table = output.reshape(len(output) if rows else 1, -1) if output.size else output.reshape(0, 0)
    count = min(wanted.classes, table.shape[1])
    if table.size > MOST_VALUES or len(table) * count > MOST_TEXTS:
        raise BadRequest(
            f"output '{wanted.name}': {len(table)} rows of {table.shape[1]} values with {count} classes each; at most "
            f"{MOST_VALUES} values and {MOST_TEXTS} classes are ranked at a time: send fewer rows or ask for the tensor"
        )
    places = largest(table, count)
    whole = np.issubdtype(table.dtype, np.integer)
    values = np.take_along_axis(table, places, 1).astype(np.int64 if whole else np.float64)
    form = "{}:{}" if whole else "{:f}:{}"
    texts = [
        form.format(*pair) for pair in zip(values.ravel().tolist(), places.ravel().tolist(), strict=True)
    ]
    return Strings.of(np.array(texts, object).reshape(places.shape if rows else -1))


def largest(table: Tensor, count: int) -> npt.NDArray[np.intp]:
    """Of each row the places of so many values, the largest first, of equal ones the first; NaN counts as least."""
    keys = np.nan_to_num(table.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    size = keys.shape[1]
    if 0 < count < size:
        least = np.partition(keys, size - count, 1)[:, size - count, None]
        above, equal = keys > least, keys == least
        room = count - above.sum(1, keepdims=True)
        places = np.nonzero(above | equal & (np.cumsum(equal, 1) <= room))[1].reshape(-1, count)
    else:
        places = np.broadcast_to(np.arange(count), (len(keys), count))
    order = np.argsort(-np.take_along_axis(keys, places, 1), 1, kind="stable")
    return np.take_along_axis(places, order, 1)
