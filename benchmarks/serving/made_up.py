"""Inputs made up from a network's signature: free sizes by the names of their axes, values by datatypes."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Feed = dict[str, npt.NDArray[Any]]
FEW, LONG, SIDES = range(1, 65), range(8, 513), range(96, 641, 32)
NAMED = {r"seq|len|token|time|frame|sample": LONG, r"height|width|^[hw]$": SIDES}  # axes that are called so
NAMES = {"float": "float32", "double": "float64"}  # of ONNX Runtime, of NumPy


class Port(Protocol):
    """An input as ONNX Runtime describes it."""

    name: str
    type: str
    shape: list[int | str | None]


class Style(NamedTuple):
    """How that is drawn which names do not tell."""

    ids: int  # whole numbers are below
    rows: range
    alike: bool  # axes of one place have one size, whatever they are called
    others: range | None  # None: sizes of pictures where an input has four axes, else few


STYLES = [
    Style(*one)
    for one in itertools.product((30, 2), (range(1, 5), range(1, 2)), (False, True), (None, LONG, SIDES))
]


def made_up(inputs: Sequence[Port], draw: random.Random, style: Style, like: Sequence[Feed]) -> Feed:
    """One request, half of its sizes those of others. Raises TypeError for a datatype that NumPy has not."""
    sizes: dict[object, int] = {}
    feed, values = {}, np.random.default_rng(draw.getrandbits(32))
    for port in inputs:
        shape = []
        for place, size in enumerate(port.shape):
            if not isinstance(size, int) or size < 1:
                name = "" if size in (None, "?") else str(size).lower()
                new = draw.choice(_sizes(name, place, len(port.shape), style))
                if place and not name and feed:  # perhaps one of another input's
                    new = draw.choice([*sizes.values(), new])
                if like and draw.random() < 0.5:
                    new = draw.choice(like)[port.name].shape[place]
                size = sizes.setdefault(place if style.alike else name or (port.name, place), new)
            shape.append(size)
        feed[port.name] = _values(port, shape, style.ids, values)
    return feed


def _sizes(name: str, place: int, axes: int, style: Style) -> range:
    if re.search("batch|^[bn]$", name):
        return style.rows
    usual = style.rows if place == 0 else style.others or (SIDES if axes == 4 else FEW)
    return next((sizes for called, sizes in NAMED.items() if re.search(called, name)), usual)


def _values(port: Port, shape: list[int], ids: int, values: np.random.Generator) -> npt.NDArray[Any]:
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    if kind == "string":
        return values.choice(np.array(["a", "stranger's", "Wörter"], object), shape)
    datatype = np.dtype(NAMES.get(kind, kind))
    if datatype.kind == "f":
        return np.asarray(values.random(shape), datatype)
    most = 256 if datatype == np.uint8 else 2 if datatype.kind == "b" or "mask" in port.name else ids
    return np.asarray(values.integers(0, most, shape), datatype)
