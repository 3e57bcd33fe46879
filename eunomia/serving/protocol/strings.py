"""String tensors as clients send them: checked before anybody else reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from eunomia.serving.devices.strings import BYTES, LENGTH, Elements, Strings, Value, packed
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.nesting import UNLIKE, check_nesting, flattened

MAX_STRINGS = 4096  # of one request: every request but this one waits while they are looked through
MAX_TEXT_BYTES = 1024 * 1024


class Declared(Protocol):
    """An input, as far as its head says."""

    @property
    def datatype(self) -> str:
        """The protocol's name of its type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""

    @property
    def nbytes(self) -> int:
        """Its bytes."""


class Bound:
    """That of one string tensor holds for all of a request together."""

    def __init__(self) -> None:
        self._tensors = self._count = self._size = 0

    def add(self, one: Declared) -> None:
        """One more tensor, of any type; raises BadRequest."""
        if one.datatype != BYTES:
            return
        self._tensors += 1
        self._count += math.prod(one.shape)
        self._size += one.nbytes
        if self._count > MAX_STRINGS or self._size > MAX_TEXT_BYTES:
            raise BadRequest(
                f"{self._count} strings in {self._size} bytes in {self._tensors} tensors; at most {MAX_STRINGS} in "
                f"{MAX_TEXT_BYTES} are taken of one request: send fewer rows"
            )


def check_texts(name: str, wanted: int, size: int) -> None:
    """So many texts in so many bytes: raises BadRequest, before they are put together."""
    if wanted > MAX_STRINGS or size > MAX_TEXT_BYTES:
        raise BadRequest(
            f"tensor '{name}': {wanted} strings in {size} bytes; at most {MAX_STRINGS} in {MAX_TEXT_BYTES} are "
            "taken: send fewer rows"
        )


def raw_strings(name: str, shape: tuple[int, ...], raw: bytes | memoryview) -> Strings:
    """Elements behind their lengths, without a copy; raises BadRequest."""
    wanted = math.prod(shape)
    check_texts(name, wanted, len(raw))
    elements = Elements.of(raw, wanted + 1)
    try:
        elements.check()
    except UnicodeDecodeError as error:
        raise _no_utf8(name, error) from None
    except ValueError as error:
        raise BadRequest(f"tensor '{name}': {error}") from None
    return _counted(name, Strings(shape, raw), len(elements.starts))


def listed_strings(name: str, shape: tuple[int, ...], elements: Iterable[bytes]) -> Strings:
    """Elements one by one; raises BadRequest."""
    given = list(elements)
    check_texts(name, math.prod(shape), sum(map(len, given)) + LENGTH.size * len(given))
    try:
        list(map(bytes.decode, given))
    except UnicodeDecodeError as error:
        raise _no_utf8(name, error) from None
    return _counted(name, Strings(shape, packed(given)), len(given))


def json_strings(name: str, shape: tuple[int, ...], data: object) -> Strings:
    """A JSON list of texts, flat or nested; raises BadRequest."""
    level, _, sizes = flattened(name, data)
    try:
        elements = list(map(str.encode, level))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise _no_texts(name, level) from None
    raw = packed(elements)
    check_texts(name, math.prod(shape), len(raw))
    strings = _counted(name, Strings(shape, raw), len(elements))
    check_nesting(name, tuple(sizes), shape)
    return strings


def _no_texts(name: str, elements: list[object]) -> BadRequest:
    """What is wrong with the first that is no text."""
    for one in elements:
        if isinstance(one, list):
            return BadRequest(f"tensor '{name}': {UNLIKE}")
        if not isinstance(one, str):
            return BadRequest(f"tensor '{name}': BYTES holds {one!r:.50}; a text is expected")
        try:
            one.encode()
        except UnicodeEncodeError as error:  # half of a pair of surrogates
            return BadRequest(f"tensor '{name}': {one!r:.50} is no UTF-8 text: {error.reason}")
    raise AssertionError("each of them is a text")


def _no_utf8(name: str, error: UnicodeDecodeError) -> BadRequest:
    return BadRequest(f"tensor '{name}': an element is no UTF-8 text: {error.reason}")


def _counted(name: str, strings: Strings, given: int) -> Strings:
    """As many as its shape says; raises BadRequest."""
    wanted = strings.size
    if given != wanted:
        given, more = min(given, wanted + 1), " or more" if given > wanted else ""
        raise BadRequest(
            f"tensor '{name}': {given} strings{more} given, {list(strings.shape)} needs {wanted}"
        )
    return strings


def contiguous(value: Value) -> Value:
    """In one piece, row by row; a single number keeps its shape."""
    return value if isinstance(value, Strings) else np.asarray(value, order="C")


def whole_bytes(value: Value) -> bytes | memoryview:
    """The same; the object itself where the tensor is all of one ``bytes``, for Python joins only those freely."""
    base: object = None if isinstance(value, Strings) else value.base
    return base if isinstance(base, bytes) and len(base) == value.nbytes else raw_bytes(value)


def raw_bytes(value: Value) -> memoryview:
    """The bytes of a contiguous tensor of any type and size, without a copy."""
    return memoryview(value.raw) if isinstance(value, Strings) else value.reshape(-1).view(np.uint8).data
