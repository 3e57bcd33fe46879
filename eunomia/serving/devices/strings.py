"""String tensors: everywhere in the server each element is its length (4 bytes) and its UTF-8, as clients send them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Tensor
from eunomia.serving.protocol.pieces import Unread

BYTES = "BYTES"  # the protocol's name of the type
LENGTH = struct.Struct("<I")
OBJECTS: np.dtype[np.generic] = np.dtype(object)  # how NumPy holds them
ZEROS, MARK = bytes(LENGTH.size), "\x80\0\0".encode()  # each as long as a length
LETTER = 4  # bytes of one, at most
FEW = 16  # elements: so many are packed one by one
SHORT = 64  # bytes of an element: longer ones come apart faster one by one
Places: TypeAlias = npt.NDArray[np.int64]
Walk: TypeAlias = Callable[[bytes | memoryview, int], Places]


def walked(raw: bytes | memoryview, most: int) -> Places:
    """Where elements begin, at most so many; the last one's length may reach beyond the end."""
    at, last, starts = 0, len(raw) - LENGTH.size, list[int]()
    while at <= last and len(starts) < most:
        starts.append(at)
        at += LENGTH.size + LENGTH.unpack_from(raw, at)[0]
    return np.array(starts, np.int64)


@dataclass(frozen=True)
class Elements:
    """Where elements begin, and where the last one ends; ``fault``: what is wrong with the bytes behind it."""

    raw: bytes | memoryview
    starts: Places
    end: int
    fault: str
    walk: ClassVar[Walk] = staticmethod(walked)  # compiled where ``walking`` says so

    @classmethod
    def of(cls, raw: bytes | memoryview, most: int) -> Elements:
        """The first ones, at most so many; what follows those is not looked at."""
        starts = cls.walk(raw, most)
        end, count = 0, len(starts)
        if count:
            last = int(starts[-1])
            left, (size,) = len(raw) - last - LENGTH.size, LENGTH.unpack_from(raw, last)
            if size > left:
                fault = f"an element has {size} bytes by its length, {left} are left"
                return cls(raw, starts[:-1], last, fault)
            end = last + LENGTH.size + size
        if count == most or end == len(raw):
            return cls(raw, starts, end, "")
        fault = f"{len(raw) - end} bytes follow the last element, a length has {LENGTH.size}"
        return cls(raw, starts, end, fault)

    def check(self) -> None:
        """Raises UnicodeDecodeError of the first that is no UTF-8, ValueError for bytes that end within one."""
        try:
            self._with(ZEROS).decode()  # no letter reaches through them into the next
        except UnicodeDecodeError as error:
            n = int(np.searchsorted(self.starts, error.start, "right"))
            end = self.end if n == len(self.starts) else int(self.starts[n])
            str(
                self.raw[error.start : min(error.start + LETTER, end)], "utf-8"
            )  # raises: its end may be the reason
        if self.fault:
            raise ValueError(self.fault)

    def texts(self) -> list[str]:
        """All of them; raises the same."""
        self.check()
        count = len(self.starts)
        if self.end <= SHORT * count:
            found = self._with(MARK).decode().split(MARK.decode())[1:]
            if len(found) == count:  # else a text holds the mark
                return found
        return [str(self.raw[begin + LENGTH.size : end], "utf-8") for begin, end in pairwise(self.places)]

    @cached_property
    def places(self) -> list[int]:
        """Where each begins, and where the last one ends."""
        return [*self.starts.tolist(), self.end]

    def _with(self, mark: bytes) -> bytearray:
        """The bytes, with a mark in place of each length."""
        whole = bytearray(self.raw[: self.end])
        _lengths(whole)[self.starts] = LENGTH.unpack(mark)
        return whole


@dataclass(init=False)
class Strings(Unread):
    """Shape and type of an array, and its bytes in that form; ``nbytes``: lengths included."""

    shape: tuple[int, ...]
    raw: bytes | memoryview

    def __init__(self, shape: tuple[int, ...], raw: bytes | memoryview) -> None:
        super().__init__(OBJECTS, shape)
        self.raw, self.nbytes = raw, len(raw)

    @classmethod
    def of(cls, array: Tensor) -> Strings:
        """An array of texts."""
        array = np.asarray(array, object)
        return cls(array.shape, packed(map(str.encode, map(str, array.ravel().tolist()))))

    def read_into(self, target: Tensor) -> None:
        """Copy the bytes there."""
        target.data[:] = memoryview(self.raw)

    @cached_property
    def elements(self) -> Elements:
        """As many as the shape says, or one more."""
        return Elements.of(self.raw, self.size + 1)

    def texts(self) -> list[str]:
        """The same as texts; raises ValueError for one that is no UTF-8, or where the bytes end within one."""
        return self.elements.texts()

    def numpy(self) -> Tensor:
        """As an array of texts."""
        array = np.empty(self.size, object)
        array[:] = self.texts()
        return array.reshape(self.shape)

    def __getitem__(self, rows: slice) -> Strings:
        """Some rows, without a copy; a step is not offered."""
        if rows == slice(None):
            return self
        begin, end, _ = rows.indices(self.shape[0])
        row, count = math.prod(self.shape[1:]), max(end - begin, 0)
        places = self.elements.places
        raw = memoryview(self.raw)[places[begin * row] : places[(begin + count) * row]]
        return Strings((count, *self.shape[1:]), raw)

    def copy(self) -> Strings:
        """With bytes of its own."""
        return Strings(self.shape, bytes(self.raw))


Value: TypeAlias = Tensor | Strings  # of an input or an output


def packed(elements: Iterable[bytes]) -> bytes:
    """Elements, each behind its length."""
    given = list(elements)
    if len(given) < FEW:
        return b"".join([LENGTH.pack(len(one)) + one for one in given])
    sizes = np.fromiter(map(len, given), np.uint32, len(given))
    whole = bytearray(ZEROS).join([b"", *given])
    _lengths(whole)[np.cumsum(sizes + np.int64(LENGTH.size)) - sizes - LENGTH.size] = sizes
    return bytes(whole)


def _lengths(raw: bytes | memoryview | bytearray) -> npt.NDArray[np.uint32]:
    """The length that each byte would begin, without a copy."""
    return np.ndarray((max(len(raw) - LENGTH.size + 1, 0),), "<u4", raw, 0, (1,))
