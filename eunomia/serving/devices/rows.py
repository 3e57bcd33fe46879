"""Whether each row of a network's inputs is answered as if it were alone, so that requests may share a run.

A free first axis may as well be the tokens of one text: of a sum over it, attention along it or a recurrent layer, each
request would have the others' part in its answer. No file says so; three rows are run together and one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES, Port, Ports
from eunomia.serving.devices.piece import BF16, Feed, array_of, live_of
from eunomia.serving.devices.strings import BYTES

if TYPE_CHECKING:
    from eunomia.serving.devices.network import LoadedNetwork

ROWS = 3
ROUNDING = {
    "FP16": 1e-2,
    "BF16": 5e-2,
}  # of the largest number; sums of more rows are added up in another order
USUAL_ROUNDING = 1e-3


def first_axis_is_free(ports: Ports) -> bool:
    """Of all that goes in and comes out."""
    return all(port["shape"][:1] == [-1] for port in (*ports["inputs"], *ports["outputs"]))


def rows_are_apart(network: LoadedNetwork) -> bool:
    """Whether three different rows together are answered as each is alone.

    Their other sizes are those of the network's trial. False too where it fails with so few rows, or draws random
    numbers. It says nothing of numbers that were not tried.
    """
    if not first_axis_is_free(network.ports):
        return False
    feed = {p["name"]: _rows(p, network.shapes.get(p["name"]), network.ones) for p in network.ports["inputs"]}
    kinds = {port["name"]: port["datatype"] for port in network.ports["outputs"]}
    try:
        together = _answer(network, feed)
        for n in range(ROWS):
            alone = _answer(network, {name: tensor[n : n + 1] for name, tensor in feed.items()})
            for name, kind in kinds.items():
                if not _alike(together[name], n, alone[name], ROUNDING.get(kind, USUAL_ROUNDING)):
                    return False
    except Exception:  # whatever it was that this network does not take
        return False
    return True


def _rows(port: Port, shape: Sequence[int] | None, ones: bool) -> Tensor:
    """Three rows, no two alike: as numbers of a table or as texts their own numbers."""
    size = (ROWS, *[1 if d < 0 else d for d in (shape or port["shape"])[1:]])
    kind, dtype = port["datatype"], DATATYPES[port["datatype"]]
    if dtype.kind == "f" or kind == "BF16":
        return np.random.default_rng(1).random(size, np.float32).astype(dtype)
    number = np.arange(ROWS).reshape(-1, *[1] * (len(size) - 1)) + ones
    return np.broadcast_to(number.astype(str) if kind == BYTES else number, size).astype(dtype)


def _answer(network: LoadedNetwork, feed: Feed) -> dict[str, Tensor]:
    live = live_of(feed)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    return {name: np.array(array_of(value)) for name, value in live.items()}


def _alike(together: Tensor, n: int, alone: Tensor, rounding: float) -> bool:
    """Whether row ``n`` of an output is the only row of the other, but for rounding."""
    row = together[n : n + 1]
    if together.shape[:1] != (ROWS,) or row.shape != alone.shape:
        return False
    if row.dtype.kind != "f" and row.dtype != BF16:
        return np.array_equal(row, alone)
    a, b = row.astype(np.float64), alone.astype(np.float64)
    largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (a, b))
    return np.allclose(a, b, rtol=0.0, atol=rounding * largest, equal_nan=True)
