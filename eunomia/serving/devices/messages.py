"""What front end and worker tell each other: small JSON objects in packets, nothing that could run code.

orjson writes and reads them: between two runs a device does nothing else, with cold caches (a message written and one
read took 60 us with ``json``, 15 with this).

Front end to worker: ``load`` (model, path), ``unload`` (model), ``run`` (ticket, request, model, first, last, inputs,
room), ``fetch`` (request, room), ``forget`` (request), ``stop``.
Worker to front end: ``ready``, ``loaded`` (model, ports, blocks), ``refused`` (model, why), ``done`` (ticket, next
block, when the first block began and each ended, span of the run with its copies, all on the monotonic clock,
outputs) and ``failed`` (ticket, why), both
with the tickets of queued runs that were ``skipped``; ``skipped`` (ticket) alone; ``tensors`` (request).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

MAX_PACKET = 128 * 1024
Message = dict[str, Any]

# Names of the Open Inference Protocol, of NumPy and of ONNX Runtime for what may cross the arena.
DATATYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_), "UINT8": np.dtype("u1"), "UINT16": np.dtype("<u2"), "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"), "INT8": np.dtype("i1"), "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"), "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
}  # fmt: skip
DATATYPE_OF = {dtype: name for name, dtype in DATATYPES.items()}


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a line that keeps packets whole."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET)
    return ends


def send(line: socket.socket, message: Message) -> None:
    """One packet; raises OSError when the other side is gone."""
    line.send(orjson.dumps(message))


def receive(line: socket.socket, *, wait: bool = True) -> Message | None:
    """The next packet; None when the other side is gone. Without ``wait``, raises BlockingIOError if there is none."""
    try:
        packet = line.recv(MAX_PACKET, 0 if wait else socket.MSG_DONTWAIT)
    except ConnectionResetError:
        return None
    if not packet:
        return None
    message: Message = orjson.loads(packet)
    return message


def place(tensors: Sequence[tuple[str, Any]], offset: int) -> tuple[list[Message], int]:
    """Where arrays would lie, one after the other from ``offset``, aligned to 64 bytes; and the end."""
    placed = []
    for name, array in tensors:
        placed.append(
            {"name": name, "datatype": DATATYPE_OF[array.dtype], "shape": list(array.shape), "offset": offset}
        )
        offset += -(-array.nbytes // 64) * 64
    return placed, offset


def array_at(memory: memoryview, tensor: Message) -> npt.NDArray[Any]:
    """The array that a message points to, without a copy; raises TypeError if it would reach beyond."""
    return np.ndarray(tensor["shape"], DATATYPES[tensor["datatype"]], memory, tensor["offset"])
