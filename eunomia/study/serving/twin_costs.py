"""Block times of a recording as a table of costs: each network, and each other size that its requests had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.hardware.table import CostTable
from eunomia.workload.model import DnnModel, Layer

Row = Sequence[Any]  # a request of a recording
Blocks = Sequence[Sequence[float]]  # of each block, the time on each device; -1 = it does not run there


class Damaged(Exception):
    """What is wrong with a recording, in words."""


@dataclass(frozen=True)
class TwinCosts:
    """``size``: (n,) by request, the model of the table that it runs; -1 = its network at the size of the trial.

    ``blocks``: by model of the table, what every single block takes on each device; inf = it does not run there.
    """

    table: CostTable
    size: npt.NDArray[np.int64]
    blocks: tuple[Floats, ...]


def twin_costs(
    networks: Mapping[str, Blocks],
    sizes: Sequence[Blocks] | None,
    devices: Sequence[str],
    rows: Sequence[Row],
    look_s: float = 0.0,
) -> TwinCosts:
    """The table, and what each of the requests ``rows`` runs. Raises Damaged.

    ``sizes``: the recording's, times per row of input; None = it is from a version that had none: requests cost what
    their network did in the mean. A request of several rows takes so many times as long. ``look_s``: as in ``pieces``.
    """
    blocks, numbers = dict(networks), {name: n for n, name in enumerate(networks)}
    for name, times in networks.items():
        check_blocks(name, times, len(devices))
    found: dict[tuple[str, int, int], int] = {}
    size_of, chosen = list(range(len(networks))), []
    for r in rows:
        key = (r[2], _number(r, sizes), _rows(r))
        if key not in found:
            found[key] = -1
            times = networks[r[2]] if sizes is None else sizes[key[1]]
            check_blocks(f"{r[2]}, size {key[1]}", times, len(devices))
            if len(times) != len(networks[r[2]]) or _times(times, key[2]) != _times(networks[r[2]], 1):
                found[key] = len(size_of)
                size_of.append(numbers[r[2]])
                blocks[_name(key, blocks)] = _times(times, key[2])
        chosen.append(found[key])
    pieced = {name: pieces(times, look_s) for name, times in blocks.items()}
    single = (np.array(times, float) for times in blocks.values())
    return TwinCosts(
        _table(pieced, devices, tuple(size_of)),
        np.array(chosen, np.int64),
        tuple(np.where(times > 0.0, times, np.inf) for times in single),
    )


def pieces(blocks: Blocks, look_s: float) -> list[list[float]]:
    """Blocks joined until they take ``look_s`` on their fastest device: the server asks its policy no more often.

    A block that runs on no device of the piece before begins one of its own.
    """
    found: list[list[float]] = []
    for block in blocks:
        joined = (
            [a + b if a >= 0.0 and b >= 0.0 else -1.0 for a, b in zip(found[-1], block, strict=True)]
            if found
            else []
        )
        if found and max(joined) > 0.0 and min(t for t in found[-1] if t >= 0.0) < look_s:
            found[-1] = joined
        else:
            found.append(list(block))
    return found


def _number(row: Row, sizes: Sequence[Blocks] | None) -> int:
    number = 0 if sizes is None else row[10]
    if sizes is not None and not (type(number) is int and 0 <= number < len(sizes)):
        raise Damaged(f"a request of '{row[1]:.50}' has size {number!r:.50} of {len(sizes)}")
    return int(number)


def _rows(row: Row) -> int:
    if not (type(row[4]) is int and row[4] >= 1):
        raise Damaged(f"a request of '{row[1]:.50}' has {row[4]!r:.50} rows")
    return int(row[4])


def _times(blocks: Blocks, rows: int) -> list[list[float]]:
    return [[time_s * rows if time_s > 0.0 else time_s for time_s in block] for block in blocks]


def _name(key: tuple[str, int, int], taken: Mapping[str, object]) -> str:
    name = f"{key[0]}-size{key[1]}-rows{key[2]}"
    while name in taken:
        name += "-"
    return name


def check_blocks(name: str, blocks: Blocks, devices: int) -> None:
    """A network's block times: one row per block, one time per device; raises Damaged."""
    if not blocks:
        raise Damaged(f"network '{name:.50}' has no block times")
    for n, row in enumerate(blocks):
        where = f"block {n} of network '{name:.50}'"
        if len(row) != devices or not devices:
            raise Damaged(f"{where} has {len(row)} times for {devices} devices")
        for time_s in row:
            if time_s != -1 and not (is_time(time_s) and time_s > 0.0):
                raise Damaged(f"{where} takes {time_s!r:.50} s; -1 means that a device does not run it")
        if all(time_s == -1 for time_s in row):
            raise Damaged(f"{where} runs on no device")


def is_time(value: float) -> bool:
    """Whether it is a number of seconds."""
    return 0.0 <= value < math.inf


def _table(networks: Mapping[str, Blocks], devices: Sequence[str], size_of: tuple[int, ...]) -> CostTable:
    """One opaque layer per block."""
    models = tuple(
        DnnModel(name, tuple(Layer(f"block-{n}", "elementwise", in_w=n + 1) for n in range(len(blocks))),
                 tuple((n, n + 1) for n in range(len(blocks) - 1)))
        for name, blocks in networks.items()
    )  # fmt: skip
    times = np.array([row for blocks in networks.values() for row in blocks], float)
    compute_s = np.where(times > 0, times, np.inf)
    zeros, link = np.zeros_like(compute_s), np.ones(len(devices))
    return CostTable(
        models, tuple(devices), compute_s, zeros, zeros, zeros, link, ("measured",) * len(devices), size_of
    )
