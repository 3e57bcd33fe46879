"""Tensors of the arena as one array of bytes, and back."""

from __future__ import annotations

import math

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.messages import DATATYPES, Placed
from eunomia.serving.devices.strings import BYTES


def size_of(tensor: Placed) -> int:
    """Bytes."""
    if tensor["datatype"] == BYTES:
        return tensor["size"]
    return math.prod(tensor["shape"]) * DATATYPES[tensor["datatype"]].itemsize


def moved(tensors: list[Placed], by: int) -> list[Placed]:
    """The same, that many bytes further on."""
    return [{**tensor, "offset": tensor["offset"] + by} for tensor in tensors]


def pack(memory: memoryview, members: list[list[Placed]]) -> tuple[list[list[Placed]], Tensor]:
    """A copy of all these tensors, each aligned to 64 bytes, and where they lie in it."""
    places: list[list[Placed]] = []
    end = 0
    for tensors in members:
        placed: list[Placed] = []
        for tensor in tensors:
            placed.append({**tensor, "offset": end})
            end += -(-size_of(tensor) // 64) * 64
        places.append(placed)
    packed = np.empty(end, np.uint8)
    for olds, news in zip(members, places, strict=True):
        for old, new in zip(olds, news, strict=True):
            size = size_of(old)
            packed.data[new["offset"] : new["offset"] + size] = memory[old["offset"] : old["offset"] + size]
    return places, packed
