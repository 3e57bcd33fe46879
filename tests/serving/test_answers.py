"""Answers that nobody reads hold room of their tenant's alone, and not for ever."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser
from tritonclient import grpc as tritongrpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

from eunomia.serving.devices.answers import starts_of
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.copying import Part
from eunomia.serving.devices.messages import DATATYPE_OF, Placed, array_at, place
from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.protocol.infer import InferRequest
from eunomia.serving.protocol.rpc import framed, write_message
from eunomia.serving.protocol.strings import whole_bytes
from tests.hostile import frames
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, GOLD, ask, running

COUNT = 4 * 1024**2
ECHO = '<ir_version: 8, opset_import: ["" : 17]> echo (float[n] x) => (float[n] y) { y = Neg (x) }'


def answered(port: int, message: bytes) -> socket.socket | None:
    """The connection once a good answer begins; None while the server still tries smaller inputs."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE_S)
    line.connect(("127.0.0.1", port))
    line.sendall(message)
    first = line.recv(15)
    if first == b"HTTP/1.1 200 OK":
        return line
    line.close()
    assert first == b"HTTP/1.1 503 Se"
    return None


def test_an_answer_that_is_not_read_is_counted_and_ends(tmp_path: Path) -> None:
    """On the loop that `serve` takes: asyncio's own keeps it without bound in Python 3.13.0 (CVE-2024-12254)."""
    run = pytest.importorskip("uvloop").run
    sizes = {"arena_bytes": 64 * 1024**2, "max_body_bytes": 32 * 1024**2}
    limits = ConnectionLimits(body_s=2.0, buffered_bytes=64 * 1024**2)
    with running(tmp_path, run, connections=limits, **sizes) as server:
        (tmp_path / "echo.onnx").write_bytes(parser.parse_model(ECHO).SerializeToString())
        assert ask(server, "POST", "/v2/repository/models/echo/load", ADMIN)[0] == 200
        tensor = {
            "name": "x",
            "datatype": "FP32",
            "shape": [COUNT],
            "parameters": {"binary_data_size": 4 * COUNT},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        lines = (
            f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GOLD}\r\n"
            f"Inference-Header-Content-Length: {len(head)}\r\nContent-Length: {len(head) + 4 * COUNT}\r\n\r\n"
        )
        message = lines.encode() + head + bytes(4 * COUNT)
        with until(lambda: answered(server.http_port, message)) as line:
            until(lambda: server.service.bodies.held.get("gold", 0) >= 4 * COUNT)
            until(lambda: not server.service.bodies.held)
            got = 15
            while piece := received(line):
                got += len(piece)
        assert got < 4 * COUNT, "its connection has ended"


def received(line: socket.socket) -> bytes:
    try:
        return line.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_large_answer_that_is_read_is_whole(tmp_path: Path) -> None:
    with running(tmp_path, arena_bytes=64 * 1024**2, max_body_bytes=32 * 1024**2) as server:
        (tmp_path / "echo.onnx").write_bytes(parser.parse_model(ECHO).SerializeToString())
        assert ask(server, "POST", "/v2/repository/models/echo/load", ADMIN)[0] == 200
        tensor = {"name": "x", "datatype": "FP32", "shape": [60_000], "data": [0.5] * 60_000}
        status, content = ask(server, "POST", "/v2/models/echo/infer", GOLD, {"inputs": [tensor]})
        assert status == 200 and content["outputs"][0]["data"] == [-0.5] * 60_000


SIZE = (
    '<ir_version: 8, opset_import: ["" : 17]> size (int64[n] x) => (float[m] y) { y = ConstantOfShape (x) }'
)
MIB = 1024**2


@given(
    st.lists(st.tuples(st.sampled_from([np.float32, np.int64, np.bool_]), st.integers(0, 300)), max_size=3)
)
def test_a_message_written_in_pieces_is_what_protobuf_writes(tensors: list[tuple[type, int]]) -> None:
    arrays = {f"y{n}": np.arange(size).astype(kind) for n, (kind, size) in enumerate(tensors)}
    pieces = write_message(InferRequest("net", "", "id", (), (), True, {}), "3", arrays, {})
    twin = pb.ModelInferResponse(model_name="net", model_version="3", id="id")
    for name, array in arrays.items():
        twin.outputs.add(name=name, datatype=DATATYPE_OF[array.dtype], shape=array.shape)
        twin.raw_output_contents.append(array.tobytes())
    assert pb.ModelInferResponse.FromString(b"".join(pieces)) == twin
    stream = pb.ModelStreamInferResponse.FromString(b"".join(framed(2, pieces)))
    assert stream == pb.ModelStreamInferResponse(infer_response=twin)


def asked(count: int) -> list[tritongrpc.InferInput]:
    tensor = tritongrpc.InferInput("x", [1], "INT64")
    tensor.set_data_from_numpy(np.array([count]))
    return [tensor]


