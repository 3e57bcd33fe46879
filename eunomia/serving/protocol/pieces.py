"""Raw tensors in the pieces in which a body came: they are copied once, each to its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np

from eunomia.core.arrays import Tensor

Buffer = bytes | memoryview


class Pieces:
    """Bytes in several pieces, with the length and the slices of one; ``pieces`` holds no empty one."""

    def __init__(self, pieces: Sequence[Buffer | bytearray]) -> None:
        self.pieces, self._size = list[memoryview](), 0
        for piece in pieces:
            if size := len(piece):
                self.pieces.append(memoryview(piece))
                self._size += size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> Pieces:
        """Without a copy; a step is not offered."""
        begin, end, _ = part.indices(self._size)
        if end - begin == self._size:
            return self
        found, at = list[Buffer](), 0
        for piece in self.pieces:
            if at >= end:
                break
            after = at + len(piece)
            if begin < after:
                found.append(piece if begin <= at and after <= end else piece[max(begin - at, 0) : end - at])
            at = after
        return Pieces(found)

    def joined(self) -> Buffer:
        """In one piece; without a copy if it is one."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    def whole(self) -> memoryview:
        """In one piece of their own; NumPy leaves the interpreter to others meanwhile, as Python does not."""
        whole = np.empty(self._size, np.uint8)
        ScatteredTensor(whole.dtype, whole.shape, self).read_into(whole)
        return whole.data


class Gathered:
    """A body as it comes. Every tensor looks at every piece, so what comes in many is put together."""

    FEW = 16  # pieces that stay as they came
    LARGE = 1024**2  # bytes of one that is put together

    def __init__(self) -> None:
        self.pieces: list[Buffer | bytearray] = []
        self.size = 0

    def add(self, data: Buffer) -> None:
        """Some more."""
        self.size += len(data)
        if len(self.pieces) < self.FEW:
            self.pieces.append(data)
            return
        last = self.pieces[-1]
        if isinstance(last, bytearray) and len(last) < self.LARGE:
            last += data
        else:
            self.pieces.append(bytearray(data))

    def so_far(self) -> Pieces:
        """What has come."""
        return Pieces(self.pieces)


class Coming(Pieces):
    """Bytes that have not come yet: their number, and nothing in them."""

    def __init__(self, size: int) -> None:
        super().__init__(())
        self._size = size

    def __getitem__(self, part: slice) -> Coming:
        begin, end, _ = part.indices(self._size)
        return Coming(max(end - begin, 0))


class Unread:
    """Facts of a tensor whose bytes come on request, as an array has them."""

    def __init__(self, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.ndim = dtype, shape, len(shape)
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    def reshape(self, shape: tuple[int, ...]) -> Self:
        """The same elements in other axes."""
        other = copy(self)
        other.shape, other.ndim = shape, len(shape)
        return other


class ScatteredTensor(Unread):
    """A tensor in several pieces: shape and type of an array, and its bytes on request."""

    def __init__(self, dtype: np.dtype[np.generic], shape: tuple[int, ...], raw: Pieces) -> None:
        super().__init__(dtype, shape)
        self.raw = raw

    def read_into(self, target: Tensor) -> None:
        """Copy its bytes there."""
        room, at = target.reshape(-1).view(np.uint8), 0
        for piece in self.raw.pieces:  # by NumPy: it leaves the interpreter to others meanwhile
            room[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
