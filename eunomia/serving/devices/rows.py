"""Whether each row of a network's inputs is answered as if it were alone.

Then requests may share a run, and a request that is too long for one may have several (``portions``).

A free first axis may as well be the tokens of one text: of a sum over it, attention along it or a recurrent layer, each
request would have the others' part in its answer. No file says so; three rows are run together and one by one. Where a
row takes little, many together: one may have its part in the answer to the seventh behind it.
"""

from __future__ import annotations

import contextlib
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
MANY, MANY_S = 64, 0.02  # rows, over and over the same three; so long they may take
TRIED_S = 0.1  # of longer networks nobody tries it, unless requests are to share runs
# Of the rows: whole numbers, and what others are multiplied by. What rows have of each other may show in large ones
# alone; some tables have two entries, and some networks take no large number for an index.
NUMBERS = ((0, 1, 2), (1.0, 16.0, 1000.0)), ((0, 1, 0), (1.0, 1.0, 1.0))
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

    Their other sizes are those of the network's trial. False too where it fails with so few rows, draws random numbers,
    or answers all of them alike. It says nothing of numbers that were not tried.
    """
    if not first_axis_is_free(network.ports):
        return False
    for numbers, larger in NUMBERS:
        feed = {p["name"]: _rows(network, p, numbers, larger) for p in network.ports["inputs"]}
        with contextlib.suppress(Exception):  # whatever it was that this network does not take
            return _answers_apart(network, feed)
    return False


def _answers_apart(network: LoadedNetwork, feed: Feed) -> bool:
    alone = [_answer(network, {name: rows[n : n + 1] for name, rows in feed.items()}) for n in range(ROWS)]
    for count in (ROWS, min(MANY, int(MANY_S / max(sum(network.block_s), 1e-6)))):
        if count >= ROWS and not _as_alone(network, feed, alone, count):
            return False
    return any(one.tobytes() != alone[0][name].tobytes() for each in alone[1:] for name, one in each.items())


def _as_alone(network: LoadedNetwork, feed: Feed, alone: Sequence[Feed], count: int) -> bool:
    """Whether so many rows together are answered as each of them is."""
    many = {name: np.resize(rows, (count, *rows.shape[1:])) for name, rows in feed.items()}
    together = _answer(network, many)
    for port in network.ports["outputs"]:
        name, rounding = port["name"], ROUNDING.get(port["datatype"], USUAL_ROUNDING)
        rows = together[name]
        if rows.shape[:1] != (count,):
            return False
        if not all(_alike(rows, n, alone[n % ROWS][name], rounding) for n in range(count)):
            return False
    return True


def _rows(network: LoadedNetwork, port: Port, numbers: Sequence[int], larger: Sequence[float]) -> Tensor:
    """Three rows, not all alike: as numbers of a table or as texts these."""
    shape = network.shapes.get(port["name"])
    size = (ROWS, *[1 if d < 0 else d for d in (shape or port["shape"])[1:]])
    kind, dtype = port["datatype"], DATATYPES[port["datatype"]]
    if dtype.kind == "f" or kind == "BF16":
        times = np.reshape(np.array(larger, np.float32), (-1, *[1] * (len(size) - 1)))
        return (np.random.default_rng(1).random(size, np.float32) * times).astype(dtype)
    number = np.reshape(numbers, (-1, *[1] * (len(size) - 1))) + network.ones
    return np.broadcast_to(number.astype(str) if kind == BYTES else number, size).astype(dtype)


def _answer(network: LoadedNetwork, feed: Feed) -> dict[str, Tensor]:
    live = live_of(feed)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    return {name: np.array(array_of(value)) for name, value in live.items()}


def _alike(together: Tensor, n: int, alone: Tensor, rounding: float) -> bool:
    """Whether row ``n`` of an output is the only row of the other, but for rounding."""
    row = together[n : n + 1]
    if row.shape != alone.shape:
        return False
    if row.dtype.kind != "f" and row.dtype != BF16:
        return np.array_equal(row, alone)
    a, b = row.astype(np.float64), alone.astype(np.float64)
    largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (a, b))
    return np.allclose(a, b, rtol=0.0, atol=rounding * largest, equal_nan=True)