def test_answers_over_grpc_that_are_not_taken_are_counted_and_bounded(tmp_path: Path) -> None:
    limits = ConnectionLimits(buffered_bytes=64 * MIB)
    with running(tmp_path, connections=limits, arena_bytes=128 * MIB) as server:
        (tmp_path / "size.onnx").write_bytes(parser.parse_model(SIZE).SerializeToString())
        assert ask(server, "POST", "/v2/repository/models/size/load", ADMIN)[0] == 200
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")

        def whole() -> bool:
            found = stub.infer("size", asked(4 * MIB), headers={"authorization": f"Bearer {GOLD}"})
            return bool(np.array_equal(found.as_numpy("y"), np.zeros(4 * MIB, np.float32)))

        free = server.pool.arena.free_bytes
        assert whole()
        until(lambda: not server.service.bodies.held)
        assert server.pool.arena.free_bytes == free

        message = pb.ModelInferRequest(model_name="size")
        message.inputs.add(name="x", datatype="INT64", shape=[1])
        message.raw_input_contents.append((4 * MIB).to_bytes(8, "little"))
        with socket.create_connection(("127.0.0.1", server.grpc_port)) as line:
            line.sendall(frames.greeting() + frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0"))
            for stream in range(1, 21, 2):
                line.sendall(frames.call(stream, "ModelInfer", GOLD))
                line.sendall(frames.message(stream, message.SerializeToString(), flags=frames.END_STREAM))
            until(lambda: server.pool.dispatcher.finished >= 2)
            until(lambda: 16 * MIB <= server.service.bodies.held.get("gold", 0) <= 33 * MIB)
            until(lambda: not server.service.limits.active("gold"))
            with pytest.raises(InferenceServerException, match="requests and answers on their way"):
                whole()
        until(lambda: not server.service.bodies.held)
        assert whole() and server.pool.arena.free_bytes == free

        until(lambda: not server.service.bodies.held)
        starts = server.pool.dispatcher.starts
        server.service.bodies.take("gold", 30 * MIB)
        with pytest.raises(InferenceServerException, match="requests and answers on their way"):
            whole()
        assert server.pool.dispatcher.starts == starts, "it would run in vain"
        server.service.bodies.give_back("gold", 30 * MIB)
        assert whole()


def test_an_answer_over_grpc_that_is_not_taken_ends_its_call_and_no_other(tmp_path: Path) -> None:
    """Large or small, single or in a stream: a window of nothing is no way to keep the server's memory."""
    limits, calls = ConnectionLimits(body_s=2.0), (("ModelInfer", 10), ("ModelInfer", MIB),
                                                   ("ModelStreamInfer", 10), ("ModelStreamInfer", MIB))  # fmt: skip
    with running(tmp_path, connections=limits, arena_bytes=64 * MIB) as server:
        (tmp_path / "size.onnx").write_bytes(parser.parse_model(SIZE).SerializeToString())
        assert ask(server, "POST", "/v2/repository/models/size/load", ADMIN)[0] == 200
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        mine = {"authorization": f"Bearer {GOLD}"}
        assert stub.infer("size", asked(1), headers=mine).as_numpy("y").shape == (1,)
        with socket.create_connection(("127.0.0.1", server.grpc_port)) as line:
            line.settimeout(PATIENCE_S)
            line.sendall(frames.greeting() + frames.frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0"))
            for number, (method, count) in enumerate(calls):
                message = pb.ModelInferRequest(model_name="size")
                message.inputs.add(name="x", datatype="INT64", shape=[1])
                message.raw_input_contents.append(count.to_bytes(8, "little"))
                line.sendall(frames.call(2 * number + 1, method, GOLD))
                line.sendall(frames.message(2 * number + 1, message.SerializeToString()))
                if method == "ModelInfer":
                    line.sendall(frames.frame(0, frames.END_STREAM, 2 * number + 1))
            until(lambda: server.service.bodies.held.get("gold", 0) > 2 * 4 * MIB)
            until(lambda: not server.service.bodies.held)
            came = b""
            while frames.seen(came).count("stream ended") < len(calls):
                assert (piece := received(line))
                came += piece
            line.sendall(frames.call(99, "ServerLive", "") + frames.message(99, b"", flags=1))
            line.sendall(frames.frame(frames.WINDOW, 0, 99, (100).to_bytes(4, "big")))
            while b"\0\0\0\0\2\x08\1" not in came:
                assert (piece := received(line)), "the connection goes on"
                came += piece
        assert stub.infer("size", asked(1), headers=mine).as_numpy("y").shape == (1,)


@pytest.mark.parametrize("rows", [slice(None), slice(2, 3)])
def test_what_leaves_the_arena_is_bytes_that_are_joined_without_a_copy(rows: slice) -> None:
    arena = Arena.create(64 * 1024)
    slot = arena.allocate(64)
    numbers = np.arange(12, dtype=np.int16).reshape(4, 3)
    placed: list[Placed] = place([("y", numbers)], slot.offset)[0]
    array_at(memoryview(arena.memory), placed[0])[...] = numbers
    view = array_at(memoryview(arena.memory), placed[0])[rows]
    part = Part(None, True, {"y": view}, view.nbytes, arena.descriptor, starts_of(placed, rows))  # type: ignore[arg-type]
    copied = part.copied()["y"]
    arena.release(slot)
    array_at(memoryview(arena.memory), placed[0])[...] = 0
    assert isinstance(copied, np.ndarray) and copied.tolist() == numbers[rows].tolist()
    assert isinstance(whole_bytes(copied), bytes) and whole_bytes(copied) is copied.base
    assert not isinstance(whole_bytes(copied[:, :2].copy()), bytes)
    del view
    arena.close()
