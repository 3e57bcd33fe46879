"""Everything that reads a stranger's bytes, as functions of bytes, and inputs to begin with.

Hypothesis mutates the seeds in tests; ``python -m tests.serving.fuzz`` looks for inputs that reach new code.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def http(data: bytes) -> None:
    """The first two bytes say where the JSON part ends."""
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_request, split_body
    from eunomia.serving.protocol.json_work import put_numbers_in, take_numbers_out
    from eunomia.serving.protocol.written import write_response

    length = int.from_bytes(data[:2], "little") if len(data) > 2 and data[0] % 4 else None
    with suppress(ServingError):
        header, raw = split_body(memoryview(data[2:]), length)
        with suppress(ServingError):
            take_numbers_out(header)
        request = read_request("m", "", header, raw)
        arrays = {t.name: t.data for t in request.inputs if hasattr(t.data, "dtype")}
        if not request.outputs:
            written = write_response(request, "1", arrays, {})
            put_numbers_in(written.content, written.numbers)


def grpc(data: bytes) -> None:
    """Bytes of a message; what protobuf refuses never reaches the server's code."""
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import service_pb2 as pb

    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.fields import Heading
    from eunomia.serving.protocol.rpc import (
        foretold,
        parse_message,
        read_message,
        split_message,
        take_contents_out,
    )

    with suppress(ServingError):
        heading = Heading(len(data))
        if heading.take(data[:7]) or heading.take(data[7:]):
            foretold(heading.content, heading.first, heading.left)
    with suppress(DecodeError, ServingError):
        pieces, raw = split_message(data, len(data))
        rest = bytes(pieces.joined())
        read_message(parse_message(rest), raw)
        read_message(pb.ModelInferRequest.FromString(data))
        take_contents_out(rest)


def policy(data: bytes) -> None:
    """The body of PUT /v2/eunomia/policy."""
    from eunomia.serving.fronts.policy import read_placing
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_json

    with suppress(ServingError):
        read_placing(read_json(data))


def grant(data: bytes) -> None:
    """The body of PUT /v2/eunomia/tenants/NAME."""
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_json
    from eunomia.serving.tenants.content import as_json, read_grant

    with suppress(ServingError):
        as_json(read_grant("a", read_json(data)))


def journal(data: bytes) -> None:
    """A journal of the ledger with anything in it."""
    from eunomia.serving.observe.journal import read_lines

    path = Path(tempfile.gettempdir()) / "eunomia-fuzz-journal.log"
    path.write_bytes(data)
    list(read_lines(path))


def twin(data: bytes) -> None:
    """A recording as the command line reads it."""
    from eunomia.core.errors import EunomiaError
    from eunomia.study.serving.twin import twin_of

    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError):
        return
    with suppress(EunomiaError):
        twin_of(content)


TARGETS: dict[str, Callable[[bytes], None]] = {
    read.__name__: read for read in (http, grpc, policy, grant, journal, twin)
}
BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}'
SEEDS: dict[str, bytes] = {
    "http": len(BODY).to_bytes(2, "little") + BODY + b"\0" * 4,
    "policy": b'{"name":"x.json","files":{"x.json":"e30="},"evidence":{},"instead_of":"edf"}',
    "grant": b'{"weight":1,"role":"admin","models":["a"],"promises":{"*":{"deadline_s":1,"slo":{"target":0.9}}}}',
    "journal": b'00000000 [1.0,"t","m","hit",0.1,0.1]\n',
    "twin": b'{"format":3,"policy":"edf","late":"last","devices":["a"],"networks":{"m":[[1]]},"pairs":[],'
            b'"turn_s":0,"spread":0,'
            b'"requests":[[0,"t","m",1,1,"hit",1,1,0,0]]}',
}  # fmt: skip
