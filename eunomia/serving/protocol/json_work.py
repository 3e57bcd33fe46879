"""Numbers one by one, in JSON or protobuf: the work that grows with a client's message, and a process that does it.

A thousand numbers take a millisecond, a million a second; nobody else must wait for them. So the server's own process
reads and writes small JSON alone (``SMALL_BYTES``, ``SMALL_NUMBERS``); what is larger goes to a process. Its arguments
are a socket and the bytes of its largest message. A message is a length, JSON with the sizes of what follows, and raw
pieces.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import orjson

from eunomia.core.data import Json
from eunomia.core.workers import leave_signals_to_the_server
from eunomia.serving.devices.memory import bound_memory, machine_bytes, own_data_bytes
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, Message
from eunomia.serving.devices.ports import MOST_WORDS
from eunomia.serving.devices.strings import BYTES, Strings, Value
from eunomia.serving.protocol.errors import BadRequest, TooLarge
from eunomia.serving.protocol.infer import (
    entries_of,
    read_json,
    tensor_of_json,
)
from eunomia.serving.protocol.packed import inflate
from eunomia.serving.protocol.strings import contiguous, raw_bytes
from eunomia.serving.protocol.written import plain_numbers, too_long

SMALL_NUMBERS = 4096  # that it writes
AT_A_TIME = 65536  # numbers that become objects of Python together
EMPTY = b'"data":[]'
LENGTH_BYTES = 8
POLITE = 5  # niceness: devices and the event loop come first
# Of the process: memory as much as so many times its largest message, and what it needs itself. Numbers of 17 digits
# take 4 times their text, short ones up to 16, and columns of lists of one number 32.
TIMES, OWN_BYTES = 16, 96 * 1024**2
SHARE = 3  # no more than that part of the machine's memory, whatever the largest message
INFLATED = 4  # times what a packed message may become
NO_MEMORY = (
    "these {} bytes take more memory than JSON may, {} MiB by max_json_mib and the machine: send raw tensors "
    "(binary_data_size), or one flat list for each tensor"
)
Pieces = list[memoryview]


def take_numbers_out(body: bytes) -> tuple[bytes, list[Value | None]]:
    """A request without the numbers of its inputs, and those, None where an input has none. Raises BadRequest."""
    content = read_json(body)
    numbers: list[Value | None] = []
    for entry in entries_of(content, "inputs"):
        numbers.append(tensor_of_json(entry) if entry.get("data") is not None else None)
        entry.pop("data", None)
    rest = json.dumps(content).encode()
    if len(rest) > MOST_WORDS:
        raise BadRequest(
            f"the JSON part has {len(rest)} bytes beside the numbers of its tensors; at most {MOST_WORDS} are taken: "
            "leave out outputs and parameters"
        )
    return rest, numbers


def put_numbers_in(content: Json, numbers: Sequence[Value | None], most: float = math.inf) -> bytes:
    """A response as JSON, with the numbers of its outputs where there are any; raises TooLarge above ``most`` bytes."""
    entries = cast("list[Json]", content["outputs"])
    given = [array for array in numbers if array is not None]
    for entry, array in zip(entries, numbers, strict=True):
        if array is not None:
            entry["data"] = []
    try:
        text = orjson.dumps(content)
    except TypeError:  # an id that is no UTF-8
        text = json.dumps(content, separators=(",", ":")).encode()
    first, *others = text.split(EMPTY)  # no text holds that: a quote in it is behind a backslash
    pieces, size = [first], len(text) - len(given)  # no comma behind the last
    for array, behind in zip(given, others, strict=True):
        listed = list[bytes]()
        for part in _written(array):
            listed.append(part)
            size += len(part) + 1
            if size > most:
                raise too_long(sum(one.size for one in given), most)
        pieces += (EMPTY[:-1], b",".join(listed), b"]", behind)
    return b"".join(pieces)


def _written(array: Value) -> Iterator[bytes]:
    """Its numbers or texts as JSON, some at a time, without brackets."""
    if isinstance(array, Strings):
        texts = plain_numbers(array)
        for at in range(0, len(texts), AT_A_TIME):
            yield orjson.dumps(texts[at : at + AT_A_TIME])[1:-1]
        return
    flat = array.reshape(-1)
    for at in range(0, flat.size, AT_A_TIME):
        part = flat[at : at + AT_A_TIME]
        if np.isfinite(part).all():
            yield orjson.dumps(plain_numbers(part))[1:-1]
        else:  # orjson has no word for infinity
            yield json.dumps(plain_numbers(part), separators=(",", ":"))[1:-1].encode()


def as_text(content: Json) -> bytes:
    """Plain values as JSON, in a twentieth of the standard library's time; what is not finite is null."""
    return orjson.dumps(content)


