"""Networks bound to places in the arena answer like any other run, where they may be bound at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.serving.devices.arena import FLAGS, Arena
from eunomia.serving.devices.bound import MOST, Bound
from eunomia.serving.devices.messages import array_at, place
from eunomia.serving.devices.ports import ports_of
from tests.serving.test_exports import WIDTH, dense

STRANGERS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
ROOM = 64 * 1024


def made(model: onnx.ModelProto) -> tuple[Any, Bound]:
    session: Any = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session, Bound(session, ports_of(model))


def run(arena: Arena, bound: Bound, feed: dict[str, Any], at: int, room: int = ROOM) -> list[Any] | None:
    memory = memoryview(arena.memory)
    placed, _ = place(list(feed.items()), at)
    for tensor in placed:
        array_at(memory, tensor)[...] = feed[tensor["name"]]
    found = bound.run(memory, placed, [FLAGS + ROOM, room])
    return None if found is None else [array_at(memory, tensor).copy() for tensor in found]


@pytest.mark.parametrize("name, follows", [
    ("test_add_bcast", True), ("test_softmax_axis_1", True), ("test_gemm_all_attributes", True),
    ("test_conv_with_strides_padding", True), ("test_split_equal_parts_1d_opset13", True), ("test_and3d", True),
    ("test_reshape_reordered_all_dims", True), ("test_layer_normalization_3d_axis1_epsilon", True),
    ("test_nonzero_example", False), ("test_compress_0", False), ("test_nonmaxsuppression_two_classes", False),
])  # fmt: skip
def test_networks_of_strangers(name: str, follows: bool) -> None:
    """ONNX's own examples: bound where shapes of outputs follow from inputs, and left alone where they do not."""
    folder = STRANGERS / name
    model = onnx.load(folder / "model.onnx")
    if not follows:  # the example fixes the shape that its own data give
        for size in model.graph.output[0].type.tensor_type.shape.dim:
            size.dim_param = "found"
    session, bound = made(model)
    data = sorted((folder / "test_data_set_0").glob("input_*.pb"))
    feed = {
        port.name: onnx.numpy_helper.to_array(onnx.load_tensor(path))
        for port, path in zip(session.get_inputs(), data, strict=True)
    }
    found = run(Arena.create(4 * ROOM), bound, feed, FLAGS)
    if not follows:
        assert found is None
        return
    assert found is not None
    for array, expected in zip(found, session.run(None, feed), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_each_place_and_shape_has_its_own_binding_and_reads_what_lies_there_now() -> None:
    session, bound = made(dense())
    arena, rng = Arena.create(4 * ROOM), np.random.default_rng(0)
    for n in range(30):
        feed = {"x": rng.standard_normal((1 + n % 3, WIDTH), np.float32)}
        found = run(arena, bound, feed, FLAGS + 4096 * (n % 2))
        assert found is not None
        np.testing.assert_array_equal(found[0], session.run(None, feed)[0])
    assert len(bound._kept) == 6 <= MOST


def test_a_declared_shape_that_is_wrong_is_left_to_the_other_way() -> None:
    model = onnx.load(STRANGERS / "test_nonzero_example" / "model.onnx")
    _, bound = made(model)
    arena = Arena.create(4 * ROOM)
    assert run(arena, bound, {"condition": np.array([[1, 0], [1, 1]], np.bool_)}, FLAGS) is not None
    assert run(arena, bound, {"condition": np.zeros((2, 2), np.bool_)}, FLAGS) is None


def test_outputs_without_room_and_runs_that_fail_are_left_to_the_other_way() -> None:
    _, bound = made(dense())
    arena, feed = Arena.create(4 * ROOM), {"x": np.ones((4, WIDTH), np.float32)}
    assert run(arena, bound, feed, FLAGS, room=4 * WIDTH * 4 - 1) is None
    assert run(arena, bound, feed, FLAGS, room=4 * WIDTH * 4) is not None
    neighbour = np.frombuffer(arena.memory, np.uint8)[FLAGS + ROOM :]
    neighbour[:] = 7  # where outputs lay there is somebody else's tensor now
    assert run(arena, bound, feed, FLAGS, room=0) is None and (neighbour == 7).all()
    model = onnx.load(STRANGERS / "test_gather_0" / "model.onnx")
    _, bound = made(model)
    wrong = {"data": np.ones((5, 4, 3, 2), np.float32), "indices": np.array([0, 1, 99], np.int64)}
    assert run(arena, bound, wrong, FLAGS) is None and not bound._kept
