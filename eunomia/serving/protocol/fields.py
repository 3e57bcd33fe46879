"""The fields of a protobuf message, found without reading it: of one that is here, and of one that still comes."""

from __future__ import annotations

from collections.abc import Iterator

from eunomia.serving.devices.messages import MAX_TENSORS
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import SMALL_BYTES
from eunomia.serving.protocol.pieces import Buffer, Pieces

MAX_FIELDS = 8 * MAX_TENSORS  # of a message: inputs, outputs, parameters, raw tensors
VARINT, DELIMITED = 0, 2
FIXED = {1: 8, 5: 4}  # bytes of a field of this kind
NONE = 2**63  # bytes of one of any other kind: no message has as many
FIELD_HEAD, WINDOW = 20, 4096  # bytes of two numbers; of what is looked at in one piece
ID_FIELD, RAW_FIELD = 3, 7  # id and raw_input_contents of a ModelInferRequest
ID, RAW = ID_FIELD << 3 | DELIMITED, RAW_FIELD << 3 | DELIMITED
STEP = 1024  # bytes of a beginning that are copied at a time: most are shorter
TORN = "the message is no ModelInferRequest: it ends in the middle of a field"


def fields_of(
    data: Pieces, at: int, end: int, whose: str, left: int = MAX_FIELDS, most: int = MAX_FIELDS
) -> Iterator[tuple[int, int, int, int]]:
    """Number, start, and place of the bytes of each field between two places; raises BadRequest beyond ``left``.

    ``most``: what is said then. The number of a field without bytes of its own is 0.
    """
    window, first = memoryview(b""), at
    for _ in range(left + 1):
        if at == end:
            return
        if at + FIELD_HEAD > first + len(window) and first + len(window) < end:
            first, window = at, memoryview(data[at : min(at + WINDOW, end)].joined())
        tag, place, size = _field_at(window, at - first)
        start, at = at, first + place
        if at + size > end:
            raise BadRequest(TORN)
        yield tag >> 3 if tag & 7 == DELIMITED else 0, start, at, at + size
        at += size
    raise BadRequest(f"{whose} has more than {most} fields")


class Heading:
    """What comes of a ModelInferRequest of ``size`` bytes before its raw tensors; each field is looked at once.

    ``first``: bytes of the first raw tensor, once it is known to come; ``left``: of the message behind it.
    """

    def __init__(self, size: int) -> None:
        self.size, self._came = size, bytearray()
        self._at = self._fields = 0  # where the next field begins, and how many came before
        self._id, self._over = (0, 0), False
        self.first = self.left = 0

    def take(self, data: Buffer) -> bool:
        """Whether with these bytes the raw tensors begin; raises BadRequest where the message ends before a field."""
        at = 0
        while not self._over and at < len(data):
            self._came += data[at : at + STEP]
            at += STEP
            if self._look():
                return True
        return False

    @property
    def content(self) -> bytes:
        """Its fields so far."""
        return bytes(self._came[: self._at])

    @property
    def unnamed(self) -> bytes:
        """Its fields so far without the request's id: as clients say it again and again."""
        begin, end = self._id
        return bytes(self._came[:begin] + self._came[end : self._at])

    def _look(self) -> bool:
        while len(self._came) >= min(self._at + FIELD_HEAD, self.size):
            tag, place, size = _field_at(self._came, self._at)
            left = self.size - place - size
            if left < 0:
                raise BadRequest(TORN)
            self._over = tag == RAW or not left or place + size > SMALL_BYTES or self._fields == MAX_FIELDS
            if tag == RAW:
                self.first, self.left = size, left
            elif not self._over:
                self._id = (self._at, place + size) if tag == ID else self._id
                self._at, self._fields = place + size, self._fields + 1
            if self._over:
                return tag == RAW
        return False


def _field_at(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int, int]:
    """Tag of the field at a place, where its own bytes begin, and how many; raises BadRequest."""
    tag, place = _varint(data, at)
    kind = tag & 7
    if kind == VARINT:
        return tag, _varint(data, place)[1], 0
    if kind == DELIMITED:
        size, place = _varint(data, place)
        return tag, place, size
    return tag, place + FIXED.get(kind, NONE), 0


def _varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends; raises BadRequest."""
    if at < len(data) and (value := data[at]) < 0x80:  # most are short
        return value, at + 1
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise BadRequest("the message is no ModelInferRequest: a number in it does not end")