def send(line: socket.socket, head: Message, pieces: Sequence[bytes | memoryview]) -> None:
    """One message; raises OSError when the other side is gone."""
    for piece in (opening(head, pieces), *pieces):
        line.sendall(piece)


def opening(head: Message, pieces: Sequence[bytes | memoryview]) -> bytes:
    """What stands before the pieces of a message."""
    text = json.dumps({**head, "sizes": [len(piece) for piece in pieces]}).encode()
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def receive(line: socket.socket) -> tuple[Message, Pieces]:
    """The next message; raises EOFError when the other side is gone."""
    length = int.from_bytes(_exactly(line, LENGTH_BYTES), "little")
    head = json.loads(bytes(_exactly(line, length)))
    return head, [_exactly(line, size) for size in head.pop("sizes")]


def _exactly(line: socket.socket, size: int) -> memoryview:
    room = np.empty(size, np.uint8).data  # nobody fills it with zeros first
    at = 0
    while at < size:
        read = line.recv_into(room[at:])
        if read == 0:
            raise EOFError
        at += read
    return room


def pack(numbers: Sequence[Value | None]) -> tuple[list[Message | None], Pieces]:
    """Types and shapes, and the raw arrays."""
    arrays = [None if array is None else contiguous(array) for array in numbers]
    facts: list[Message | None] = [
        None if a is None else {"datatype": DATATYPE_OF[a.dtype], "shape": list(a.shape)} for a in arrays
    ]
    return facts, [raw_bytes(a) for a in arrays if a is not None]


def unpack(facts: Sequence[Message | None], pieces: Pieces) -> list[Value | None]:
    """The arrays of ``pack``, without a copy."""
    raw = iter(pieces)
    return [None if fact is None else _unpacked(fact, next(raw)) for fact in facts]


def _unpacked(fact: Message, raw: memoryview) -> Value:
    if fact["datatype"] == BYTES:
        return Strings(tuple(fact["shape"]), raw)
    return np.frombuffer(raw, DATATYPES[fact["datatype"]]).reshape(fact["shape"])


def answer(head: Message, pieces: Pieces) -> tuple[Message, Sequence[bytes | memoryview]]:
    """Do what a message asks for, or say why not."""
    try:
        return _done(head, pieces)
    except (BadRequest, TooLarge) as error:
        return {"wrong": str(error), "large": isinstance(error, TooLarge)}, []
    except MemoryError:
        return {
            "wrong": NO_MEMORY.format(
                sum(map(len, pieces)), resource.getrlimit(resource.RLIMIT_DATA)[0] // 2**20
            ),
            "large": True,
        }, []


def _done(head: Message, pieces: Pieces) -> tuple[Message, Sequence[bytes | memoryview]]:
    if head["kind"] == "write":
        return {}, [put_numbers_in(head["content"], unpack(head["facts"], pieces), head["most"])]
    if head["kind"] == "inflate":
        return {}, [inflate(bytes(pieces[0]), head["most"])]
    rest, numbers = _taker(head["kind"])(bytes(pieces[0]))
    facts, raw = pack(numbers)
    return {"facts": facts}, [rest, *raw]


def _taker(kind: str) -> Callable[[bytes], tuple[bytes, list[Value | None]]]:
    """What takes the numbers out of a message of this kind."""
    if kind == "rpc":
        from eunomia.serving.protocol.rpc import take_contents_out

        return take_contents_out
    return take_numbers_out


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Inside, so much processor time: beyond it, the system ends this process, wherever it is."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def serve(line: socket.socket, largest: int) -> None:
    """Until the other side is gone; ``largest``: bytes of a message."""
    own, room = own_data_bytes() + OWN_BYTES, TIMES * largest
    if (there := machine_bytes()) > 0:
        room = min(room, there // SHARE)
    while True:
        gc.collect()
        gc.freeze()  # nothing that a message holds is in a circle, and to look for some doubles the time of lists
        try:
            head, pieces = receive(line)
        except EOFError:
            return
        _taker(head["kind"])  # which may have to be imported
        bound_memory(own + max(room, INFLATED * head.get("most", 0)))
        with within(head["seconds"]):
            answered = answer(head, pieces)
        send(line, *answered)
        del head, pieces, answered


def main(descriptor: int, largest: int) -> None:
    """Entry point of the process."""
    leave_signals_to_the_server()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.nice(POLITE)
    gc.disable()
    with contextlib.suppress(ConnectionError):
        serve(socket.socket(fileno=descriptor), largest)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
