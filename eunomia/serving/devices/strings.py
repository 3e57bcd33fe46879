"""String tensors: everywhere in the server each element is its length (4 bytes) and its UTF-8, as clients send them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.protocol.pieces import Unread

BYTES = "BYTES"  # the protocol's name of the type
LENGTH = struct.Struct("<I")
OBJECTS: np.dtype[np.generic] = np.dtype(object)  # how NumPy holds them


@dataclass(frozen=True)
class Strings(Unread):
    """Shape and type of an array, and its bytes in that form."""

    shape: tuple[int, ...]
    raw: bytes | memoryview
    dtype: np.dtype[np.generic] = field(default=OBJECTS, init=False)

    @classmethod
    def of(cls, array: Tensor) -> Strings:
        """An array of texts."""
        array = np.asarray(array, object)
        return cls(array.shape, packed(str(text).encode() for text in array.ravel().tolist()))

    @property
    def nbytes(self) -> int:
        """Lengths included."""
        return len(self.raw)

    def read_into(self, target: Tensor) -> None:
        """Copy the bytes there."""
        target.data[:] = memoryview(self.raw)

    def elements(self) -> Iterator[bytes]:
        """One after the other; raises ValueError where the bytes end in the middle of one."""
        raw, at = memoryview(self.raw), 0
        while at < len(raw):
            if at + LENGTH.size > len(raw):
                raise ValueError(f"{len(raw) - at} bytes follow the last element, a length has {LENGTH.size}")
            (size,) = LENGTH.unpack_from(raw, at)
            at += LENGTH.size
            if at + size > len(raw):
                raise ValueError(f"an element has {size} bytes by its length, {len(raw) - at} are left")
            yield bytes(raw[at : at + size])
            at += size

    def texts(self) -> list[str]:
        """All elements; raises ValueError for one that is no UTF-8."""
        return [element.decode() for element in self.elements()]

    def numpy(self) -> Tensor:
        """As an array of texts."""
        array = np.empty(self.size, object)
        array[:] = self.texts()
        return array.reshape(self.shape)

    def __getitem__(self, rows: slice) -> Strings:
        return self if rows == slice(None) else Strings.of(self.numpy()[rows])

    def copy(self) -> Strings:
        """With bytes of its own."""
        return Strings(self.shape, bytes(self.raw))


Value: TypeAlias = Tensor | Strings  # of an input or an output


def packed(elements: Iterable[bytes]) -> bytes:
    """Elements, each behind its length."""
    return b"".join(piece for element in elements for piece in (LENGTH.pack(len(element)), element))
