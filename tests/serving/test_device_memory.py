"""A network that asks for more memory than its device may have fails alone, in words, and the device goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from eunomia.core.errors import OutputError
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.memory import bound_memory, machine_bytes, out_of_memory
from eunomia.serving.devices.objection import Objection
from eunomia.serving.server import Server
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, ask, running

MIB = 2**20
BOUND_MIB = 700
TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], "data": [0.0] * (3 * SIDE * SIDE)}
GREEDY = """
    <ir_version: 8, opset_import: ["": 17]>
    greedy (int64[batch] size) => (float[batch] least)
    {
        zeros = ConstantOfShape (size)
        ones = Cos (zeros)
        all = Constant <value_ints = [-1]> ()
        flat = Reshape (ones, all)
        found = ReduceMax <keepdims = 1> (flat)
        least = Identity (found)
    }"""


def infer(server: Server, model: str, tensor: dict[str, Any], key: str = GOLD) -> tuple[int, str]:
    status, content = ask(server, "POST", f"/v2/models/{model}/infer", key, {"inputs": [tensor]})
    return status, json.dumps(content)


def test_only_the_request_that_asks_for_too_much_fails(tmp_path: Path) -> None:
    (tmp_path / "greedy.onnx").write_bytes(parser.parse_model(GREEDY).SerializeToString())
    with running(tmp_path, devices=[DeviceSpec("cpu", memory_bytes=BOUND_MIB * MIB)]) as server:
        assert ask(server, "POST", "/v2/repository/models/greedy/load", ADMIN)[0] == 200

        def greedy(floats: int) -> tuple[int, str]:
            return infer(
                server,
                "greedy",
                {"name": "size", "datatype": "INT64", "shape": [1], "data": [floats]},
                SILVER,
            )

        assert greedy(1000)[0] == 200
        pid = server.pool.devices[0].pid
        for _ in range(3):
            status, said = greedy(MIB * BOUND_MIB)  # four times the bound
            assert (
                status == 413 and f"it needs more memory than is left of the device's {BOUND_MIB} MiB" in said
            )
            assert infer(server, "small", TENSOR)[0] == 200
        assert greedy(MIB)[0] == 200
        assert server.pool.devices[0].pid == pid and server.pool.deaths == 0


@pytest.mark.parametrize("mib", [1, 70])  # not enough for a thread; for any network
def test_a_bound_that_leaves_no_room_is_refused_in_one_sentence(
    tmp_path: Path, mib: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Tracebacks of the process stood before it, and a remark that it was started again."""
    wanted = f"device 'cpu': it may have {mib} MiB of memory .memory_mib., and needs 130 without networks: give it more"
    spec = DeviceSpec("cpu", memory_bytes=mib * MIB)
    with (
        pytest.raises(OutputError, match=f"the server cannot start: {wanted}"),
        running(tmp_path, devices=[spec]),
    ):
        pass
    assert "Traceback" not in capfd.readouterr().err and "died" not in caplog.text


def test_without_a_bound_all_memory_is_named() -> None:
    """As it was, nothing was an error of memory then, and a request that found none was refused for its input."""
    assert machine_bytes() > 2**28
    bound_memory(0)  # none
    assert out_of_memory(ValueError("bad_alloc")) == machine_bytes() // MIB
    assert out_of_memory(ValueError("index out of range")) is None
    lacking = "Failed to allocate memory for requested buffer of size 1"
    assert out_of_memory(Objection(lacking)) == machine_bytes() // MIB
    assert out_of_memory(RuntimeError(lacking)) is None, "that of a GPU, perhaps"


@pytest.mark.parametrize(
    "said", ["std::bad_alloc", "Failed to allocate memory for requested buffer of size 1"]
)
def test_errors_of_the_runtime_are_recognised(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (5 * MIB, -1))
    assert out_of_memory(RuntimeError(said)) == 5 and out_of_memory(MemoryError()) == 5
    assert out_of_memory(RuntimeError("index out of range")) is None
