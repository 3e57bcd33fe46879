"""What a look at the first bytes of a file says: that it is no network. No other thread waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.external import check_size
from eunomia.serving.blocks.remedy import BROKEN, EMPTY, HEADS

VARINT, EIGHT, SIZED, GROUP, END, FOUR = range(6)  # kinds of fields of a protobuf message
GRAPH = 7  # the field of an ONNX file without which there is nothing to run
MOST_FIELDS = 1000  # that are looked at
MOST_BYTES = 10  # of a number


def must_be_utf8(path: str) -> None:
    """Raises ModelError."""
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ModelError(f"its path {path!r} is no UTF-8, which the runtime cannot open; rename it")


def must_look_right(path: Path) -> None:
    """Raise ModelError for a file that is certainly no network; of others, the runtime has to tell."""
    must_be_utf8(str(path))
    try:
        if path.exists() and not path.is_file():  # nobody may ever write to a pipe, and a device has no end
            raise ModelError(f"{path}: cannot be read: it is no regular file")
        check_size(path)
        with path.open("rb") as file:
            head = file.read(max(map(len, HEADS)))
            if not head:
                raise ModelError(f"{path}: {EMPTY}")
            file.seek(0)
            if not _may_be(file, path.stat().st_size):
                why = (text for start, text in HEADS.items() if head.startswith(start))
                raise ModelError(f"{path}: {next(why, BROKEN)}")
    except (OSError, ValueError) as error:  # the second of a path with a zero in it
        raise ModelError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None


def _may_be(file: BinaryIO, size: int) -> bool:
    """Whether its fields follow each other up to its end, and a graph is among them."""
    graph = False
    for _ in range(MOST_FIELDS):
        if file.tell() == size:
            return graph
        tag = _number(file)
        if tag is None or tag >> 3 == 0:
            return False
        kind, length = tag & 7, {EIGHT: 8, FOUR: 4}.get(tag & 7, 0)
        if kind in (VARINT, SIZED):
            if (number := _number(file)) is None:
                return False
            length = number if kind == SIZED else 0
        elif kind in (GROUP, END):  # no exporter writes them
            return True
        elif not length:
            return False
        if file.tell() + length > size:
            return False
        graph |= tag == GRAPH << 3 | SIZED
        file.seek(length, 1)
    return True


def _number(file: BinaryIO) -> int | None:
    """Seven bits in each byte, the lowest first; None = there is none."""
    found = 0
    for n in range(MOST_BYTES):
        if not (byte := file.read(1)):
            return None
        found |= (byte[0] & 127) << 7 * n
        if byte[0] < 128:
            return found
    return None
