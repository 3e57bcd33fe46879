"""Messages between front end and worker: small JSON objects in packets, nothing that could run code.

orjson writes and reads them: between two runs a device does nothing else. What it refuses (an error that names a file
whose name is no UTF-8) goes through ``json``. No message holds NaN or infinity, which orjson writes as null. A packet
is short: the kernel refuses long ones, and to make room for one costs more than to read it. What is longer (a network
with hundreds of tensors of long names) lies in a file without a name, which its packet hands over.

Front end to worker: ``load`` (model, path, what is known, ``polite``: after all other work of its core), ``unload``
(model). ``run`` (ticket, request, model, first, last, inputs, room), ``fetch`` (request, room), ``forget`` (request),
``try`` (number, model, shapes, one), ``stop``.
Worker to front end: ``ready``, ``loaded`` (model, ports, blocks), ``refused`` (model, why), ``skipped`` (ticket),
``tensors`` (request), ``tried`` (number, seconds, spent, why). ``done`` (ticket, next block, times, outputs): when the
first block began and each ended, and the span of the run with its copies, all on the monotonic clock. ``failed``
(ticket, why, span, whether for want of ``memory``). Both also have the run's own processor time (``own_s``), and the
tickets of queued runs that were ``skipped``.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypedDict

import ml_dtypes
import numpy as np
import orjson

from eunomia.core.arrays import Tensor
from eunomia.serving.devices.arena import FLAGS, nameless_file
from eunomia.serving.devices.strings import BYTES, OBJECTS, Strings, Value

MAX_TENSORS = 256  # of a request, and of a network: a decoder of 120 layers takes two for each
MAX_PACKET = 32 * 1024
ROOM = socket.CMSG_SPACE(4)  # bytes of one descriptor beside a packet
ELSEWHERE = b"-"  # a packet that hands a file over
Message = dict[str, Any]  # ``kind`` says which other keys there are


class Port(TypedDict):
    """An input or an output of a network. ``shape``: -1 = any size."""

    name: str
    datatype: str
    shape: list[int]


class Ports(TypedDict):
    """All of them; ``key`` tells versions of the network's blocks apart.

    ``unranked``: names of inputs of which nobody says how many axes they have: one is taken. ``axes``: of each input,
    what the file calls its axes. ``labels``: of outputs, the names of their classes. ``reshapes``: of ports that
    clients see in another shape than the network has, both. ``formats``: of inputs, how pictures lie in them.
    ``most_rows``: of a request, as clients shall hear it; 0 = as many as fit.
    """

    inputs: list[Port]
    outputs: list[Port]
    key: NotRequired[str]
    unranked: NotRequired[list[str]]
    axes: NotRequired[dict[str, list[str]]]
    labels: NotRequired[Mapping[str, Sequence[str]]]
    formats: NotRequired[Mapping[str, str]]
    most_rows: NotRequired[int]
    reshapes: NotRequired[Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]]


class Placed(Port):
    """A tensor in the arena. ``size``: bytes, of strings alone."""

    offset: int
    size: NotRequired[int]


class Sized(Protocol):
    """What has to be known of a tensor to find it a place."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of an element."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes."""
        ...


# Names of the Open Inference Protocol, of NumPy and of ONNX Runtime for what may cross the arena.
DATATYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    BYTES: OBJECTS,
}
DATATYPE_OF = {dtype: name for name, dtype in DATATYPES.items()}


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a line that keeps packets whole."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * MAX_PACKET)
    return ends


def send(line: socket.socket, message: Message) -> None:
    """One packet; raises OSError when the other side is gone."""
    try:
        packet = orjson.dumps(message)
    except TypeError:  # text that is no UTF-8
        packet = json.dumps(message).encode()
    if len(packet) <= MAX_PACKET:
        line.send(packet)
        return
    with os.fdopen(nameless_file(), "wb") as file:
        file.write(packet)
        file.flush()
        socket.send_fds(line, [ELSEWHERE], [file.fileno()])


def receive(line: socket.socket, *, wait: bool = True) -> Message | None:
    """The next message; None when the other side is gone. Without ``wait``, raises BlockingIOError if there is none."""
    try:
        packet, handed, _, _ = line.recvmsg(MAX_PACKET, ROOM, 0 if wait else socket.MSG_DONTWAIT)
    except ConnectionResetError:
        return None
    if not packet:
        return None
    if handed:
        packet = _content_of(handed[0][2])
    try:
        message: Message = orjson.loads(packet)
    except orjson.JSONDecodeError:
        message = json.loads(packet)
    return message


def _content_of(descriptor: bytes) -> bytes:
    """All of a file that was handed over, which is closed then."""
    with os.fdopen(int.from_bytes(descriptor, sys.byteorder), "rb") as file:
        file.seek(0)  # both sides share the place, which is the end of what was written
        return file.read()


def place(tensors: Sequence[tuple[str, Sized]], offset: int) -> tuple[list[Placed], int]:
    """Where arrays would lie, one after the other from ``offset``, aligned to 64 bytes; and the end."""
    placed: list[Placed] = []
    for name, array in tensors:
        datatype = DATATYPE_OF[array.dtype]
        one: Placed = {"name": name, "datatype": datatype, "shape": list(array.shape), "offset": offset}
        if datatype == BYTES:
            one["size"] = array.nbytes
        placed.append(one)
        offset += -(-array.nbytes // 64) * 64
    return placed, offset


def array_at(memory: memoryview, tensor: Placed) -> Tensor:
    """The array that a message points to, without a copy; of strings, their bytes.

    Raises ValueError if it would reach beyond.
    """
    dtype, shape, offset = DATATYPES[tensor["datatype"]], tensor["shape"], tensor["offset"]
    if tensor["datatype"] == BYTES:
        dtype, shape = np.dtype(np.uint8), [tensor["size"]]
    if min(shape, default=0) < 0 or not FLAGS <= offset <= len(memory) - math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"{tensor['datatype']} {shape} at {offset} lies outside the arena of {len(memory)} bytes"
        )
    return np.ndarray(shape, dtype, memory, offset)


def value_at(memory: memoryview, tensor: Placed) -> Value:
    """The tensor that a message points to, without a copy."""
    array = array_at(memory, tensor)
    return Strings(tuple(tensor["shape"]), array.data) if tensor["datatype"] == BYTES else array
