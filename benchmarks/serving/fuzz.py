"""Coverage-guided fuzzing of everything that reads a stranger's bytes: ``python -m benchmarks.serving.fuzz http``.

Needs atheris (``pip install atheris``; wheels exist for Linux). Targets: ``http`` (a body with binary tensors),
``grpc`` (a ModelInferRequest), ``policy`` (the body that puts a policy in), ``grant`` (a tenant), ``journal`` (a
damaged ledger), ``twin`` (a recording). Whatever is neither read nor refused in words is a finding, and is written
down as ``crash-...``. ``--seconds N`` (default 60); a folder of inputs to begin with may follow.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def http(data: bytes) -> None:
    """The first two bytes say where the JSON part ends."""
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_request, write_response

    length = int.from_bytes(data[:2], "little") if len(data) > 2 and data[0] % 4 else None
    try:
        request = read_request("m", "", memoryview(data[2:]), length)
    except ServingError:
        return
    arrays = {t.name: t.data for t in request.inputs if hasattr(t.data, "dtype")}
    if not request.outputs:
        write_response(request, "1", arrays, {})


def grpc(data: bytes) -> None:
    """Bytes of a message; what protobuf refuses never reaches the server's code."""
    from google.protobuf.message import DecodeError
    from tritonclient.grpc import service_pb2 as pb

    from eunomia.serving.fronts.grpc import read_message
    from eunomia.serving.protocol.errors import ServingError

    try:
        message = pb.ModelInferRequest.FromString(data)
    except DecodeError:
        return
    try:
        read_message(message)
    except ServingError:
        return


def policy(data: bytes) -> None:
    """The body of PUT /v2/eunomia/policy."""
    from eunomia.serving.fronts.policy import read_placing
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_json

    try:
        read_placing(read_json(data))
    except ServingError:
        return


def grant(data: bytes) -> None:
    """The body of PUT /v2/eunomia/tenants/NAME."""
    from eunomia.serving.protocol.errors import ServingError
    from eunomia.serving.protocol.infer import read_json
    from eunomia.serving.tenants.content import as_json, read_grant

    try:
        as_json(read_grant("a", read_json(data)))
    except ServingError:
        return


def journal(data: bytes) -> None:
    """A journal of the ledger with anything in it."""
    from eunomia.serving.observe.ledger import read_lines

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
    try:
        twin_of(content)
    except EunomiaError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    "http": http, "grpc": grpc, "policy": policy, "grant": grant, "journal": journal, "twin": twin,
}  # fmt: skip
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


def main() -> None:
    """Entry point."""
    try:
        import atheris
    except ImportError:
        sys.exit("this needs atheris: pip install atheris")
    words = sys.argv[1:]
    seconds = 60
    if "--seconds" in words:
        place = words.index("--seconds")
        seconds = int(words[place + 1])
        del words[place : place + 2]
    if not words or words[0] not in TARGETS:
        sys.exit(f"name a target: {', '.join(TARGETS)}")
    target = TARGETS[words[0]]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "seed").write_bytes(SEEDS.get(words[0], b""))
        with atheris.instrument_imports(include=["eunomia"], enable_loader_override=False):
            target(SEEDS.get(words[0], b""))
        atheris.Setup(
            [sys.argv[0], f"-max_total_time={seconds}", "-max_len=4096", folder, *words[1:]], target
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
