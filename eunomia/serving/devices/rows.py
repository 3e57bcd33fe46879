"""Whether each row of a network's inputs is answered as if it were alone.

Then requests may share a run, and a request that is too long for one may have several (``portions``).

A free first axis may as well be the tokens of one text: of a sum over it, attention along it or a recurrent layer, each
request would have the others' part in its answer. No file says so. It is proven by the graph (``blocks.rowwise``), or
an operator vouches for it. Either way three rows are run together and one by one, which may say the contrary. Where a
row takes little, many together: one may have its part in the answer to the seventh behind it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES, Message, Port, Ports
from eunomia.serving.devices.piece import BF16, Feed, array_of, live_of
from eunomia.serving.devices.strings import BYTES

if TYPE_CHECKING:
    from eunomia.serving.devices.network import LoadedNetwork

Word = bool | None  # an operator's, on whether rows are answered one by one; None = where that is proven
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
TRIAL = "three rows together are not answered as each is alone"
VOUCH = "if each row is answered as if it were alone all the same, say rows_apart = true where its shapes are said"
log = logging.getLogger("eunomia.serving")


def first_axis_is_free(ports: Ports) -> bool:
    """Of all that goes in and comes out."""
    return all(port["shape"][:1] == [-1] for port in (*ports["inputs"], *ports["outputs"]))


def told_of_rows(network: LoadedNetwork, order: Message) -> Message:
    """What a device says of a network that it has loaded; nothing where it is not to be tried, or cannot be."""
    if sum(network.block_s) > order.get("rows_most_s", -1.0) or network.untried:
        return {}
    vouched = bool(order.get("rows_apart"))
    found = rows_are_apart(network, vouched=vouched)
    return {"rows_apart": found, "together": "" if vouched else network.together}


def say_why_not(name: str, told: Message, *, loud: bool) -> None:
    """Of a network of which a device said this, in the log."""
    why = told.get("together", "") and f"{told['together']}; {VOUCH}"
    if "rows_apart" not in told:
        why = "it takes too long for a trial, or no made-up input runs on it"
    level = logging.WARNING if loud else logging.INFO
    log.log(level, "requests for '%s' share no run, and all rows of one run at once: %s", name, why or TRIAL)


def rows_are_apart(network: LoadedNetwork, *, vouched: bool = False) -> bool:
    """Whether its graph says so or an operator (``vouched``), and three rows together are answered as each is alone.

    Their other sizes are those of the network's trial. False too where it fails with so few rows, draws random numbers,
    or answers all of them alike.
    """
    if not first_axis_is_free(network.ports) or (network.together and not vouched):
        return False
    for numbers, larger in NUMBERS:
        with contextlib.suppress(Exception):  # whatever it was that this network does not take
            rows = _feed(network, numbers, larger)
            return _answers_apart(network, rows) and _as_alone_below_zero(network, numbers, larger)
    return False


def _feed(network: LoadedNetwork, numbers: Sequence[int], larger: Sequence[float]) -> Feed:
    return {port["name"]: _rows(network, port, numbers, larger) for port in network.ports["inputs"]}


def _answers_apart(network: LoadedNetwork, feed: Feed) -> bool:
    alone = _alone(network, feed)
    for count in (ROWS, min(MANY, int(MANY_S / max(sum(network.block_s), 1e-6)))):
        if count >= ROWS and not _as_alone(network, feed, alone, count):
            return False
    return any(one.tobytes() != alone[0][name].tobytes() for each in alone[1:] for name, one in each.items())


def _as_alone_below_zero(network: LoadedNetwork, numbers: Sequence[int], larger: Sequence[float]) -> bool:
    """The same of rows from the largest on, with some numbers below zero; true where such do not run."""
    last, middle, first = larger
    with contextlib.suppress(Exception):
        feed = _feed(network, numbers[::-1], (first, -middle, -last))
        return _as_alone(network, feed, _alone(network, feed), ROWS)
    return True


def _alone(network: LoadedNetwork, feed: Feed) -> list[dict[str, Tensor]]:
    return [_answer(network, {name: rows[n : n + 1] for name, rows in feed.items()}) for n in range(ROWS)]


def _as_alone(network: LoadedNetwork, feed: Feed, alone: Sequence[dict[str, Tensor]], count: int) -> bool:
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
