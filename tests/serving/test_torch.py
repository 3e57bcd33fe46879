"""The torch backend: the answers of ONNX Runtime, in blocks, behind the same worker; CUDA where there is one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.piece import live_of
from eunomia.serving.dispatch.options import DispatchOptions
from tests.serving.live import SIDE, running
from tests.serving.test_server import IMAGE, ask, tritongrpc

torch = pytest.importorskip("torch")
from eunomia.serving.devices.torch.network import device_of, load_torch_network  # noqa: E402
from eunomia.serving.devices.torch.operators import function_of  # noqa: E402
from eunomia.serving.models.convolutional import mobilenet_v2  # noqa: E402


def test_a_tensor_is_handed_over_as_an_array(tmp_path: Path) -> None:
    """What another device or the client gets of a half-done request; a restart cuts as before."""
    path = tmp_path / "n.onnx"
    path.write_bytes(mobilenet_v2(side=SIDE, classes=10))
    one, two = (load_torch_network(str(path), str(tmp_path), {}, 5e-4) for _ in range(2))
    shapes = {port["name"]: [2, *port["shape"][1:]] for port in one.ports["inputs"]}
    sized = load_torch_network(str(path), str(tmp_path), shapes, 5e-4)
    assert sized.description()["shapes"] == shapes, "the next device, and the next start, try it on the same"
    assert one.blocks == two.blocks
    live, half = live_of({"image": IMAGE}), one.blocks // 2
    for n in range(half):
        live = one.run_block(n, live)
    live = live_of({name: a.numpy() for name, a in live.items()})
    for n in range(half, two.blocks):
        live = two.run_block(n, live)
    whole = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"image": IMAGE})[0]
    np.testing.assert_allclose(live["logits"].numpy(), whole, rtol=1e-3, atol=1e-4)


def test_a_server_with_a_torch_device(tmp_path: Path) -> None:
    block_by_block = DispatchOptions(lease_s=0.0)
    devices = [DeviceSpec("gpu", "torch")]
    with running(tmp_path, devices=devices, block_s=5e-4, dispatch=block_by_block) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        whole = ort.InferenceSession(str(tmp_path / "small.onnx"), providers=["CPUExecutionProvider"])
        answer = ask(tritongrpc, stub).as_numpy("logits")
        np.testing.assert_allclose(answer, whole.run(None, {"image": IMAGE})[0], rtol=1e-3, atol=1e-4)


def onnx_answer(kind: str, arrays: list[Any], attributes: dict[str, Any], constant: int) -> Any:
    """The same node in ONNX Runtime; inputs from ``constant`` on are weights."""
    from onnx import helper, numpy_helper

    names = [f"i{n}" for n in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)], "one",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
         for n, a in list(zip(names, arrays, strict=True))[:constant]],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(a, n) for n, a in list(zip(names, arrays, strict=True))[constant:]],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names[:constant], arrays[:constant], strict=True)))[0]


def f32(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


@pytest.mark.parametrize("kind, arrays, attributes, constant", [
    ("Conv", [f32(2, 4, 9, 7), f32(6, 2, 3, 3), f32(6)], {"pads": [1, 2, 1, 2], "group": 2, "strides": [2, 1]}, 1),
    ("Conv", [f32(1, 2, 8, 8), f32(3, 2, 3, 3)], {"pads": [0, 1, 2, 3], "dilations": [2, 1]}, 1),
    ("Conv", [f32(1, 2, 8), f32(3, 2, 3)], {}, 1),
    ("MaxPool", [f32(1, 2, 9, 9)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1),
    ("AveragePool", [f32(1, 2, 8, 8)], {"kernel_shape": [2, 4], "strides": [2, 2]}, 1),
    ("Clip", [f32(3, 4), np.float32(0.2), np.float32(0.6)], {}, 1),
    ("Gemm", [f32(3, 4), f32(5, 4), f32(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}, 1),
    ("Gemm", [f32(3, 4), f32(4, 5)], {}, 1),
    ("BatchNormalization", [f32(2, 3, 4, 4), f32(3), f32(3), f32(3), f32(3)], {"epsilon": 1e-3}, 1),
    ("ReduceMean", [f32(2, 3, 4)], {"axes": [1], "keepdims": 0}, 1),
    ("Reshape", [f32(2, 3, 4), np.array([0, -1], np.int64)], {}, 1),
    ("Flatten", [f32(2, 3, 4)], {"axis": 2}, 1), ("Flatten", [f32(2, 3, 4)], {"axis": 0}, 1),
    ("Squeeze", [f32(2, 1, 4), np.array([1], np.int64)], {}, 1),
    ("Unsqueeze", [f32(2, 4), np.array([0, 2], np.int64)], {}, 1),
    ("Transpose", [f32(2, 3, 4)], {"perm": [2, 0, 1]}, 1), ("Transpose", [f32(2, 3)], {}, 1),
    ("Concat", [f32(2, 3), f32(2, 4)], {"axis": 1}, 2), ("Softmax", [f32(2, 5)], {"axis": 1}, 1),
    ("GlobalAveragePool", [f32(2, 3, 4, 5)], {}, 1), ("LeakyRelu", [f32(2, 3) - 0.5], {"alpha": 0.2}, 1),
    ("HardSwish", [f32(2, 3) * 8 - 4], {}, 1), ("MatMul", [f32(2, 3, 4), f32(4, 5)], {}, 2),
    ("Sigmoid", [f32(2, 3)], {}, 1), ("Erf", [f32(2, 3)], {}, 1), ("Pow", [f32(2, 3), f32(2, 3)], {}, 2),
])  # fmt: skip
def test_each_operator_is_that_of_onnx_runtime(
    kind: str, arrays: Any, attributes: Any, constant: int
) -> None:
    arrays = [np.asarray(a) for a in arrays]
    constants = [None] * constant + arrays[constant:]
    mine = function_of(kind, attributes, constants)(*(torch.from_numpy(np.array(a)) for a in arrays))
    np.testing.assert_allclose(
        mine.numpy(), onnx_answer(kind, arrays, attributes, constant), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind, attributes, constants, says", [
    ("NonMaxSuppression", {}, [None], "NonMaxSuppression is not offered"),
    ("Reshape", {}, [None, None], "must be a constant"),
    ("Conv", {"auto_pad": b"SAME_UPPER"}, [None], "explicit pads"),
    ("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, [None], "leaves padding out"),
])  # fmt: skip
def test_what_is_not_offered_is_said(kind: str, attributes: Any, constants: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        function_of(kind, attributes, constants)


def test_the_gpu_is_used_where_there_is_one() -> None:
    assert device_of().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert os.environ.get("CUDA_VISIBLE_DEVICES") != "" or device_of().type == "cpu"
